"""What a hostile message, page or name can do to the console: nothing."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client
from tests.server_process import ROOT, ServerProcess

FOLDER = ROOT / "src" / "penstock" / "doors" / "http" / "console"
SCRIPT = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'


def test_a_message_of_html_is_text(page: Page, admin: Client) -> None:
    admin.post("/topics", {"name": "hostile", "labels": {"a": SCRIPT}})
    message = {"data": SCRIPT, "attributes": {SCRIPT: SCRIPT, "__proto__": "polluted"}, "ordering_key": SCRIPT}
    admin.post(
        "/topics/hostile/messages", {"messages": [message, {"data": '{"a": "' + SCRIPT.replace('"', "'") + '"}'}]}
    )
    for place in (
        "#/topics",
        "#/topics/hostile",
        "#/topics/hostile/messages?from=0&open=0",
        "#/topics/hostile/messages?from=0&open=1",
    ):
        page.goto(f"/{place}")
        expect(page.get_by_text("<script>").first).to_be_visible()
        assert page.evaluate("window.hit") is None
        assert page.evaluate("({}).polluted") is None
    page.goto("/#/topics/hostile/messages?from=0&open=0")
    expect(page.get_by_role("article").get_by_text("__proto__")).to_be_visible()


def test_a_link_cannot_bring_script_along(page: Page) -> None:
    page.goto(
        f"/#/topics/{'%3Cscript%3Ewindow.hit%3D1%3C%2Fscript%3E'}?search=%3Cimg%20src%3Dx%20onerror%3Dwindow.hit%3D1%3E"
    )
    expect(page.get_by_role("alert")).to_be_visible()
    assert page.evaluate("window.hit") is None


def test_no_page_may_frame_the_console(browser: Browser, server: ServerProcess) -> None:
    page = browser.new_page()
    with page.expect_event("framenavigated", lambda frame: frame.parent_frame is not None) as framed:
        page.set_content(f'<iframe src="http://{server.addresses["http"]}/"></iframe>')
    assert framed.value.url.startswith("chrome-error://")
    page.close()


def headers_of(server: ServerProcess, path: str, **headers: str) -> tuple[int, dict[str, str], bytes]:
    connection = http.client.HTTPConnection(server.addresses["http"])
    connection.request("GET", path, headers={name.replace("_", "-"): value for name, value in headers.items()})
    answer = connection.getresponse()
    body = answer.read()
    connection.close()
    return answer.status, {name.lower(): value for name, value in answer.getheaders()}, body


def test_only_scripts_of_the_console_run(server: ServerProcess) -> None:
    status, headers, body = headers_of(server, "/", Accept="text/html")
    assert status == 200
    assert "script-src 'self'" in headers["content-security-policy"]
    assert "unsafe" not in headers["content-security-policy"]
    assert "frame-ancestors 'none'" in headers["content-security-policy"]
    assert headers["x-content-type-options"] == "nosniff"
    assert not re.search(rb"<script(?![^>]* src=)|\son\w+=|style=", body)


def test_another_host_gets_nothing(server: ServerProcess) -> None:
    for path in ("/", "/console/main.js", "/admin/v1/topics"):
        status, _, body = headers_of(server, path, Host="evil.example", Accept="text/html")
        assert status == 403
        assert b"<html" not in body


def test_another_origin_may_not_ask(server: ServerProcess) -> None:
    status, headers, _ = headers_of(server, "/admin/v1/topics", Origin="http://evil.example")
    assert status == 403
    assert "access-control-allow-origin" not in headers


def test_files_outside_the_console_are_not_served(server: ServerProcess) -> None:
    for path in (
        "/console/../pages.py",
        "/console/%2e%2e/pages.py",
        "/console/vendor/../../pages.py",
        "/console//etc/passwd",
        "/console/",
    ):
        assert headers_of(server, path)[0] == 404


def test_a_curl_gets_the_plain_page(server: ServerProcess) -> None:
    status, headers, body = headers_of(server, "/", Accept="*/*")
    assert (status, headers["content-type"]) == (200, "text/plain; charset=utf-8")
    assert b"/metrics" in body


def test_a_file_that_is_known_is_not_sent_again(server: ServerProcess) -> None:
    _, headers, body = headers_of(server, "/console/main.js", Accept_Encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == (FOLDER / "main.js").read_bytes()
    assert headers_of(server, "/console/main.js", If_None_Match=headers["etag"])[0] == 304


def test_what_is_vendored_is_as_its_package_has_it() -> None:
    rows = re.findall(
        r"^\| `([\w.]+)` \|.*\| `([0-9a-f]{64})` \|$", (FOLDER / "vendor" / "README.md").read_text(), re.MULTILINE
    )
    files = {path.name for path in (FOLDER / "vendor").iterdir() if path.suffix in (".js", ".mjs", ".css")}
    assert {name for name, _ in rows} == files
    for name, digest in rows:
        assert hashlib.sha256((FOLDER / "vendor" / name).read_bytes()).hexdigest() == digest
        assert (FOLDER / "vendor" / f"{name.partition('.')[0]}.LICENSE").exists()


def test_all_of_it_is_below_100_kilobytes() -> None:
    served = [path for path in FOLDER.rglob("*") if path.suffix in (".js", ".mjs", ".css", ".html", ".svg")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in served) < 100_000
    assert Path(FOLDER / "main.js") in served

"""Hostile messages, pages and names have no effect on the console."""

from __future__ import annotations

import gzip
import hashlib
import http.client
import http.server
import re
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import quote

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client
from tests.console.browser import FLAGS, find
from tests.console.conftest import at_work
from tests.server_process import ROOT, ServerProcess

FOLDER = ROOT / "src" / "penstock" / "doors" / "http" / "console"
SCRIPT = '<img src=x onerror="window.hit=1"><script>window.hit=1</script>'


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Yield a separate server, because the flow must show the names of these tests."""
    with at_work(tmp_path_factory.mktemp("security")) as server:
        yield server


def test_a_message_of_html_is_text(page: Page, admin: Client) -> None:
    admin.post("/topics", {"name": "hostile"})
    admin.post("/topics", {"name": "<script>window.hit=1<script>"})
    message = {"data": SCRIPT, "attributes": {SCRIPT: SCRIPT, "__proto__": "polluted"}, "ordering_key": SCRIPT}
    admin.post(
        "/topics/hostile/messages", {"messages": [message, {"data": '{"a": "' + SCRIPT.replace('"', "'") + '"}'}]}
    )
    for place in (
        "#/topics",
        "#/topics/hostile/messages?from=0&open=0",
        "#/topics/hostile/messages?from=0&open=1",
    ):
        page.goto(f"/{place}")
        expect(page.get_by_text("<script>").first).to_be_visible()
        assert page.evaluate("window.hit") is None
        assert page.evaluate("({}).polluted") is None
    page.goto("/#/topics/hostile/messages?from=0&open=0")
    expect(page.get_by_role("article").get_by_text("__proto__")).to_be_visible()


def test_a_link_cannot_carry_scripts(page: Page) -> None:
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


def test_another_origin_is_refused(server: ServerProcess) -> None:
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


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        (None, "html"),
        ("*/*", "html"),
        ("text/*", "html"),
        ("text/html,application/xhtml+xml,*/*;q=0.8", "html"),
        ("text/plain;q=0, */*", "html"),
        ("text/plain", "plain"),
        ("text/plain, */*;q=0.1", "plain"),
        ("text/html;q=0, text/plain", "plain"),
    ],
)
def test_the_first_page_lists_endpoints_without_scripts(server: ServerProcess, accept: str | None, kind: str) -> None:
    status, headers, body = headers_of(server, "/", **({} if accept is None else {"Accept": accept}))
    assert (status, headers["content-type"]) == (200, f"text/{kind}; charset=utf-8")
    assert b"/metrics" in body
    assert "Accept" in headers["vary"]
    assert ("content-security-policy" in headers) == (kind == "html")


def test_a_cached_file_is_not_sent_again(server: ServerProcess) -> None:
    _, headers, body = headers_of(server, "/console/main.js", Accept_Encoding="gzip")
    assert headers["content-encoding"] == "gzip"
    assert gzip.decompress(body) == (FOLDER / "main.js").read_bytes()
    tag = headers["etag"]
    for given in (tag, tag.removeprefix("W/"), f'"other", {tag}', "*"):
        assert headers_of(server, "/console/main.js", If_None_Match=given)[0] == 304
    for given in ('"other"', ""):
        assert headers_of(server, "/console/main.js", If_None_Match=given)[0] == 200


@pytest.mark.parametrize(
    ("given", "packed"),
    [
        *((given, True) for given in ("gzip", "GZIP, br", "*", "gzip;q=0.5")),
        *((given, False) for given in ("", "br", "gzip;q=0", "gzip;q=0, *", "gzip;q=x")),
    ],
)
def test_files_are_compressed_on_request(server: ServerProcess, given: str, packed: bool) -> None:
    _, headers, _ = headers_of(server, "/console/main.js", Accept_Encoding=given)
    assert ("content-encoding" in headers) == packed


def test_vendored_files_have_the_hashes_of_their_packages() -> None:
    rows = re.findall(
        r"^\| `([\w.]+)` \|.*\| `([0-9a-f]{64})` \|$", (FOLDER / "vendor" / "README.md").read_text(), re.MULTILINE
    )
    files = {path.name for path in (FOLDER / "vendor").iterdir() if path.suffix in (".js", ".mjs", ".css")}
    assert {name for name, _ in rows} == files
    for name, digest in rows:
        assert hashlib.sha256((FOLDER / "vendor" / name).read_bytes()).hexdigest() == digest
        assert (FOLDER / "vendor" / f"{name.partition('.')[0]}.LICENSE").exists()


def test_all_files_are_below_100_kilobytes_compressed() -> None:
    served = [path for path in FOLDER.rglob("*") if path.suffix in (".js", ".mjs", ".css", ".html", ".svg")]
    assert sum(len(gzip.compress(path.read_bytes())) for path in served) < 100_000
    assert Path(FOLDER / "main.js") in served


# ---------------------------------------------------------------------- a page of another origin, in the same browser

SPY = """async (server) => {
  const tries = {
    read: () => fetch(`${server}/admin/v1/topics`).then((answer) => answer.text()),
    blind: () => fetch(`${server}/admin/v1/topics`, { mode: "no-cors" }).then((answer) => answer.text()),
    json: () => fetch(`${server}/admin/v1/topics`, { method: "POST", headers: { "Content-Type": "application/json" },
      body: '{"name": "from-afar"}' }),
    plain: () => fetch(`${server}/admin/v1/topics`, { method: "POST", mode: "no-cors", body: '{"name": "from-afar"}' }),
    script: () => import(`${server}/console/main.js`),
    events: () => new Promise((resolve, reject) => {
      const source = new EventSource(`${server}/admin/v1/events`);
      source.onmessage = resolve;
      source.onerror = () => { source.close(); reject(new Error("refused")); };
    }),
  };
  const found = {};
  for (const [name, run] of Object.entries(tries)) {
    try { found[name] = String((await run()) ?? ""); } catch (error) { found[name] = "refused"; }
  }
  const form = document.createElement("form");
  Object.assign(form, { method: "post", action: `${server}/admin/v1/topics`, enctype: "text/plain", target: "there" });
  form.innerHTML = '<input name=\\'{"name": "from-afar", "x": "\\' value=\\'"}\\'>';
  document.body.append(Object.assign(document.createElement("iframe"), { name: "there" }), form);
  form.submit();
  return found;
}"""


@pytest.fixture
def elsewhere() -> Iterator[str]:
    """Yield a web page of another origin."""

    class Page(http.server.BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(b"<!doctype html><title>elsewhere</title>")

        def log_message(self, *_: object) -> None:
            pass

    with http.server.ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{site.server_address[1]}/"
        site.shutdown()
        thread.join()


def test_a_page_of_another_origin_reads_nothing_and_changes_nothing(
    browser: Browser, server: ServerProcess, elsewhere: str, admin: Client
) -> None:
    page = browser.new_page()
    page.goto(elsewhere)
    with page.expect_response(lambda answer: answer.request.resource_type == "document") as posted:
        found = page.evaluate(SPY, f"http://{server.addresses['http']}")
    assert set(found.values()) <= {"refused", "", "[object Response]"}, found
    assert (found["read"], found["json"], found["events"], found["script"]) == ("refused",) * 4
    assert posted.value.status in (403, 415)
    assert admin.get("/topics", search="from-afar")["total"] == 0
    page.close()


def test_a_foreign_name_for_this_machine_gets_nothing(browser: Browser, server: ServerProcess) -> None:
    """DNS rebinding: a page whose own name resolves to this machine."""
    flags = [*FLAGS, "--host-resolver-rules=MAP evil.example 127.0.0.1"]
    misled = browser.browser_type.launch(executable_path=find(), args=flags)
    page = misled.new_page()
    answer = page.goto(f"http://evil.example:{server.place('http')[1]}/")
    assert answer is not None
    assert answer.status == 403
    assert page.evaluate("fetch('/admin/v1/topics').then((answer) => answer.status)") == 403
    misled.close()


def test_markup_that_got_into_a_page_would_not_run(browser: Browser, server: ServerProcess) -> None:
    """The content security policy stops scripts even if a page contained foreign markup."""
    page = browser.new_page(base_url=f"http://{server.addresses['http']}")
    page.goto("/#/server")
    expect(page.get_by_role("heading", level=1)).to_have_text("Server")
    with page.expect_console_message(lambda line: "Content Security Policy" in line.text):
        page.evaluate(
            """(text) => {
              document.querySelector("main").insertAdjacentHTML("beforeend", text);
              document.head.append(Object.assign(document.createElement("script"), { textContent: "window.hit = 1" }));
              location.href = "javascript:window.hit = 1";
            }""",
            SCRIPT,
        )
    assert page.evaluate("window.hit") is None
    page.close()


def test_no_name_of_a_resource_becomes_markup(page: Page, admin: Client) -> None:
    """The names are in tables, in the flow, in titles and in dialogs."""
    name = "<img src=x onerror=window.hit=1>"
    admin.post("/topics", {"name": name})
    admin.post("/subscriptions", {"name": name, "topic": name})
    quoted = quote(f"projects/penstock/topics/{name}", safe="")
    places = ["#/overview", "#/topics?search=onerror", "#/topics?search=onerror&show=names", "#/queues?search=onerror"]
    for place in (*places, f"#/topics/{quoted}", "#/subscriptions?search=onerror"):
        page.goto(f"/{place}")
        expect(page.get_by_text(name).first).to_be_visible()
    page.goto(f"/#/topics/{quoted}")
    page.get_by_role("button", name="Delete", exact=True).click()
    expect(page.get_by_role("dialog").get_by_text(name)).to_be_visible()
    assert page.evaluate("window.hit") is None
    assert page.locator("img[src=x]").count() == 0
    admin.delete(f"/topics/{quoted}")

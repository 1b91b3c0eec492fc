"""Lost connections: the page reports them, reconnects by itself, and does not move meanwhile."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client
from tests.console.conftest import BOXES
from tests.console.pictures import keep
from tests.server_process import ServerProcess

NEXT_SAMPLE = """async () => {
  const { live } = await import('/console/lib/live.js');
  const told = new Promise((resolve) => live.on('sample', resolve));
  const late = new Promise((resolve) => setTimeout(resolve, 10_000, null));
  const sample = await Promise.race([told, late]);
  return sample !== null && Date.parse(sample.at) > Date.parse(live.server.started_at);
}"""  # wait for one
NO_ANSWER = re.compile(r"^The server has not responded since \d\d:\d\d:\d\d\. Retrying\.$")


def test_the_page_reconnects_and_reports_a_restart(browser: Browser, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--data", str(tmp_path / "data"), doors=("http",)) as server:
        with Client(server.addresses["http"]) as admin:
            admin.post("/topics", {"name": "kept"})
        page = browser.new_page(base_url=f"http://{server.addresses['http']}")
        page.clock.install()
        page.goto("/#/overview")
        expect(page.locator(".connection")).to_have_text("live")
        expect(page.locator(".box", has_text="kept")).to_be_visible()
        before = page.evaluate(BOXES)
        # a server that hangs: its connections stay open, and it sends nothing
        server.process.send_signal(signal.SIGSTOP)
        page.clock.fast_forward(12_000)
        expect(page.get_by_role("alert")).to_have_text(NO_ANSWER)
        expect(page.locator(".connection")).to_have_text("offline")
        server.process.send_signal(signal.SIGCONT)
        expect(page.locator(".connection")).to_have_text("live")
        expect(page.locator(".toast")).to_have_count(0)
        server.kill()
        expect(page.get_by_role("alert")).to_have_text(NO_ANSWER, timeout=15_000)
        expect(page.locator(".connection")).to_have_text("offline")
        expect(page.locator(".box", has_text="kept")).to_be_visible()
        assert page.evaluate(BOXES) == before
        keep(page, "offline")
        server.start()
        expect(page.locator(".connection")).to_have_text("live", timeout=20_000)
        expect(page.get_by_text("The server restarted")).to_be_visible()
        assert page.evaluate(BOXES) == before
        keep(page, "back")
        page.get_by_role("button", name="OK").click()
        expect(page.locator(".toast")).to_have_count(0)
        page.close()


def test_any_number_of_tabs_share_one_stream(browser: Browser, tmp_path: Path) -> None:
    """A browser opens six connections to a server, and a stream occupies one of them."""
    with (
        ServerProcess(tmp_path, "--data", str(tmp_path / "data"), doors=("http",)) as server,
        Client(server.addresses["http"]) as admin,
    ):
        admin.post("/topics", {"name": "shared"})
        context = browser.new_context(base_url=f"http://{server.addresses['http']}")
        streams: list[str] = []
        pages = [context.new_page() for _ in range(8)]
        for number, page in enumerate(pages):
            page.on("request", lambda request: streams.append(request.url) if "/events" in request.url else None)
            page.goto("/#/topics/shared")
            expect(page.locator(".connection")).to_have_text("live")
            assert number == 0 or len(streams) == 1, streams
        admin.post("/topics/shared/messages", {"messages": [{"data": "x"}] * 5})
        for page in pages:
            expect(page.locator(".tile", has_text="Messages").locator("strong")).to_have_text("5")
        pages.pop(0).close()  # the tab with the stream
        with pages[0].expect_request(lambda _: len(streams) > 1):
            pass
        assert pages[-1].evaluate("import('/console/lib/live.js').then(({live}) => live.restarted)") is False
        server.kill()
        for page in pages:
            expect(page.get_by_role("alert")).to_have_text(NO_ANSWER, timeout=15_000)
        server.start()
        for page in pages:
            expect(page.get_by_text("The server restarted")).to_be_visible()
            expect(page.locator(".connection")).to_have_text("live")
        context.close()


def test_charts_show_the_protocols_of_the_running_server(browser: Browser, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=("http", "text")) as server:
        page = browser.new_page(base_url=f"http://{server.addresses['http']}")
        refused: list[str] = []
        page.on("response", lambda answer: refused.append(answer.url) if 400 <= answer.status < 500 else None)
        page.goto("/#/overview")
        legend = page.locator(".chart", has_text="Published, by protocol").locator(".legend > span")
        expect(legend).to_have_text([re.compile("^HTTP "), re.compile("^Text ")])
        server.kill()
        server.start(text="off")
        expect(page.get_by_text("The server restarted")).to_be_visible()
        expect(legend).to_have_text([re.compile("^HTTP ")])
        assert refused == []
        page.close()


def test_a_refused_stream_shows_the_servers_error(page: Page) -> None:
    refusal = '{"error": {"code": 429, "message": "Too many clients listen to events"}}'
    page.route("**/admin/v1/events", lambda route: route.fulfill(status=429, body=refusal))
    page.goto("/#/moves")
    expect(page.get_by_role("alert")).to_have_text("Too many clients listen to events. Retrying.")


def test_only_a_tab_with_the_stream_relays_events(browser: Browser, tmp_path: Path) -> None:
    """A tab with a refused token has an old sample of the previous server. Other tabs must not follow it."""
    tokens = ("first-token-of-two", "second-token-of-two")
    flags = [f"--http-token={token}" for token in tokens]
    with ServerProcess(tmp_path, *flags, "--memory", doors=("http",)) as server:
        context = browser.new_context(base_url=f"http://{server.addresses['http']}")
        pages = refused, live = [context.new_page() for _ in range(2)]
        for page, token in zip(pages, tokens, strict=True):
            page.add_init_script(f"sessionStorage.setItem('penstock-token', '{token}')")
            page.goto("/#/overview")
            expect(page.locator(".connection")).to_have_text("live")
        assert live.evaluate(NEXT_SAMPLE)
        server.kill()
        server.start(arguments=(flags[1], "--memory"))
        expect(refused.locator(".connection")).to_have_text("denied")
        expect(live.get_by_text("The server restarted")).to_be_visible()
        assert live.evaluate(NEXT_SAMPLE), "from the current server"
        context.close()

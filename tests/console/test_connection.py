"""A server that goes and comes back: the page says so, comes back by itself, and nothing on it moves meanwhile."""

from __future__ import annotations

import re
import signal
from pathlib import Path

from playwright.sync_api import Browser, expect

from penstock.admin.client import Client
from tests.console.conftest import BOXES
from tests.console.pictures import keep
from tests.server_process import ServerProcess

NO_ANSWER = re.compile(r"^The server has not answered since \d\d:\d\d:\d\d; trying again\.$")


def test_the_page_comes_back_when_the_server_does_and_says_so(browser: Browser, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--data", str(tmp_path / "data"), doors=("http",)) as server:
        with Client(server.addresses["http"]) as admin:
            admin.post("/topics", {"name": "kept"})
        page = browser.new_page(base_url=f"http://{server.addresses['http']}")
        page.clock.install()
        page.goto("/#/overview")
        expect(page.locator(".connection")).to_have_text("live")
        expect(page.locator(".box", has_text="kept")).to_be_visible()
        before = page.evaluate(BOXES)
        server.process.send_signal(signal.SIGSTOP)  # it hangs: its connections stay open, and nothing is heard
        page.clock.fast_forward(12_000)
        expect(page.get_by_role("alert")).to_have_text(NO_ANSWER)
        expect(page.locator(".connection")).to_have_text("lost")
        server.process.send_signal(signal.SIGCONT)
        expect(page.locator(".connection")).to_have_text("live")
        expect(page.locator(".toast")).to_have_count(0)
        server.kill()
        expect(page.get_by_role("alert")).to_have_text(NO_ANSWER, timeout=15_000)
        expect(page.locator(".connection")).to_have_text("lost")
        expect(page.locator(".box", has_text="kept")).to_be_visible()
        assert page.evaluate(BOXES) == before
        keep(page, "lost")
        server.start()
        expect(page.locator(".connection")).to_have_text("live", timeout=20_000)
        expect(page.get_by_text("The server was started anew")).to_be_visible()
        assert page.evaluate(BOXES) == before
        keep(page, "back")
        page.get_by_role("button", name="Good").click()
        expect(page.locator(".toast")).to_have_count(0)
        page.close()

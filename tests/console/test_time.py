"""The console uses the time of the server or project, whatever the clock of the browser shows."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

import pytest
from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client, path_of
from tests.console.actions import address, make_topic, press, submit
from tests.server_process import ServerProcess

SUBSCRIPTION = "projects/moved/subscriptions/s"
TOPIC = "projects/moved/topics/t"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Yield a server with a project whose clock is three days ahead, and with one leased message."""
    with ServerProcess(tmp_path_factory.mktemp("time"), "--memory", "--testing", doors=("http",)) as server:
        with Client(server.addresses["http"]) as admin:
            admin.post("/projects/moved/clock/freeze", {})
            make_topic(admin, TOPIC, [{"data": "old"}], SUBSCRIPTION)
            admin.post("/projects/moved/clock/advance", {"seconds": 3 * 86400})
            admin.post(f"{path_of('topics', TOPIC)}/messages", {"messages": [{"data": "new"}]})
            admin.post(f"{path_of('subscriptions', SUBSCRIPTION)}/pull", {"max_messages": 1, "lease_seconds": 60})
            make_topic(admin, "here", [{"data": f"{each}"} for each in range(3)], "here-sub")
            admin.post("/subscriptions/here-sub/pull", {"max_messages": 1, "lease_seconds": 600})
        yield server


@pytest.fixture
def page(browser: Browser, server: ServerProcess) -> Iterator[Page]:
    """Yield a page in New York, with a clock that is five minutes fast."""
    context = browser.new_context(base_url=f"http://{server.addresses['http']}", timezone_id="America/New_York")
    page = context.new_page()
    page.clock.install(time=datetime.now(UTC) + timedelta(minutes=5))
    yield page
    context.close()


def test_ages_and_deadlines_use_the_projects_time(page: Page) -> None:
    page.goto(address("subscriptions", SUBSCRIPTION))
    lease = page.get_by_role("table", name="Leases").locator("tbody tr")
    expect(lease.locator("td").last).to_have_text("in 1 min")
    expect(page.get_by_role("table", name="Consumers").locator("td").nth(4)).to_have_text("now")
    press(page, "Seek")
    page.get_by_role("slider").fill("500")
    middle = datetime.now(UTC) + timedelta(days=1.5)
    expect(page.get_by_label("Time")).to_have_value(re.compile(f"^{middle:%Y-%m-%d}T"))
    expect(page.locator(".plan")).to_contain_text("1 message skipped")
    page.keyboard.press("Escape")
    page.goto(address("topics", TOPIC))
    expect(page.locator(".tile", has_text="Last published")).to_contain_text("now")
    page.goto("/#/topics?project=moved")
    expect(page.locator("tbody td", has_text=re.compile("^now$"))).to_have_count(1)
    page.goto("/#/overview")
    expect(page.locator(".tile", has_text="Oldest unacked")).to_contain_text("3 d")
    page.goto(address("subscriptions", "here-sub"))
    # not the zone of the browser
    expect(lease.locator("td").last).to_have_text(re.compile(r"^in (10 min|9 min \d+ s)$"))


def test_a_typed_time_is_in_the_browsers_zone(page: Page, server: ServerProcess) -> None:
    """A time without a zone is in the browser's zone, which is five hours behind UTC."""
    with Client(server.addresses["http"]) as admin:
        make_topic(admin, "sought", [{"data": f"{number}"} for number in range(3)], "sought-sub")
    page.goto(address("subscriptions", "sought-sub"))
    press(page, "Seek")
    page.get_by_label("Time").fill("2026-11-01 17:00")
    page.get_by_label("Time").press("Tab")
    expect(page.get_by_role("dialog").locator("strong")).to_have_text("2026-11-01 17:00:00.000")
    expect(page.locator(".plan")).to_contain_text("3 afterwards")
    page.get_by_label("Time").fill("2026-11-01 17:00:00")
    with page.expect_request(
        lambda each: each.url.endswith("/seek") and "dry_run" not in (each.post_data or "")
    ) as asked:
        page.get_by_label("Time").press("Enter")
    assert asked.value.post_data_json == {"time": "2026-11-01T22:00:00Z"}
    submit(page, "Close")
    press(page, "Seek")
    alert = page.get_by_role("dialog").get_by_role("alert")
    for typed, shown, problem in (
        ("2026-02-30 10:00", "–", "2026-02-30 10:00 is not a valid time."),
        ("-10m", "10m ago", ""),
        ("7", "–", "Enter a time such as"),
    ):
        page.get_by_label("Time").fill(typed)
        page.get_by_label("Time").press("Tab")
        expect(page.get_by_role("dialog").locator("strong")).to_have_text(shown)
        expect(alert).to_contain_text(problem) if problem else expect(alert).to_have_count(0)
    page.keyboard.press("Escape")
    page.goto(address("topics", "sought"))
    press(page, "New subscription")
    page.get_by_label("Name", exact=True).fill("since")
    page.get_by_label("Start at").fill("2026-11-01 17:00")
    with page.expect_request("**/subscriptions") as made:
        submit(page, "Create")
    assert made.value.post_data_json["start"] == "2026-11-01T22:00:00Z"

"""The tables: the names at every door, projects, the last minute, and thousands of rows."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client
from tests.server_process import ServerProcess

MANY = 3_000


def test_names_at_every_door(page: Page, server: ServerProcess, admin: Client) -> None:
    admin.post("/queues", {"name": "everywhere"})
    page.goto("/#/topics?search=everywhere")
    page.get_by_role("button", name="Names").click()
    expect(page).to_have_url(re.compile("show=names"))
    row = page.get_by_role("row").filter(has_text="topics/everywhere copy").first
    azure = f"http://{server.addresses['azure']}/devstoreaccount1/everywhere"
    for name in ("projects/penstock/topics/everywhere", azure):
        expect(row.get_by_role("button", name=f"Copy {name}", exact=True).first).to_be_visible()
    page.goto("/#/subscriptions?search=billing&show=names")
    row = page.get_by_role("row").filter(has_text="billing")
    expect(row).to_contain_text("projects/penstock/subscriptions/billing")
    expect(row).to_contain_text("cannot reach it")


def test_a_project_can_be_chosen(page: Page, admin: Client) -> None:
    admin.post("/topics", {"name": "elsewhere", "project": "other"})
    page.goto("/#/topics")
    expect(page.get_by_role("link", name="other/elsewhere")).to_be_visible()
    page.get_by_label("Project").select_option("other")
    expect(page).to_have_url(re.compile("project=other"))
    expect(page.locator("tbody a")).to_have_text(["elsewhere"])


def test_the_last_minute_is_there_when_the_page_opens(page: Page) -> None:
    page.goto("/#/queues")
    row = page.get_by_role("row").filter(has_text="work")
    expect(row.get_by_role("img", name=re.compile("Delivered in the last minute: at most"))).to_be_visible()


def test_a_dialog_has_an_address(page: Page) -> None:
    page.goto("/#/topics?do=new")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("#/topics$"))
    page.goto("/#/subscriptions/billing?do=seek")
    expect(page.get_by_role("dialog")).to_contain_text("Seek")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("#/subscriptions/billing$"))


def test_thousands_of_rows_are_pages_of_fifty(browser: Browser, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=("http",)) as server:
        with Client(server.addresses["http"]) as admin:
            admin.post("/topology", {"topics": [{"name": f"t{number:04}"} for number in range(MANY)]})
        page = browser.new_page(base_url=f"http://{server.addresses['http']}")
        page.goto("/#/topics")
        expect(page.locator("tbody tr")).to_have_count(50)
        expect(page.locator(".pager")).to_contain_text("50 of 3,000")
        page.get_by_role("button", name="Next page").click()
        expect(page.locator("tbody a").first).to_have_text("t0050")
        page.go_back()
        expect(page.locator("tbody a").first).to_have_text("t0000")
        page.locator("th .sort").first.click()
        expect(page.locator("tbody a").first).to_have_text("t2999")
        page.keyboard.press("/")
        page.keyboard.type("t1234")
        expect(page.locator("tbody a")).to_have_text(["t1234"])
        page.keyboard.press("ArrowDown")
        expect(page.locator("tbody a")).to_be_focused()
        page.keyboard.press("Enter")
        expect(page.get_by_role("heading", level=1)).to_contain_text("t1234")
        page.close()

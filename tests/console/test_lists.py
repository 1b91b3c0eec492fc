"""Tables: client names, projects, the last minute, and thousands of rows."""

from __future__ import annotations

import re
from pathlib import Path

from playwright.sync_api import Browser, Page, expect

from penstock.admin.client import Client
from tests.console.actions import address, make_topic, press, submit
from tests.console.test_format import call
from tests.server_process import ServerProcess

MANY = 3_000


def test_client_names(page: Page, server: ServerProcess, admin: Client) -> None:
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
    expect(row).to_contain_text("not available")


def test_a_name_is_copied_without_the_clipboard_of_the_browser(page: Page) -> None:
    """Copy works on an insecure origin, after a refusal, and where only the keyboard can copy."""
    name, search = "projects/penstock/topics/orders", page.locator("[data-search]")
    page.goto("/#/topics?search=orders&show=names")
    button = page.get_by_role("button", name=f"Copy {name}", exact=True).first
    for clipboard, word in (
        ("undefined", "copied"),
        ("{ writeText: () => Promise.reject() }", "copied"),
        ("undefined", "press Ctrl+C"),
    ):
        page.evaluate(f"Object.defineProperty(navigator, 'clipboard', {{ value: {clipboard}, configurable: true }})")
        if word != "copied":
            page.evaluate("document.execCommand = () => false")
        button.click()
        expect(button).to_have_text(word)
        if word != "copied":
            page.keyboard.press("Control+C")
        search.fill("")
        search.press("Control+V")
        expect(search).to_have_value(name)
        search.fill("orders")
        expect(button).to_have_text("copy" if word == "copied" else word)


def test_a_project_can_be_chosen(page: Page, admin: Client) -> None:
    admin.post("/topics", {"name": "elsewhere", "project": "other"})
    page.goto("/#/topics")
    expect(page.get_by_role("link", name="other/elsewhere")).to_be_visible()
    page.get_by_label("Project").select_option("other")
    expect(page).to_have_url(re.compile("project=other"))
    expect(page.locator("tbody a")).to_have_text(["elsewhere"])
    page.goto("/#/topics?project=empty")
    expect(page.get_by_label("Project")).to_have_value("empty")
    expect(page.get_by_text('No topics in project "empty".')).to_be_visible()


def test_new_resources_belong_to_the_chosen_project(page: Page, admin: Client) -> None:
    page.goto("/#/topics?project=short")
    press(page, "New topic")
    expect(page.get_by_role("dialog")).to_contain_text("A short name in short, or projects/")
    page.get_by_label("Name", exact=True).fill("t")
    submit(page, "Create")
    page.get_by_role("link", name="t", exact=True).click()
    press(page, "New subscription")
    page.get_by_label("Name", exact=True).fill("s")
    submit(page, "Create")
    expect(page.get_by_role("link", name="s", exact=True)).to_be_visible()
    assert admin.get("/topics", project="short")["topics"][0]["id"] == "t"
    assert admin.get("/subscriptions", project="short")["subscriptions"][0]["id"] == "s"
    for name, project, found in (("q", "short", "short"), ("projects/far/topics/t", "short", "far")):
        assert call(page, "views/creating.js", "projectOf", name, project) == found


def test_keys_and_long_names(page: Page, admin: Client) -> None:
    long = "walked-" + "x" * 248
    make_topic(admin, long, [], long)
    make_topic(admin, "walked-gone", [], "walked-left")
    make_topic(admin, "walked-topic", [], "walked-other")
    admin.delete("/topics/walked-gone")
    page.goto("/#/subscriptions?search=walked")
    links = page.locator("td:first-child a")
    expect(links).to_have_count(3)
    expect(links.last).to_have_attribute("title", f"projects/penstock/subscriptions/{long}")
    assert page.locator("table").bounding_box()["width"] < 1280, "a long name is cut"
    page.keyboard.press("/")
    page.keyboard.press("Escape")
    expect(page.get_by_label("Search by name")).to_have_value("walked")
    expect(links).to_have_count(3)
    for key, at in (("ArrowDown", 0), ("ArrowDown", 1), ("ArrowDown", 2), ("ArrowUp", 1)):
        page.keyboard.press(key)
        expect(links.nth(at)).to_be_focused()
    page.keyboard.press("Tab")  # a link to the topic of this row
    expect(page.get_by_role("link", name="walked-topic")).to_be_focused()
    page.keyboard.press("ArrowUp")
    expect(links.first).to_be_focused()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Subscription walked-left")


def test_a_detached_subscription_has_no_link_to_its_topic(page: Page, admin: Client) -> None:
    make_topic(admin, "lost-topic", [{"data": "x"}], "lost-sub")
    admin.delete("/topics/lost-topic")
    page.goto("/#/subscriptions?search=lost-sub")
    expect(page.locator("tbody tr")).to_contain_text("lost-topic, deleted")
    expect(page.locator("tbody a")).to_have_count(1)
    page.locator("tbody a").click()
    expect(page.get_by_text("The topic lost-topic was deleted")).to_be_visible()
    expect(page.locator("main a")).to_have_count(0)
    expect(page.get_by_role("button", name="Delete", exact=True)).to_be_visible()
    for label in ("Seek", "Move messages", "Snapshot", "Purge"):
        expect(page.get_by_role("button", name=label, exact=True)).to_have_count(0)
    page.goto(address("subscriptions", "lost-sub", "?do=seek"))
    expect(page.get_by_role("dialog")).to_contain_text("there are no messages to seek to")


def test_a_queue_marks_queues_and_resume_keeps_the_page(page: Page, admin: Client) -> None:
    admin.post("/queues", {"name": "queued-here"})
    admin.post("/topics/queued-here/messages", {"messages": [{"data": "x"}] * 45})
    admin.post("/subscriptions/queued-here/pull", {"max_messages": 45, "lease_seconds": 600})
    page.goto(address("subscriptions", "queued-here"))
    here = page.locator("nav [aria-current]")
    expect(here).to_have_text("Queues")
    offsets = page.get_by_role("table", name="Leases").locator("td:first-child")
    expect(page.locator(".pager")).to_contain_text("20 of 45")
    for first in ("20", "40"):
        page.get_by_role("button", name="Next page").click()
        expect(offsets.first).to_have_text(first)
    expect(offsets).to_have_count(5)
    page.keyboard.press("p")
    expect(page.locator(".connection")).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".connection")).to_have_text("live")
    page.goto("/#/subscriptions")
    expect(here).to_have_text("Subscriptions")


def test_a_list_opens_with_the_last_minute(page: Page) -> None:
    page.goto("/#/queues")
    row = page.get_by_role("row").filter(has_text="work")
    expect(row.get_by_role("img", name=re.compile("Delivered in the last minute: peak"))).to_be_visible()


def test_a_dialog_has_an_address(page: Page) -> None:
    page.goto("/#/topics?do=new")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("#/topics$"))
    page.goto("/#/subscriptions/billing?do=seek")
    expect(page.get_by_role("dialog")).to_contain_text("Seek")
    page.keyboard.press("Escape")
    expect(page).to_have_url(re.compile("#/subscriptions/billing$"))


def test_choose_one_of_many_projects(browser: Browser, tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=("http",)) as server:
        with Client(server.addresses["http"]) as admin:
            names = [f"projects/proj{number:03}/topics/t{number}" for number in range(250)]
            admin.post("/topology", {"topics": [{"name": name} for name in names]})
        page = browser.new_page(base_url=f"http://{server.addresses['http']}")
        page.goto("/#/topics?project=proj240")
        project, rows = page.get_by_label("Project"), page.locator("tbody a")
        expect(rows).to_have_text(["t240"])
        expect(project).to_have_value("proj240")
        project.fill("proj249")
        project.press("Enter")
        expect(rows).to_have_text(["t249"])
        expect(project).to_have_value("proj249")
        project.fill("")
        project.press("Enter")
        expect(rows).to_have_count(50)
        expect(project).to_have_attribute("placeholder", "All 251 projects")
        page.close()


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

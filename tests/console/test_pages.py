"""Pages of the console with a busy server: addresses, keyboard shortcuts, tables and pause."""

from __future__ import annotations

import re

import pytest
from playwright.sync_api import Page, expect

from penstock.admin.client import Client
from tests.console.actions import address, make_topic
from tests.console.conftest import BOXES

TOPIC = "projects%2Fpenstock%2Ftopics%2Forders"
SUBSCRIPTION = "projects%2Fpenstock%2Fsubscriptions%2Fbilling"
PAGES = {
    "overview": ("#/overview", "Overview"),
    "topics": ("#/topics", "Topics"),
    "topic": (f"#/topics/{TOPIC}", "Topic orders"),
    "messages": (f"#/topics/{TOPIC}/messages?from=0&open=7", "Messages of orders"),
    "subscriptions": ("#/subscriptions", "Subscriptions"),
    "subscription": (f"#/subscriptions/{SUBSCRIPTION}", "Subscription billing"),
    "queues": ("#/queues", "Queues"),
    "moves": ("#/moves", "Moves"),
    "snapshots": ("#/snapshots", "Snapshots"),
    "server": ("#/server", "Server"),
}


def test_an_address_opens_a_message(page: Page) -> None:
    page.goto(f"/#/topics/{TOPIC}/messages?from=0&open=7&as=hex")
    detail = page.get_by_role("article", name="Message 7")
    expect(detail.get_by_role("button", name="hex")).to_have_attribute("aria-pressed", "true")
    expect(detail.locator("pre")).to_contain_text("00000000")
    expect(detail.locator(".story")).to_contain_text("Published.")


def test_numbers_of_twenty_digits_are_shown_as_they_were_sent(page: Page) -> None:
    page.goto(f"/#/topics/{TOPIC}/messages?from=0&open=7")
    expect(page.locator("pre .json-number").nth(1)).to_have_text("100000000000000000007")


def test_live_values_move_nothing(page: Page) -> None:
    """The boxes of tiles, charts and tables stay where they are while values change."""
    page.goto("/#/overview")
    expect(page.locator(".chart")).to_have_count(8)
    expect(page.locator(".tile strong").first).not_to_have_text("0/s")
    before, value = page.evaluate(BOXES), page.locator(".tile small").first.text_content()
    expect(page.locator(".tile small").first).not_to_have_text(value or "")
    assert page.evaluate(BOXES) == before


def test_keyboard_shortcuts(page: Page) -> None:
    page.goto("/#/overview")
    expect(page.get_by_role("heading", level=1)).to_have_text("Overview")
    page.keyboard.press("g")
    page.keyboard.press("t")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topics")
    expect(page.locator("tbody a").first).to_be_visible()
    page.keyboard.press("ArrowDown")
    first = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.textContent") != first
    page.keyboard.press("/")
    page.keyboard.type("orders-dead")
    expect(page.locator("tbody tr")).to_have_count(1)
    expect(page).to_have_url(re.compile("search=orders-dead"))
    page.keyboard.press("Escape")
    expect(page.locator("[data-search]")).to_have_value("orders-dead")
    expect(page.locator("[data-search]")).not_to_be_focused()
    page.locator("tbody a").focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("heading", level=1)).to_have_text("Topic orders-dead")
    page.keyboard.press("?")
    expect(page.get_by_role("dialog", name="Keyboard shortcuts")).to_be_visible()


@pytest.mark.parametrize("page", [{"size": "phone"}], indirect=True)
def test_every_page_is_named_on_a_phone(page: Page) -> None:
    page.goto("/#/moves")
    expect(page.get_by_role("heading", level=1)).to_have_text("Moves")
    ends = [box["x"] + box["width"] for each in page.locator("nav a").all() if (box := each.bounding_box())]
    assert len(ends) == 7
    assert max(ends) <= 375


@pytest.mark.parametrize("page", [{"size": "phone"}, {"size": "laptop"}], indirect=True)
def test_long_names_do_not_widen_a_page(page: Page, admin: Client) -> None:
    topic, dead, subscription = ("t" * 255, "d" * 255, "s" * 255)
    if not admin.get("/topics", search=topic)["total"]:
        admin.post("/topics", {"name": dead})
        make_topic(admin, topic, [{"data": "x"}], subscription, dead_letter_policy={"dead_letter_topic": dead})
    for kind, name in (("subscriptions", subscription), ("topics", topic)):
        page.goto(address(kind, name))
        expect(page.get_by_role("heading", level=1)).to_contain_text(name)
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), kind


def test_a_table_is_sorted_by_its_headers(page: Page) -> None:
    page.goto("/#/topics")
    expect(page.locator("tbody a").first).to_be_visible()
    page.get_by_role("button", name="Messages").click()
    expect(page.locator("th[aria-sort=descending]")).to_have_text("Messages↓")
    page.wait_for_function("""() => { // the rows stay as they were until the new ones have come
      const cells = [...document.querySelectorAll("tbody td:nth-child(2)")];
      const counts = cells.map((cell) => Number(cell.textContent.replaceAll(",", "")));
      return counts.length > 2 && counts.every((count, at) => at === 0 || counts[at - 1] >= count);
    }""")


def test_pause_stops_updates(page: Page) -> None:
    page.goto("/#/overview")
    expect(page.locator(".tile strong").first).not_to_have_text("0/s")
    page.get_by_role("button", name="Pause").click()
    expect(page.locator(".connection")).to_have_text("paused")
    page.get_by_role("button", name="Resume").click()
    expect(page.locator(".connection")).to_have_text("live")


def test_messages_are_filtered_by_attribute_text_and_path(page: Page, admin: Client) -> None:
    page.goto(f"/#/topics/{TOPIC}/messages?from=0")
    page.get_by_label("Attributes").fill('attributes.kind = "bytes"')
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("a.message")).to_have_count(1)
    page.get_by_label("Attributes").fill("attributes.kind ==")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.get_by_role("alert")).to_be_visible()
    page.get_by_label("Attributes").fill("")
    page.get_by_label("JSON path").fill("$.order=42")
    page.get_by_role("button", name="Show", exact=True).click()
    expect(page.locator("a.message .offset")).to_have_text(["42"])
    page.get_by_role("button", name="Search the whole topic").click()
    expect(page.get_by_text("1 message found")).to_be_visible()
    assert admin.get("/subscriptions/archive")["in_flight_messages"] == 0

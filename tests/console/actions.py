"""Steps that several tests of the console share: open a page, press a button of a dialog, read its result."""

from __future__ import annotations

from typing import Any
from urllib.parse import quote

from playwright.sync_api import Locator, Page, expect

from penstock.admin.client import Client


def submit(page: Page, label: str) -> None:
    page.get_by_role("dialog").get_by_role("button", name=label, exact=True).click()


def result(page: Page) -> Locator:
    """Return the result that the dialog shows."""
    return page.get_by_role("dialog").locator(".good")


def press(page: Page, label: str) -> None:
    """Press a button of the page that opens a dialog."""
    page.get_by_role("button", name=label, exact=True).click()
    expect(page.get_by_role("dialog")).to_be_visible()


def address(kind: str, name: str, rest: str = "") -> str:
    return f"/#/{kind}/{quote(name, safe='')}{rest}"


def make_topic(
    admin: Client, name: str, messages: list[dict[str, Any]], subscription: str = "", **options: Any
) -> None:
    """Create a topic and a subscription with these messages in its backlog."""
    admin.post("/topics", {"name": name})
    if subscription:
        admin.post("/subscriptions", {"name": subscription, "topic": name, "options": options})
    if messages:
        admin.post(f"/topics/{quote(name, safe='')}/messages", {"messages": messages})


def make_dead_letters(admin: Client, name: str, total: int) -> None:
    """Create topic NAME, subscription NAME-work, and `total` dead letters in NAME-dead, unread by NAME-dead-keep."""
    make_topic(admin, f"{name}-dead", [], f"{name}-dead-keep")
    policy = {"dead_letter_topic": f"{name}-dead", "max_delivery_attempts": 1}
    messages = [
        {"data": f"m{each}", "attributes": {"kind": "even" if each % 2 == 0 else "odd"}} for each in range(total)
    ]
    make_topic(admin, name, messages, f"{name}-work", dead_letter_policy=policy)
    pulled = admin.post(f"/subscriptions/{name}-work/pull", {"max_messages": total})["deliveries"]
    admin.post(f"/subscriptions/{name}-work/nack", {"receipts": [each["receipt"] for each in pulled]})
    assert admin.get(f"/subscriptions/{name}-dead-keep")["backlog_messages"] == total

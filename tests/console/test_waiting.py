"""Waiting messages on the page of a subscription, and the reasons why they wait."""

from __future__ import annotations

from typing import Any

from playwright.sync_api import Locator, Page, expect

from penstock.admin.client import Client
from tests.console.actions import address, make_topic

NOTHING = "No waiting messages."


def pull(admin: Client, name: str, count: int = 1) -> list[str]:
    pulled: list[dict[str, Any]] = admin.post(f"/subscriptions/{name}/pull", {"max_messages": count})["deliveries"]
    assert len(pulled) == count
    return [each["receipt"] for each in pulled]


def open_page(page: Page, name: str) -> Locator:
    """Open the page, and return the rows of waiting messages that cannot be delivered."""
    page.goto(address("subscriptions", f"projects/penstock/subscriptions/{name}"))
    expect(page.get_by_role("heading", level=1)).to_have_text(f"Subscription {name}")
    return page.get_by_role("table", name="Waiting messages").locator("tbody tr")


def test_messages_behind_an_ordering_key(page: Page, admin: Client) -> None:
    messages = [{"data": f"m{number}", "ordering_key": "customer-7"} for number in range(3)]
    make_topic(
        admin, "waits-in-order", messages, "waits-in-order-sub", enable_message_ordering=True, ack_deadline_seconds=600
    )
    (first,) = pull(admin, "waits-in-order-sub")
    rows = open_page(page, "waits-in-order-sub")
    expect(rows).to_have_count(2)
    expect(rows.first).to_contain_text("an earlier message with key customer-7")
    expect(page.get_by_text("Messages are waiting, but none can be delivered now.")).to_be_visible()
    expect(page.get_by_text(NOTHING)).to_have_count(0)
    admin.post("/subscriptions/waits-in-order-sub/ack", {"receipts": [first]})
    expect(rows).to_have_count(0)
    expect(page.get_by_role("table", name="Next messages").locator("tbody tr").first).to_contain_text("m1")


def test_messages_behind_many_leases(page: Page, admin: Client) -> None:
    """Leased messages come first in the backlog, and there are more of them than the page shows."""
    messages = [{"data": f"m{number}", "ordering_key": f"key-{number % 30}"} for number in range(31)]
    make_topic(
        admin, "waits-behind", messages, "waits-behind-sub", enable_message_ordering=True, ack_deadline_seconds=600
    )
    pull(admin, "waits-behind-sub", 30)
    rows = open_page(page, "waits-behind-sub")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("an earlier message with key key-0")


def test_messages_that_wait_for_a_retry_or_a_delay(page: Page, admin: Client) -> None:
    make_topic(admin, "waits-slow", [{"data": "again"}], "waits-slow-sub", retry_policy={"minimum_backoff": 600})
    admin.post("/subscriptions/waits-slow-sub/nack", {"receipts": pull(admin, "waits-slow-sub")})
    admin.post("/topics/waits-slow/messages", {"messages": [{"data": "later", "delay_seconds": 600}]})
    rows = open_page(page, "waits-slow-sub")
    expect(rows.filter(has_text="again")).to_contain_text("its retry, in ")
    expect(rows.filter(has_text="later")).to_contain_text("the end of its delay, in ")
    expect(page.get_by_text(NOTHING)).to_have_count(0)


def test_the_limit_of_flow_control_is_named(page: Page, admin: Client) -> None:
    full = page.get_by_text("The limit of flow control is reached.")
    for limit in ({"max_messages": 2}, {"max_bytes": 2}):
        name = f"waits-full-{next(iter(limit)).replace('_', '-')}"
        make_topic(admin, name, [{"data": "x"}] * 3, f"{name}-sub", flow_control=limit, ack_deadline_seconds=600)
        receipts = pull(admin, f"{name}-sub", 2)
        open_page(page, f"{name}-sub")
        expect(full).to_be_visible()
        admin.post(f"/subscriptions/{name}-sub/ack", {"receipts": receipts[:1]})
        expect(full).to_have_count(0)
        expect(page.get_by_role("table", name="Next messages").locator("tbody tr")).to_have_count(1)


def test_leased_messages_are_not_waiting(page: Page, admin: Client) -> None:
    make_topic(admin, "waits-held", [{"data": "x"}] * 2, "waits-held-sub", ack_deadline_seconds=600)
    receipts = pull(admin, "waits-held-sub", 2)
    open_page(page, "waits-held-sub")
    expect(page.get_by_text("All messages are leased.")).to_be_visible()
    admin.post("/subscriptions/waits-held-sub/ack", {"receipts": receipts})
    expect(page.get_by_text(NOTHING)).to_be_visible()

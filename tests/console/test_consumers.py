"""Consumers, leases and cursors of real clients on the page of a subscription."""

from __future__ import annotations

import json
import threading

import pytest
from google.cloud import pubsub_v1
from playwright.sync_api import Page, expect
from pyarrow import flight

from penstock.admin.client import Client
from penstock.text import Client as TextClient
from tests.console.actions import address, make_topic, submit
from tests.console.pictures import keep
from tests.server_process import SECONDS, ServerProcess

SAMPLES_PASS = """async () => {
  const { live } = await import("/console/lib/live.js");
  const next = () => new Promise((resolve) => live.addEventListener("sample", resolve, { once: true }));
  for (let left = 3; left; left -= 1) await next();
}"""


def test_consumers_and_their_leases(
    page: Page, admin: Client, server: ServerProcess, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.addresses["pubsub"])
    admin.post("/queues", {"name": "watched"})
    held, acked = threading.Event(), threading.Event()

    def work(message: pubsub_v1.subscriber.message.Message) -> None:
        held.wait(SECONDS)
        message.ack()
        acked.set()

    with pubsub_v1.SubscriberClient() as subscriber, TextClient(server.addresses["text"]) as text:
        flow = pubsub_v1.types.FlowControl(max_messages=1)
        name = "projects/penstock/subscriptions/watched"
        listening = subscriber.subscribe(name, work, flow_control=flow)
        page.goto(address("subscriptions", name))
        expect(page.get_by_role("heading", level=1)).to_have_text("Queue watched")
        consumers = page.get_by_role("table", name="Consumers").get_by_role("row")
        expect(consumers.filter(has_text="Pub/Sub")).to_contain_text("stream")
        text.send_many("watched", [b"1", b"2"])
        leases = page.get_by_role("table", name="Leases").locator("tbody tr")
        expect(leases.filter(has_text="Pub/Sub")).to_have_count(1)
        messages = text.consume("watched")
        assert next(messages)
        expect(consumers.filter(has_text="connection 127.0.0.1:")).to_contain_text("Text")
        expect(leases.filter(has_text="connection 127.0.0.1:")).to_contain_text("on disconnect")
        ends = leases.filter(has_text="Pub/Sub").locator("td").last
        expect(ends).to_contain_text("in ")
        expect(ends).not_to_have_text(ends.text_content() or "")
        keep(page, "consumers")
        messages.close()
        held.set()
        assert acked.wait(SECONDS)  # unanswered messages of a closed client are leased until their deadline
        listening.cancel()
        listening.result(SECONDS)
        expect(consumers.filter(has_text="Pub/Sub")).to_have_count(0)
        expect(leases.filter(has_text="connection 127.0.0.1:")).to_have_count(1)
    expect(page.get_by_text("No consumers are connected, and no messages are leased.")).to_be_visible()


def test_a_cursor_with_its_lag_and_its_last_batch(page: Page, admin: Client, server: ServerProcess) -> None:
    make_topic(admin, "read", [{"data": "x"}] * 30)
    with flight.connect(f"grpc://{server.addresses['flight']}") as reader:
        row = page.get_by_role("table", name="Cursors").get_by_role("row").filter(has_text="nightly")
        for kind, offset, batch in (
            ("cursor.open", 0, "none yet"),
            ("cursor.advance", 20, "20 messages, offsets 0 to 20"),
        ):
            body = json.dumps({"name": "nightly", "offsets": {"read": offset}}).encode()
            list(reader.do_action(flight.Action(kind, body)))
            page.goto(address("topics", "read"))
            expect(row).to_contain_text(batch)
    expect(page.get_by_role("columnheader", name="Lag size")).to_be_visible()
    expect(row).to_contain_text("10 messages")
    expect(row).to_contain_text("20 messages, offsets 0 to 20")
    row.get_by_role("link").click()
    expect(page.get_by_role("heading", level=1)).to_have_text("Subscription nightly")
    expect(page.get_by_text("10 messages, 10 B")).to_be_visible()


def test_charts_of_a_quiet_subscription_show_its_backlog(page: Page, admin: Client) -> None:
    """Live samples contain only the ten busiest subscriptions."""
    make_topic(admin, "quiet", [{"data": "x"}] * 3, "quiet-sub")
    names = [f"busier-{number}" for number in range(11)]
    for name in names:
        admin.post("/queues", {"name": name})
    over = threading.Event()

    def work() -> None:
        with Client(admin.url) as client:
            while not over.is_set():
                for name in names:
                    client.post(f"/topics/{name}/messages", {"messages": [{"data": "x"}]})
                    (pulled,) = client.post(f"/subscriptions/{name}/pull", {"max_messages": 1})["deliveries"]
                    client.post(f"/subscriptions/{name}/ack", {"receipts": [pulled["receipt"]]})

    busy = threading.Thread(target=work)
    busy.start()
    try:
        page.goto(address("subscriptions", "projects/penstock/subscriptions/quiet-sub"))
        backlog = page.locator(".legend > span", has_text="backlog").locator("b")
        expect(backlog).to_have_text("3")
        page.evaluate(SAMPLES_PASS)
        expect(backlog).to_have_text("3", timeout=1)
    finally:
        over.set()
        busy.join()


def test_the_address_of_an_unavailable_dialog_opens_nothing(page: Page, admin: Client) -> None:
    make_topic(admin, "offered", [], "offered-sub")
    page.goto(address("subscriptions", "offered-sub", "?do=publish"))
    expect(page.get_by_role("heading", level=1)).to_have_text("Subscription offered-sub")
    admin.delete("/topics/offered")
    page.goto(address("subscriptions", "offered-sub", "?do=purge"))
    expect(page.get_by_text("was deleted. No messages are delivered.")).to_be_visible()
    expect(page.get_by_role("dialog")).to_have_count(0)


def test_a_deleted_topic_keeps_the_typed_message(page: Page, admin: Client) -> None:
    admin.post("/queues", {"name": "typed-in"})
    page.goto(address("subscriptions", "typed-in", "?do=publish"))
    page.get_by_label("Body", exact=True).fill("half a message")
    admin.delete("/topics/typed-in")
    expect(page.get_by_text("was deleted. No messages are delivered.")).to_be_attached()
    expect(page.get_by_label("Body", exact=True)).to_have_value("half a message")
    submit(page, "Publish")
    expect(page.get_by_role("dialog").get_by_role("alert")).to_contain_text("Topic not found")

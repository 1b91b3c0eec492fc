"""Extras that Azure does not have, off by default: poison queues, redrive, long polling and larger messages."""

from __future__ import annotations

import threading

from penstock.broker.model import SECOND, Draft
from tests.doors.azure.harness import Harness, body_of, opened, place_of
from tests.doors.azure.signing import ACCOUNT
from tests.doors.azure.test_credentials import headers_of, shared_key

POISON = "orders-poison"
PROJECT = "projects/devstoreaccount1"


def fail(harness: Harness, times: int) -> None:
    """Get the message and let its visibility timeout pass."""
    for _ in range(times):
        assert len(harness.get(visibilitytimeout=1).texts("MessageId")) == 1
        harness.clock.advance(1)


def redrive(harness: Harness, queue: str) -> dict[str, str]:
    target = f"/{ACCOUNT}/{queue}?comp=redrive"
    headers = headers_of(harness)
    answer = harness.send("POST", target, headers=headers | {"Authorization": shared_key("POST", target, headers)})
    return {**answer.headers, "status": str(answer.status)}


def test_a_message_moves_to_the_poison_queue_and_back() -> None:
    with opened(poison_after=3) as azure:
        azure.create("orders")
        azure.put("bad")
        fail(azure, 3)
        assert azure.get().texts("MessageId") == []
        assert azure.count(POISON) == 1
        assert azure.peek(POISON).texts("MessageText") == ["bad"]
        answer = redrive(azure, POISON)
        assert (answer["status"], answer["x-ms-redriven-messages-count"]) == ("204", "1")
        assert (azure.count(POISON), azure.get().texts("MessageText")) == (0, ["bad"])


def test_one_queue_can_have_its_own_poison_queue(azure: Harness) -> None:
    azure.send("PUT", f"/{ACCOUNT}/orders?{azure.sas}", headers={"x-ms-meta-penstock_max_dequeue_count": "1"})
    azure.put("bad")
    fail(azure, 1)
    assert azure.get().texts("MessageId") == []
    assert azure.count(POISON) == 1
    azure.ask("PUT", "orders?comp=metadata")
    azure.put("again")
    fail(azure, 3)
    assert azure.count(POISON) == 1


def test_without_its_poison_queue_a_queue_keeps_its_messages() -> None:
    """Without its poison queue a queue keeps its messages. They move again once the poison queue is back."""
    with opened(poison_after=2) as azure:
        azure.create("orders")
        assert azure.ask("DELETE", POISON).status == 204
        azure.put("bad")
        for attempt in range(1, 6):
            assert azure.get(visibilitytimeout=1).texts("DequeueCount") == [str(attempt)]
            azure.clock.advance(1)
        assert azure.ask("GET", f"{POISON}?comp=metadata").code == "QueueNotFound"
        azure.create(POISON)
        fail(azure, 1)
        assert (azure.get().texts("MessageId"), azure.peek(POISON).texts("MessageText")) == ([], ["bad"])


def test_a_queue_deleted_with_its_poison_queue_leaves_nothing_behind() -> None:
    with opened(poison_after=2) as azure:
        azure.create("orders")
        assert [azure.ask("DELETE", name).status for name in ("orders", POISON)] == [204, 204]
        assert azure.ask("GET", "?comp=list").texts("Name") == []
        azure.create("orders")
        assert azure.ask("GET", "?comp=list").texts("Name") == ["orders", POISON]


def test_no_message_moves_by_default(orders: Harness) -> None:
    orders.put()
    fail(orders, 20)
    assert orders.ask("GET", f"{POISON}?comp=metadata").code == "QueueNotFound"


def test_a_redriven_message_is_unchanged() -> None:
    """A message keeps its attributes, ordering key and time to live. Attributes of dead-lettering are removed."""
    with opened(poison_after=1) as azure:
        azure.create("orders")
        azure.run(lambda: azure.queue.publish(f"{PROJECT}/topics/orders", [Draft(b"other", {"tenant": "a"}, "key-1")]))
        fail(azure, 1)
        assert azure.get().texts("MessageId") == []
        draft = Draft(b"by hand", {"b": "c"}, "key-2", ttl_seconds=3600)
        azure.run(lambda: azure.queue.publish(f"{PROJECT}/topics/{POISON}", [draft]))
        answer = redrive(azure, POISON)
        assert (answer["status"], answer["x-ms-redriven-messages-count"]) == ("204", "2")
        assert answer["x-ms-left-messages-count"] == "0"
        deliveries = azure.run(lambda: azure.queue.pull(f"{PROJECT}/subscriptions/orders", 10))
        messages = {each.message.data: each.message for each in deliveries}
        other, by_hand = messages[b"other"], messages[b"by hand"]
        assert (dict(other.attributes), other.ordering_key) == ({"tenant": "a"}, "key-1")
        assert (dict(by_hand.attributes), by_hand.ordering_key) == ({"b": "c"}, "key-2")
        assert by_hand.expires_at == azure.clock.now() + 3600 * SECOND


def test_a_redrive_leaves_messages_that_a_consumer_has() -> None:
    with opened(poison_after=1) as azure:
        azure.create("orders")
        for text in ("one", "two"):
            azure.put(text, POISON)
        held = azure.get(POISON)
        answer = redrive(azure, POISON)
        assert (answer["x-ms-redriven-messages-count"], answer["x-ms-left-messages-count"]) == ("1", "1")
        assert azure.ask("DELETE", place_of(held, POISON)).status == 204
        assert (azure.count(POISON), azure.get().texts("MessageText")) == (0, ["two"])


def test_only_poison_queues_are_redriven(orders: Harness) -> None:
    assert redrive(orders, "orders")["status"] == "400"


def test_an_empty_get_waits_for_a_message() -> None:
    with opened(poll_seconds=20) as azure:
        azure.create("orders")
        texts: list[str] = []
        waiting = threading.Thread(target=lambda: texts.extend(azure.get().texts("MessageText")))
        waiting.start()
        while not azure.run(lambda: waits(azure)):
            pass
        azure.put("at last")
        waiting.join(10)
        assert texts == ["at last"]


def test_a_stopping_server_answers_waiting_gets() -> None:
    with opened(poll_seconds=600) as azure:
        azure.create("orders")
        statuses: list[int] = []
        waiting = threading.Thread(target=lambda: statuses.append(azure.ask("GET", "orders/messages").status))
        waiting.start()
        while not azure.run(lambda: waits(azure)):
            pass
    waiting.join(10)
    assert statuses == [200]


async def waits(azure: Harness) -> bool:
    """Return whether a request waits for a message."""
    return bool(azure.queue.loop.wakeups._waiting)


def test_messages_may_be_larger_where_the_operator_says_so() -> None:
    with opened(message_bytes_max=1 << 20) as azure:
        azure.create("orders")
        azure.put("x" * (1 << 20))
        assert len(azure.get().text("MessageText")) == 1 << 20
        answer = azure.ask("POST", "orders/messages", body_of("x" * ((1 << 20) + 1)))
        assert (answer.status, answer.text("MaxLimit")) == (413, str(1 << 20))


def test_an_old_receipt_may_be_answered_as_azure_does() -> None:
    with opened(receipt_errors="azure") as azure:
        azure.create("orders")
        azure.put()
        got = azure.get(visibilitytimeout=1)
        azure.clock.advance(1)
        azure.get()
        place = f"orders/messages/{got.text('MessageId')}?popreceipt={got.text('PopReceipt')}"
        answer = azure.ask("DELETE", place)
        assert (answer.status, answer.code) == (404, "MessageNotFound")

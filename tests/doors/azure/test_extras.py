"""What Azure does not have: poison queues, redrive, long polling, larger messages. All of it off unless asked for."""

from __future__ import annotations

import threading

from tests.doors.azure.harness import Harness, body_of, opened
from tests.doors.azure.signing import ACCOUNT
from tests.doors.azure.test_credentials import headers_of, shared_key

POISON = "orders-poison"


def fail(harness: Harness, times: int) -> None:
    """Take the message and let its time pass."""
    for _ in range(times):
        assert len(harness.get(visibilitytimeout=1).texts("MessageId")) == 1
        harness.clock.advance(1)


def redrive(harness: Harness, queue: str) -> dict[str, str]:
    target = f"/{ACCOUNT}/{queue}?comp=redrive"
    headers = headers_of(harness)
    answer = harness.send("POST", target, headers=headers | {"Authorization": shared_key("POST", target, headers)})
    return {**answer.headers, "status": str(answer.status)}


def test_a_message_that_fails_too_often_moves_aside_and_can_come_back() -> None:
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
    """The neighbour may be deleted like any queue: messages stay where they are, and move again once it is back."""
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


def test_without_being_asked_for_nothing_moves(orders: Harness) -> None:
    orders.put()
    fail(orders, 20)
    assert orders.ask("GET", f"{POISON}?comp=metadata").code == "QueueNotFound"


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


def test_a_door_that_closes_answers_those_who_wait() -> None:
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
    """Whether a request waits for a message."""
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

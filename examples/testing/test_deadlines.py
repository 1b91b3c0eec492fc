"""Deadlines, backoff, dead letters and retention of Pub/Sub, over hours and weeks of moved time."""

from __future__ import annotations

from datetime import timedelta

import pytest
from billing import SECONDS, BankClosedError, Biller, Listener, Shop
from google.api_core.exceptions import NotFound
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError, AcknowledgeStatus

from penstock.testing import Project, ProjectClock

BACKOFF = {"minimum_backoff": timedelta(seconds=10), "maximum_backoff": timedelta(seconds=600)}
RETRIES = (10, 20, 40, 80, 160, 320, 600, 600)  # seconds


def test_another_worker_gets_the_order_after_the_ack_deadline(shop: Shop, penstock_clock: ProjectClock) -> None:
    shop.open(ack_deadline_seconds=60)
    shop.order("one")
    assert shop.pull_texts() == ["one"]
    penstock_clock.advance(59)
    assert shop.pull_texts() == []
    penstock_clock.advance(1)
    assert shop.pull_texts() == ["one"]


def test_an_acked_order_is_not_redelivered(shop: Shop, penstock_project: Project) -> None:
    """Wait until long after the deadline, because before it a worker that forgets to ack would pass too."""
    shop.open(ack_deadline_seconds=10)
    order = shop.order("one")
    shop.ack(*shop.pull())
    penstock_project.clock.advance(hours=24)
    assert shop.pull() == []
    penstock_project.subscription("billing").never_redelivered(order)


def test_a_slow_worker_keeps_its_order_by_extending_the_deadline(shop: Shop, penstock_project: Project) -> None:
    shop.open(ack_deadline_seconds=60)
    shop.order("long")
    (held,) = shop.pull()
    for _ in range(10):
        penstock_project.clock.advance(50)
        shop.extend(held, 60)
        assert shop.pull() == []
    shop.ack(held)
    penstock_project.clock.advance(hours=1)
    penstock_project.subscription("billing").settle()


def test_the_backoff_grows_from_ten_seconds_to_ten_minutes(
    shop: Shop, listener: Listener, penstock_clock: ProjectClock
) -> None:
    shop.open(retry_policy=BACKOFF)
    penstock_clock.patience_seconds = 10  # on a slow machine an answer may take long to arrive
    listener.start(lambda message: message.nack())
    shop.order("bad")
    listener.next()
    for seconds in RETRIES:
        penstock_clock.advance(seconds - 1)
        assert listener.received.empty(), seconds
        penstock_clock.advance(1)
        listener.next()


def test_an_order_is_billed_when_the_bank_opens_again(
    shop: Shop, listener: Listener, penstock_project: Project
) -> None:
    shop.open(retry_policy=BACKOFF)
    clock = penstock_project.clock
    opens_at = clock.now + timedelta(minutes=20)
    clock.patience_seconds = 10

    def bank(order: str) -> None:
        if clock.now < opens_at:
            raise BankClosedError

    biller = Biller(bank)
    listener.start(biller)
    shop.order("one")
    listener.next()
    clock.advance(minutes=19)
    assert biller.billed == []
    clock.advance(minutes=11)
    penstock_project.settle()
    assert biller.billed == ["one"]


def test_the_automatic_clock_skips_to_the_next_attempt(
    shop: Shop, listener: Listener, penstock_project: Project
) -> None:
    shop.open(retry_policy=BACKOFF)
    attempts = list[str]()

    def bank(order: str) -> None:
        attempts.append(order)
        if len(attempts) < 6:
            raise BankClosedError

    began = penstock_project.clock.automatic()
    listener.start(Biller(bank))
    order = shop.order("one")
    penstock_project.settle(seconds=SECONDS)
    assert penstock_project.clock.now - began >= timedelta(seconds=sum(RETRIES[:5]))
    assert len(penstock_project.subscription("billing").deliveries(order)) == 6


def dead_letters(shop: Shop, project: Project, attempts: int) -> dict[str, object]:
    shop.publisher.create_topic(name=project.topic("dead"))
    return {"dead_letter_topic": project.topic("dead"), "max_delivery_attempts": attempts}


def test_an_order_is_dead_lettered_after_five_attempts(shop: Shop, penstock_project: Project) -> None:
    shop.open(ack_deadline_seconds=10, dead_letter_policy=dead_letters(shop, penstock_project, 5))
    shop.order("bad", shop="north")
    billing = penstock_project.subscription("billing")
    for attempt in range(1, 6):
        assert billing.dead_letters() == []
        (received,) = shop.pull()
        assert received.delivery_attempt == attempt
        penstock_project.clock.advance(10)
    (dead,) = billing.dead_letters()
    assert (dead.text, dead.attributes["shop"]) == ("bad", "north")
    assert dead.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"
    billing.settle()


def test_only_orders_that_always_fail_are_dead_lettered(
    shop: Shop, listener: Listener, penstock_project: Project
) -> None:
    shop.open(retry_policy=BACKOFF, dead_letter_policy=dead_letters(shop, penstock_project, 5))
    penstock_project.clock.automatic()

    def bank(order: str) -> None:
        if order == "bad":
            raise BankClosedError

    listener.start(Biller(bank))
    orders = [shop.order(text) for text in ("one", "bad", "two")]
    billing = penstock_project.subscription("billing")
    billing.settle(SECONDS)
    assert [each.text for each in billing.dead_letters()] == ["bad"]
    billing.never_redelivered(orders[0], orders[2])


def test_an_unacked_order_expires_after_seven_days(shop: Shop, penstock_clock: ProjectClock) -> None:
    shop.open(message_retention_duration=timedelta(days=7))
    shop.order("old")
    penstock_clock.advance(days=6, hours=23, minutes=59)
    shop.order("young")
    penstock_clock.advance(seconds=61)
    assert shop.pull_texts() == ["young"]


def test_an_unused_subscription_expires(shop: Shop, penstock_clock: ProjectClock) -> None:
    shop.open(expiration_policy={"ttl": timedelta(days=31)})
    penstock_clock.advance(days=30)
    shop.pull()
    penstock_clock.advance(days=30)
    shop.subscriber.get_subscription(subscription=shop.billing)
    penstock_clock.advance(days=1)
    with pytest.raises(NotFound):
        shop.subscriber.get_subscription(subscription=shop.billing)


def test_exactly_once_a_late_ack_is_refused(shop: Shop, listener: Listener, penstock_clock: ProjectClock) -> None:
    shop.open(ack_deadline_seconds=60, enable_exactly_once_delivery=True)
    penstock_clock.extension_seconds = 0  # the worker hangs, and its library extends no leases
    penstock_clock.patience_seconds = 0  # do not wait for it
    listener.start()
    shop.order("once")
    late = listener.next()
    penstock_clock.advance(61)
    again = listener.next()
    with pytest.raises(AcknowledgeError) as refused:
        late.ack_with_response().result(SECONDS)
    assert refused.value.error_code is AcknowledgeStatus.INVALID_ACK_ID
    assert again.ack_with_response().result(SECONDS) is AcknowledgeStatus.SUCCESS


def test_exactly_once_an_acked_order_stays_acked(shop: Shop, listener: Listener, penstock_project: Project) -> None:
    shop.open(enable_exactly_once_delivery=True)
    listener.start()
    order = shop.order("once")
    assert listener.next().ack_with_response().result(SECONDS) is AcknowledgeStatus.SUCCESS
    penstock_project.clock.advance(days=1)
    billing = penstock_project.subscription("billing")
    billing.never_redelivered()
    assert len(billing.acks(order)) == 1

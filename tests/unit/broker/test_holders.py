"""Consumers of one ordered subscription: while a consumer holds messages of a key, no other consumer gets more of
them.
"""

from __future__ import annotations

from itertools import count

import pytest

from penstock.broker.broker import Broker
from penstock.broker.model import SECOND, Draft, SubscriptionOptions

NOW = 1_000 * SECOND


@pytest.fixture
def broker() -> Broker:
    broker = Broker(draw=count(1).__next__)
    broker.recover(None, [])
    broker.create_topic(NOW, "t")
    broker.create_subscription(NOW, "s", "t", SubscriptionOptions(ordering=True, ordering_window=10))
    return broker


def publish(broker: Broker, *keys: str) -> None:
    broker.publish(NOW, "t", [Draft(f"{key}{place}".encode(), ordering_key=key) for place, key in enumerate(keys)])


def bodies(broker: Broker, holder: str, max_messages: int = 10) -> list[str]:
    return [each.message.data.decode() for each in broker.pull(NOW, "s", max_messages, holder=holder).deliveries]


def test_a_key_goes_to_one_consumer_at_a_time(broker: Broker) -> None:
    publish(broker, "a", "a", "b")
    assert bodies(broker, "one", 1) == ["a0"]
    assert bodies(broker, "two") == ["b2"]


def test_the_consumer_that_has_the_key_gets_more_of_it(broker: Broker) -> None:
    publish(broker, "a", "a")
    assert bodies(broker, "one", 1) == ["a0"]
    assert bodies(broker, "one") == ["a1"]


def test_a_key_without_a_holder_is_free_for_the_next_consumer(broker: Broker) -> None:
    publish(broker, "a", "a")
    first = broker.pull(NOW, "s", 1, holder="one").deliveries
    assert bodies(broker, "two") == []
    broker.ack(NOW, [first[0].receipt])
    assert bodies(broker, "two") == ["a1"]


def test_a_returned_message_and_later_ones_go_to_one_consumer_in_order(broker: Broker) -> None:
    publish(broker, "a", "a", "a")
    first = broker.pull(NOW, "s", 2, holder="one").deliveries
    broker.nack(NOW, [first[0].receipt])
    assert bodies(broker, "two", 1) == ["a0"]
    assert bodies(broker, "one") == []
    assert bodies(broker, "two") == ["a1", "a2"]


def test_receipts_can_be_examined_without_acting_on_them(broker: Broker) -> None:
    broker.change_subscription("s", SubscriptionOptions(ordering=True, ordering_window=10, exactly_once=True))
    publish(broker, "a")
    receipt = broker.pull(NOW, "s", 1).deliveries[0].receipt
    facts = len(broker.facts)
    assert broker.examine(NOW, [receipt, "7-7-7", "junk"])[:2] == (["7-7-7"], ["junk"])
    assert len(broker.facts) == facts
    assert broker.ack(NOW, [receipt]).stale == []


def test_a_caller_that_checked_its_drafts_says_how_large_they_are(broker: Broker) -> None:
    broker.publish(NOW, "t", [Draft(b"abc", {"googclient": "x"})], sizes=[14])
    assert broker.pull(NOW, "s", 1).deliveries[0].message.size == 14

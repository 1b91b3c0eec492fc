"""Options as programs write them: every spelling, and refusals that name the option."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from penstock import InvalidArgumentError, MessageQueue, SubscriptionOptions
from penstock.engine.options import shown_options, subscription_options


@pytest.mark.parametrize(
    ("given", "field", "value"),
    [
        ({"ack_deadline_seconds": 30}, "lease_seconds", 30),
        ({"ack_deadline": 30}, "lease_seconds", 30),
        ({"ack_deadline": timedelta(minutes=1)}, "lease_seconds", 60),
        ({"ack_deadline": {"seconds": 1, "nanos": 500_000_000}}, "lease_seconds", 1.5),
        ({"message_ordering": True}, "ordering", True),
        ({"enable_message_ordering": True}, "ordering", True),
        ({"enable_exactly_once_delivery": True}, "exactly_once", True),
        ({"filter": "attributes:x"}, "filter", "attributes:x"),
        ({"flow_control": {"max_messages": 5}}, "flow_max_messages", 5),
        ({"flow_control": {"max_bytes": 5}}, "flow_max_bytes", 5),
        ({"retry_policy": {}}, "retry_minimum_seconds", 10),
        ({"retry_policy": {"maximum_backoff": 50}}, "retry_maximum_seconds", 50),
        ({"dead_letter_policy": {"dead_letter_topic": "t"}}, "max_delivery_attempts", 5),
        ({"message_retention_duration": 600}, "retention_seconds", 600),
        ({"retain_acked_messages": True}, "retain_acked", True),
        ({"expiration_policy": {"ttl": timedelta(days=1)}}, "expiration_seconds", 86400),
        ({"labels": {"a": "b"}}, "labels", {"a": "b"}),
        ({"ack_deadline": None}, "lease_seconds", 10),
    ],
)
def test_an_option_gets_its_name_in_the_broker(given: dict[str, Any], field: str, value: object) -> None:
    assert getattr(subscription_options(given), field) == value


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"ack_deadline": 30, "enable_message_ordering": True, "filter": "attributes:x", "labels": {"a": "b"}},
        {"flow_control": {"max_bytes": 5}},
        {"flow_control": {"max_bytes": 5, "max_messages": 7}},
        {"retry_policy": {}},
        {"retry_policy": {"minimum_backoff": 0, "maximum_backoff": 50}},
        {"dead_letter_policy": {"dead_letter_topic": "t", "max_delivery_attempts": 9}},
        {"expiration_policy": {"ttl": 86400}, "message_retention_duration": 0, "retain_acked_messages": True},
    ],
)
def test_shown_options_can_be_passed_again(given: dict[str, Any]) -> None:
    options = subscription_options(given)
    assert subscription_options(shown_options(options)) == options


def test_options_that_were_not_given_are_not_shown() -> None:
    shown = shown_options(SubscriptionOptions(flow_max_bytes=5, max_delivery_attempts=9))
    assert shown["flow_control"] == {"max_bytes": 5}
    assert (shown["retry_policy"], shown["dead_letter_policy"], shown["expiration_policy"]) == (None, None, None)


def test_an_alias_gives_way() -> None:
    for given in ({"ack_deadline": 20, "ack_deadline_seconds": 30}, {"ack_deadline_seconds": 30, "ack_deadline": 20}):
        assert subscription_options(given).lease_seconds == 30


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"acknowledge": 1}, "Unknown subscription option: acknowledge"),
        ({"ack_deadline": "10"}, "ack_deadline must be a number of seconds, not str"),
        ({"ack_deadline": True}, "ack_deadline must be a number of seconds, not bool"),
        ({"ack_deadline": {"minutes": 1}}, "ack_deadline: unknown part of a duration: minutes"),
        ({"ack_deadline": 0.5}, "Ack deadline must be between 1 and 600 seconds"),
        ({"message_ordering": 1}, "message_ordering must be True or False, not int"),
        ({"filter": 7}, "filter must be a string, not int"),
        ({"flow_control": {"max_messages": 0}}, "flow_control.max_messages must be a whole number, at least 1"),
        ({"flow_control": {"messages": 1}}, "Unknown part of flow_control: messages"),
        ({"flow_control": 5}, "flow_control must be a dictionary"),
        ({"retry_policy": {"minimum_backoff": -1}}, "retry_policy.minimum_backoff must not be negative"),
        ({"message_retention_duration": float("nan")}, "message_retention_duration must not be negative"),
        ({"labels": {"a": 1}}, "labels must be a dictionary of strings"),
    ],
)
def test_invalid_options_are_named(given: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgumentError, match=text):
        subscription_options(given)


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (SubscriptionOptions(lease_seconds=0), "A lease must last more than 0"),
        (SubscriptionOptions(ordering_window=0), "The ordering window must be at least 1"),
        (SubscriptionOptions(retry_minimum_seconds=5, retry_maximum_seconds=4), "must not be below the minimum"),
        (SubscriptionOptions(max_delivery_attempts=0), "At least one delivery attempt is needed"),
        (SubscriptionOptions(flow_max_bytes=-1), "must not be negative"),
        (SubscriptionOptions(filter="nonsense ="), "Invalid filter"),
    ],
)
def test_the_broker_refuses_options_that_make_no_sense(options: SubscriptionOptions, text: str) -> None:
    with MessageQueue() as queue:
        queue.register_topic("topic")
        with pytest.raises(InvalidArgumentError, match=text):
            queue.register_subscription("sub", "topic", options)
        assert not queue.subscription_exists("sub")


def test_options_come_in_one_way_at_a_time() -> None:
    with MessageQueue() as queue:
        queue.register_topic("topic")
        with pytest.raises(InvalidArgumentError, match="not both"):
            queue.register_subscription("sub", "topic", SubscriptionOptions(), ack_deadline=5)
        queue.register_subscription("sub", "topic", {"ack_deadline": 20}, ack_deadline=30)
        found = queue.get_subscription("sub")
        assert found is not None
        assert found.options.ack_deadline_seconds == found.options["ack_deadline_seconds"] == 30

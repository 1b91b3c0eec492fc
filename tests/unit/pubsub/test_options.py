"""The forms of options and names."""

from __future__ import annotations

from datetime import timedelta

import pytest

from penstock import InvalidArgumentError
from penstock.names import full_name
from penstock.pubsub.options import ConsumerOptions, PublisherOptions, consumer_options, publisher_options


def test_no_options_leave_the_defaults() -> None:
    assert consumer_options({}, ConsumerOptions()) == ConsumerOptions()
    assert publisher_options({}, PublisherOptions()) == PublisherOptions()
    none = dict.fromkeys(["flow_control", "batching", "close_options", "ack_deadline_seconds", "streaming_options"])
    assert consumer_options(none, ConsumerOptions()) == ConsumerOptions()


def test_the_defaults_match_the_specification() -> None:
    options = ConsumerOptions()
    assert (options.max_messages, options.max_bytes) == (1000, 100 * 1024 * 1024)
    assert options.allow_excess_messages is False
    assert options.batch_messages == 3000
    assert options.close_behavior == "WAIT"


@pytest.mark.parametrize(
    "duration", [90, 90.0, timedelta(minutes=1.5), {"seconds": 90}, {"seconds": 89, "nanos": 1_000_000_000}]
)
def test_durations_have_three_forms(duration: object) -> None:
    given = {"close_options": {"timeout": duration}, "ack_deadline": duration, "max_extension_time": duration}
    options = consumer_options(given, ConsumerOptions())
    assert options.close_timeout_seconds == 90
    assert options.ack_deadline_seconds == 90
    assert options.max_extension_seconds == 90


def test_parts_given_later_leave_the_others() -> None:
    first = consumer_options({"flow_control": {"max_messages": 5, "max_extension": 60}}, ConsumerOptions())
    second = consumer_options({"flow_control": {"max_bytes": 7}, "batching": {"max_milliseconds": 20}}, first)
    assert (second.max_messages, second.max_bytes, second.max_extension_seconds) == (5, 7, 60)
    assert second.batch_seconds == 0.02
    publisher = publisher_options({"batching": {"max_messages": 5}}, PublisherOptions())
    assert publisher_options({"flow_control": {"max_outstanding_bytes": 9}}, publisher).max_messages == 5


@pytest.mark.parametrize(
    ("given", "stored", "lease"),
    [
        ({}, 10, 10),
        ({"ack_deadline_seconds": 30}, 10, 30),
        ({"min_ack_deadline": 20}, 10, 20),
        ({"max_ack_deadline": 5}, 10, 5),
        ({"ack_deadline": 1}, 10, 1),
    ],
)
def test_the_lease_of_a_reader(given: dict[str, object], stored: float, lease: float) -> None:
    assert consumer_options(given, ConsumerOptions()).lease_seconds(stored) == lease


def test_names_are_made_full() -> None:
    assert full_name("p", "topics", "t") == "projects/p/topics/t"
    assert full_name("p", "topics", "projects/q/topics/t") == "projects/q/topics/t"
    for wrong in ("projects/q/subscriptions/t", "a/b", "/", "projects//topics/t", "projects/q/topics/t/u", "", None, 5):
        with pytest.raises(InvalidArgumentError):
            full_name("p", "topics", wrong)

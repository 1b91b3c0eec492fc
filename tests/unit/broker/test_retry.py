"""The retry policy: delays, and the last attempt."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.model import SECOND, SubscriptionOptions
from penstock.broker.retry import Source, backoff, is_spent, source_attributes


def policy(minimum: float, maximum: float) -> SubscriptionOptions:
    return SubscriptionOptions(retry_minimum_seconds=minimum, retry_maximum_seconds=maximum)


@pytest.mark.parametrize(
    ("attempts", "seconds"), [(0, 0), (1, 10), (2, 20), (3, 40), (6, 320), (7, 600), (8, 600), (10**6, 600)]
)
def test_the_delay_doubles_up_to_its_maximum(attempts: int, seconds: int) -> None:
    """004 BR-015: min(minimum * 2^(attempt-1), maximum)."""
    assert backoff(policy(10, 600), attempts) == seconds * SECOND


def test_without_a_policy_there_is_no_delay() -> None:
    """004 BR-015."""
    assert [backoff(SubscriptionOptions(), attempts) for attempts in (1, 2, 100)] == [0, 0, 0]


def test_a_minimum_alone_does_not_grow() -> None:
    assert [backoff(policy(0.5, 0), attempts) for attempts in (1, 2, 9)] == [SECOND // 2] * 3


@given(st.floats(0.001, 600), st.floats(0.001, 600), st.integers(1, 10**9))
def test_delays_never_shrink_and_never_pass_the_maximum(one: float, other: float, attempts: int) -> None:
    options = policy(min(one, other), max(one, other))
    assert 0 < backoff(options, attempts) <= backoff(options, attempts + 1) <= int(max(one, other) * SECOND)


@pytest.mark.parametrize(("attempts", "spent"), [(0, False), (4, False), (5, True), (6, True)])
def test_a_message_is_spent_after_its_last_attempt(attempts: int, spent: bool) -> None:
    """004 BR-016."""
    assert is_spent(SubscriptionOptions(dead_letter_topic="dead", max_delivery_attempts=5), attempts) is spent
    assert not is_spent(SubscriptionOptions(max_delivery_attempts=5), attempts)


def test_a_dead_letter_says_where_it_comes_from() -> None:
    assert source_attributes(Source("sub", "topic", 7, 123)) == {
        "dead_letter_source_subscription": "sub",
        "dead_letter_source_topic": "topic",
        "dead_letter_source_delivery_count": "7",
        "dead_letter_source_publish_time_ns": "123",
    }

"""Ids and receipts can be read back, and nothing else can be mistaken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.names import (
    MAX_OFFSET,
    MAX_TOPIC,
    log_key,
    message_id,
    parse_message_id,
    parse_receipt,
    receipt,
)
from penstock.errors import InvalidArgumentError

TOPICS, OFFSETS = st.integers(0, MAX_TOPIC), st.integers(0, MAX_OFFSET)


@given(TOPICS, OFFSETS)
def test_a_message_id_can_be_read_back(topic: int, offset: int) -> None:
    assert parse_message_id(message_id(topic, offset)) == (topic, offset)
    assert 0 <= log_key(topic, offset) < 2**63


@given(st.tuples(TOPICS, OFFSETS), st.tuples(TOPICS, OFFSETS))
def test_keys_sort_by_topic_then_offset(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (log_key(*one) < log_key(*other)) == (one < other)


@given(TOPICS, OFFSETS, st.integers(0, 2**63))
def test_a_receipt_can_be_read_back(subscription: int, offset: int, stamp: int) -> None:
    assert parse_receipt(receipt(subscription, offset, stamp)) == (subscription, offset, stamp)


@pytest.mark.parametrize("text", ["", "abc", "-1", "1.5", "1e3", "²", " 1", "9" * 20, "1_000"])
def test_what_is_no_message_id_is_refused(text: str) -> None:
    with pytest.raises(InvalidArgumentError, match="Invalid message ID"):
        parse_message_id(text)


@pytest.mark.parametrize("text", ["", "abc", "1-2", "1-2-3-4", "1--2", "a-b-c", "1-2-", "²-1-1", "1" * 60 + "-1-1"])
def test_what_is_no_receipt_is_none(text: str) -> None:
    assert parse_receipt(text) is None


@given(st.text(max_size=80))
def test_no_text_is_too_odd(text: str) -> None:
    parsed = parse_receipt(text)
    assert parsed is None or min(parsed) >= 0

"""Ids and receipts: they can be parsed, and no other text can be mistaken for one."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.names import (
    MAX_OFFSET,
    MAX_TOPIC,
    log_key,
    parse_receipt,
    publisher_stamp,
    receipt,
)

TOPICS, OFFSETS = st.integers(0, MAX_TOPIC), st.integers(0, MAX_OFFSET)


@given(st.tuples(TOPICS, OFFSETS), st.tuples(TOPICS, OFFSETS))
def test_keys_sort_by_topic_then_offset(one: tuple[int, int], other: tuple[int, int]) -> None:
    assert (log_key(*one) < log_key(*other)) == (one < other)
    assert 0 <= log_key(*one) < 2**63


@given(TOPICS, OFFSETS, st.integers(0, 2**63))
def test_a_receipt_can_be_read_back(subscription: int, offset: int, stamp: int) -> None:
    assert parse_receipt(receipt(subscription, offset, stamp)) == (subscription, offset, stamp)


@given(st.binary(min_size=16, max_size=16), TOPICS, OFFSETS)
def test_a_publishers_stamp_depends_on_all_it_speaks_for(secret: bytes, subscription: int, offset: int) -> None:
    stamp = publisher_stamp(secret, subscription, offset)
    others = [
        publisher_stamp(bytes(byte ^ 1 for byte in secret), subscription, offset),
        publisher_stamp(secret, subscription + 1, offset),
        publisher_stamp(secret, subscription, offset + 1),
    ]
    assert 0 <= stamp < 2**63
    assert stamp not in others


@pytest.mark.parametrize("text", ["", "abc", "1-2", "1-2-3-4", "1--2", "a-b-c", "1-2-", "²-1-1", "1" * 60 + "-1-1"])
def test_an_invalid_receipt_is_none(text: str) -> None:
    assert parse_receipt(text) is None


@given(st.text(max_size=80) | st.text("0123456789-_ +", max_size=20))
def test_any_text_is_a_receipt_that_reads_back_or_none(text: str) -> None:
    parsed = parse_receipt(text)
    assert parsed is None or (min(parsed) >= 0 and parse_receipt(receipt(*parsed)) == parsed)

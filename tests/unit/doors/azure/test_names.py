"""Ids, receipts and names: every number converts both ways."""

from __future__ import annotations

import base64
import uuid

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.names import MAX_OFFSET, MAX_TOPIC, parse_receipt, receipt
from penstock.doors.azure.names import (
    is_queue_name,
    message_uuid,
    parse_message_uuid,
    parse_pop_receipt,
    pop_receipt,
)

TOPICS, OFFSETS = st.integers(1, MAX_TOPIC), st.integers(0, MAX_OFFSET)


@given(st.integers(0, 2**63 - 1))
def test_an_id_is_a_uuid_and_comes_back(number: int) -> None:
    text = message_uuid(number)
    parsed = uuid.UUID(text)
    assert (str(parsed), parsed.version, parsed.variant) == (text, 4, uuid.RFC_4122)
    assert parse_message_uuid(text) == parse_message_uuid(text.upper()) == number


@given(st.uuids(version=4))
def test_foreign_ids_are_not_parsed(other: uuid.UUID) -> None:
    assert parse_message_uuid(str(other)) is None


@given(st.text(max_size=50))
def test_any_text_is_an_id_or_not(text: str) -> None:
    assert parse_message_uuid(text) is None


def test_consecutive_ids_look_different() -> None:
    texts = [message_uuid(10**18 + place) for place in range(1000)]
    assert len(set(texts)) == len({text[:8] for text in texts}) == 1000


@given(TOPICS, OFFSETS, st.integers(0, 2**63))
def test_a_receipt_is_base64_that_needs_no_escaping_and_comes_back(number: int, offset: int, stamp: int) -> None:
    ours = receipt(number, offset, stamp)
    text = pop_receipt(ours)
    assert text.isalnum()
    assert base64.b64decode(text, validate=True)
    assert parse_receipt(parse_pop_receipt(text) or "") == (number, offset, stamp)


@given(st.text(max_size=30) | st.text("ABCabc019+/=", max_size=30))
def test_a_text_is_a_receipt_exactly_if_it_is_base64(text: str) -> None:
    try:
        decoded = base64.b64decode(text.encode("ascii"), validate=True)
    except ValueError:  # binascii.Error and UnicodeEncodeError as well
        decoded = b""
    if len(text) % 4:  # more padding than needed, which Python accepts
        decoded = b""
    parsed = parse_pop_receipt(text)
    assert parsed == (decoded.decode("latin-1").lstrip("0") if decoded else None)
    if parsed is not None and (known := parse_receipt(parsed)) is not None:
        assert all(isinstance(number, int) for number in known)


@pytest.mark.parametrize("text", ["", "a", "abc", "ab*=", "YQ=", "é" * 4, "YWJj\n"])
def test_text_that_is_not_base64_is_no_receipt(text: str) -> None:
    assert parse_pop_receipt(text) is None


@pytest.mark.parametrize(
    ("name", "good"),
    [("abc", True), ("a-b-1", True), ("a--b", False), ("-ab", False), ("Abc", False), ("abc\n", False)],
)
def test_names_of_queues(name: str, good: bool) -> None:
    assert is_queue_name(name) is good

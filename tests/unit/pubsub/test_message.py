"""Messages that a program creates to test its listeners."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime, timedelta, timezone

import pytest

from penstock import AckResponse, InvalidArgumentError, Message, PubSub

MOMENT = datetime(2026, 1, 14, 12, 30, 0, 123456, tzinfo=UTC)


def test_a_message_has_the_values_it_was_made_with() -> None:
    """000 Constructor, BR-001, BR-006, BR-008, BR-009."""
    attributes = {"key": "value"}
    subscription = PubSub().subscription("my-sub")
    message = Message("7", "7-1", b"Hello World", attributes, MOMENT, subscription, "user-123")
    attributes["key"] = "changed"
    message.attributes["key"] = "changed"
    assert (message.id, message.ack_id, message.data, message.length) == ("7", "7-1", b"Hello World", 11)
    assert (message.attributes, message.ordering_key) == ({"key": "value"}, "user-123")
    assert (message.publish_time, message.original_publish_time) == (MOMENT, MOMENT)
    assert (message.delivery_attempt, message.subscription) == (1, subscription)
    assert (message.acked, message.nacked, message.deadline_seconds) == (False, False, None)


def test_optional_arguments_can_be_left_out() -> None:
    """000 Constructor, BR-007, BR-009."""
    before = datetime.now(UTC) - timedelta(microseconds=1)
    message = Message("1", "1-1", b"", delivery_attempt=3)
    assert (message.data, message.attributes, message.ordering_key) == (b"", {}, None)
    assert message.delivery_attempt == 3
    assert before <= message.publish_time <= datetime.now(UTC)


def test_other_time_zones_are_understood() -> None:
    """000 BR-001."""
    zone = timezone(timedelta(hours=2))
    assert Message("1", "1", b"", {}, MOMENT.astimezone(zone)).publish_time == MOMENT
    assert Message("1", "1", b"", {}, MOMENT.replace(tzinfo=None)).publish_time == MOMENT


def test_data_must_be_bytes() -> None:
    """000 BR-001."""
    with pytest.raises(InvalidArgumentError, match="must be bytes, not str"):
        Message("1", "1", "text")  # type: ignore[arg-type]


def test_the_first_answer_is_remembered() -> None:
    """000 AC-008, AC-009."""
    message = Message("1", "1-1", b"x")
    message.modify_ack_deadline(60)
    message.nack()
    message.ack()
    assert (message.acked, message.nacked, message.deadline_seconds) == (False, True, 60)
    other = Message("2", "2-1", b"x")
    other.ack()
    other.nack()
    assert (other.acked, other.nacked) == (True, False)


def test_a_deadline_of_zero_is_a_nack_and_others_have_bounds() -> None:
    """000 BR-004."""
    message = Message("1", "1-1", b"x")
    with pytest.raises(InvalidArgumentError, match="Ack deadline must be between 0 and 600 seconds"):
        message.modify_ack_deadline(601)
    message.modify_ack_deadline(0)
    assert message.nacked


def test_answers_with_a_response_succeed() -> None:
    """000 AC-014."""

    async def main() -> None:
        message = Message("1", "1-1", b"x")
        assert await message.ack_with_response() == AckResponse.SUCCESS
        assert await message.nack_with_response() == AckResponse.SUCCESS
        assert message.acked
        other = Message("1", "1-1", b"x")
        assert await other.nack_with_response() == AckResponse.SUCCESS
        assert other.nacked

    asyncio.run(main())

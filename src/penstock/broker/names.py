"""How messages and deliveries are named: message ids and receipts, both made from what the broker already knows.

The rule kept here: a name is never stored. A message id is its topic's number and its offset in one integer, a
receipt is the subscription's number, the offset and the stamp of the delivery; each can be read back.
"""

from __future__ import annotations

from penstock.errors import InvalidArgumentError

OFFSET_BITS = 39
MAX_OFFSET = (1 << OFFSET_BITS) - 1
MAX_TOPIC = (1 << (63 - OFFSET_BITS)) - 1


def log_key(topic: int, offset: int) -> int:
    """The place of an offset among all topics, as one 63-bit integer that sorts by topic, then offset."""
    return topic << OFFSET_BITS | offset


def message_id(topic: int, offset: int) -> str:
    return str(topic << OFFSET_BITS | offset)


def parse_message_id(text: str) -> tuple[int, int]:
    """(topic number, offset) of a message id."""
    if not (text.isascii() and text.isdigit()) or len(text) > 19:
        raise InvalidArgumentError(f"Invalid message ID: {text}")
    key = int(text)
    return key >> OFFSET_BITS, key & MAX_OFFSET


def receipt(subscription: int, offset: int, stamp: int) -> str:
    return f"{subscription}-{offset}-{stamp}"


def parse_receipt(text: str) -> tuple[int, int, int] | None:
    """(subscription number, offset, stamp), or None if the text never was a receipt."""
    try:
        subscription, offset, stamp = text.split("-")
        if len(text) > 60 or not text.isascii():
            return None
        return int(subscription), int(offset), int(stamp)
    except (ValueError, AttributeError):
        return None

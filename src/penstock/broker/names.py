"""Message ids and receipts, both computed from numbers that the broker already has.

A name is never stored. A message id is the first id of its topic and the offset, added; a receipt is the
subscription's number, the offset and a stamp that cannot be guessed: the one drawn for the delivery, or for a
publisher's receipt a keyed hash. Each can be read back.
"""

from __future__ import annotations

import hashlib

OFFSET_BITS = 39
MAX_OFFSET = (1 << OFFSET_BITS) - 1
MAX_TOPIC = (1 << (63 - OFFSET_BITS)) - 1

# Ids of a store begin at a place that its identity chooses, all with 19 digits, so that two stores share none: one of
# 15 million runs of offsets for its first topic, and the first of 2^37 offsets within the run. The next topic takes the
# next run. What the start takes from a run is missing at its end.
_LOWEST_RUN = -(-(10**18) >> OFFSET_BITS)
_RUNS = MAX_TOPIC + 1 - _LOWEST_RUN
_STARTS = 1 << 37
NUMBERS_MAX = _RUNS  # topics and subscriptions of a store, from its birth on
MESSAGES_MAX = MAX_OFFSET + 1 - _STARTS  # of a topic, from its birth on


def log_key(topic: int, offset: int) -> int:
    """The place of an offset among all topics, as one 63-bit integer that sorts by topic, then offset."""
    return topic << OFFSET_BITS | offset


def first_id(identity: str, topic: int) -> int:
    """The id of the message at offset 0 of a topic; the others count up from it."""
    drawn = int(identity, 16)
    run = _LOWEST_RUN + (drawn + topic) % _RUNS
    return run << OFFSET_BITS | (drawn >> 64) % _STARTS


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


def move_producer(identity: str, subscription: int, block: int) -> str:
    """Return the producer name of a move from a subscription. The sequence number of each message is its offset.

    It says where they were. A block is of offsets whose keys are forgotten together.
    """
    return f"move/{identity}/{subscription}/{block}"


def parse_move_producer(text: str) -> tuple[str, int] | None:
    """(identity of the topic, subscription number), or None where a producer is no move."""
    kind, _, rest = text.partition("/")
    identity, _, numbers = rest.partition("/")
    subscription, _, block = numbers.partition("/")
    return (identity, int(subscription)) if kind == "move" and subscription.isdigit() and block.isdigit() else None


def publisher_stamp(secret: bytes, subscription: int, offset: int) -> int:
    """The stamp of a receipt for a message that was never delivered: nothing is remembered of it, so it is computed."""
    digest = hashlib.blake2b(f"{subscription}-{offset}".encode(), digest_size=8, key=secret).digest()
    return int.from_bytes(digest, "big") >> 1

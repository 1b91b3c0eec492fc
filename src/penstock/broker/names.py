"""Message ids and receipts, which are computed and never stored.

A message id is the first id of its topic plus the offset. A receipt is the subscription's number, the offset and a
stamp that cannot be guessed. The stamp is drawn for the delivery, or for a publisher's receipt is a keyed hash.
"""

from __future__ import annotations

import hashlib

OFFSET_BITS = 39
MAX_OFFSET = (1 << OFFSET_BITS) - 1
MAX_TOPIC = (1 << (63 - OFFSET_BITS)) - 1

# The identity of a store chooses where its ids begin, so that two stores share none: one of 15 million runs of offsets
# for its first topic, and one of the first 2^37 offsets in the run. All ids have 19 digits. The next topic takes the
# next run. The start shortens a run by as much.
_LOWEST_RUN = -(-(10**18) >> OFFSET_BITS)
_RUNS = MAX_TOPIC + 1 - _LOWEST_RUN
_STARTS = 1 << 37
NUMBERS_MAX = _RUNS  # topics and subscriptions that a store can ever have
MESSAGES_MAX = MAX_OFFSET + 1 - _STARTS  # messages that a topic can ever have


def log_key(topic: int, offset: int) -> int:
    """Return a 63-bit integer that sorts by topic, then offset."""
    return topic << OFFSET_BITS | offset


def first_id(identity: str, topic: int) -> int:
    """Return the id of the message at offset 0 of a topic. The other ids count up from it."""
    drawn = int(identity, 16)
    run = _LOWEST_RUN + (drawn + topic) % _RUNS
    return run << OFFSET_BITS | (drawn >> 64) % _STARTS


def receipt(subscription: int, offset: int, stamp: int) -> str:
    return f"{subscription}-{offset}-{stamp}"


def parse_receipt(text: str) -> tuple[int, int, int] | None:
    """Return (subscription number, offset, stamp), or None if the text is not a receipt."""
    try:
        subscription, offset, stamp = text.split("-")
        if len(text) > 60 or not text.isascii():
            return None
        return int(subscription), int(offset), int(stamp)
    except (ValueError, AttributeError):
        return None


def move_producer(identity: str, subscription: int, block: int) -> str:
    """Return the producer name of a move from a subscription. The sequence number of each message is its offset.

    A block is a range of offsets whose keys are forgotten together.
    """
    return f"move/{identity}/{subscription}/{block}"


def parse_move_producer(text: str) -> tuple[str, int] | None:
    """Return (identity of the topic, subscription number), or None if a producer is not a move."""
    kind, _, rest = text.partition("/")
    identity, _, numbers = rest.partition("/")
    subscription, _, block = numbers.partition("/")
    return (identity, int(subscription)) if kind == "move" and subscription.isdigit() and block.isdigit() else None


def publisher_stamp(secret: bytes, subscription: int, offset: int) -> int:
    """Compute the stamp of a receipt for a message that was never delivered, because nothing is stored about it."""
    digest = hashlib.blake2b(f"{subscription}-{offset}".encode(), digest_size=8, key=secret).digest()
    return int.from_bytes(digest, "big") >> 1

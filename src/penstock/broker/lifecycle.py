"""The life of a message in one subscription: its stages, and which fact leads from one to the next.

Subscription applies the facts; the table says what they mean. `tests/unit/broker/test_lifecycle.py` drives every
fact over every stage and walks at random, so that a row too many, a row missing or a wrong row is found.
"""

from __future__ import annotations

from enum import Enum

from penstock.broker import facts as f


class Stage(Enum):
    UNREAD = "at or above the cursor: not looked at, and nothing is remembered of it"
    HELD = "looked at and kept back: an earlier message of its ordering key is not settled"
    WAITING = "to be delivered, or delivered again, from its due time on"
    LEASED = "with a consumer, until its deadline"
    SETTLED = "done with: acked, dropped, moved to another topic, filtered out or not taken"


LIFE: dict[Stage, dict[type[f.Fact], Stage]] = {
    Stage.UNREAD: {
        f.Published: Stage.SETTLED,  # a full queue did not take it, or the filter at the end of the log keeps it out
        f.Passed: Stage.SETTLED,  # filtered out, or too old; not what a later fact of the same command names
        f.Held: Stage.HELD,
        f.Delayed: Stage.WAITING,  # not visible yet, or about to be moved because its time to live is over
        f.Adopted: Stage.WAITING,  # its publisher named it by a receipt before the cursor came to it
        f.Delivered: Stage.LEASED,
    },
    Stage.HELD: {
        f.Delayed: Stage.WAITING,
        f.Delivered: Stage.LEASED,
    },
    Stage.WAITING: {
        f.Delivered: Stage.LEASED,
        f.Extended: Stage.LEASED,  # by a receipt that outlived its lease
        f.Rewritten: Stage.WAITING,
        f.Acked: Stage.SETTLED,
        f.Removed: Stage.SETTLED,
    },
    Stage.LEASED: {
        f.Extended: Stage.LEASED,
        f.Rewritten: Stage.LEASED,
        f.Returned: Stage.WAITING,
        f.Acked: Stage.SETTLED,
        f.Removed: Stage.SETTLED,
    },
    Stage.SETTLED: {},
}

# A seek starts every life again: settled before its cursor and inside its skips, unread from there on.
SOUGHT = (Stage.SETTLED, Stage.UNREAD)

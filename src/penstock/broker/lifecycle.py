"""The stages of a message in one subscription, and the facts that lead from one to another.

Subscription applies the facts. `tests/unit/broker/test_lifecycle.py` applies every fact at every stage, and random
sequences, so that it finds missing, superfluous and wrong rows.
"""

from __future__ import annotations

from enum import Enum

from penstock.broker import facts as f


class Stage(Enum):
    UNREAD = "at or above the cursor; the subscription stores nothing about it"
    HELD = "below the cursor, and blocked by an earlier message with its ordering key"
    WAITING = "to be delivered, or delivered again, from its due time on"
    LEASED = "with a consumer, until its deadline"
    SETTLED = "acked, dropped, moved to another topic, filtered out or discarded"


LIFE: dict[Stage, dict[type[f.Fact], Stage]] = {
    Stage.UNREAD: {
        f.Published: Stage.SETTLED,  # discarded by a full subscription, or kept out by a filter that is not behind
        f.Passed: Stage.SETTLED,  # filtered out or expired, unless a later fact of the same command names it
        f.Held: Stage.HELD,
        f.Delayed: Stage.WAITING,  # not visible yet, or about to be moved because its time to live is over
        f.Adopted: Stage.WAITING,  # its publisher named it by a receipt before the cursor reached it
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

# A seek sets all stages: settled below its cursor and inside its skips, otherwise unread.
SOUGHT = (Stage.SETTLED, Stage.UNREAD)

"""The clock of the doors' tests. The time of the broker and the time of the system differ by an hour.

They differ like this after a clock was set back. A test then shows at once if one is used in place of the other.
"""

from __future__ import annotations

import time

from penstock import ManualClock
from penstock.broker.model import SECOND

APART_SECONDS = 3600


def clock_at(wall: int | None = None) -> ManualClock:
    """Return a clock whose wall time is `wall`, or the current time."""
    clock = ManualClock((time.time_ns() if wall is None else wall) + APART_SECONDS * SECOND)
    clock.set_wall(-APART_SECONDS)
    return clock

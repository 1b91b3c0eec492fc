"""The clock of the doors' tests: the broker's time and everybody else's are an hour apart.

So it is after a clock was set back, and what takes the one for the other shows at once.
"""

from __future__ import annotations

import time

from penstock import ManualClock
from penstock.broker.model import SECOND

APART_SECONDS = 3600


def clock_at(wall: int | None = None) -> ManualClock:
    """A clock whose wall shows this time, or today's."""
    clock = ManualClock((time.time_ns() if wall is None else wall) + APART_SECONDS * SECOND)
    clock.set_wall(-APART_SECONDS)
    return clock

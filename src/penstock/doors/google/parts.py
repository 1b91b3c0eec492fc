"""The parts of this door, each handed what it needs.

The rule kept here: parts know one another only through what is handed in here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.doors.google.holdings import Holdings
from penstock.doors.google.policies import Policies
from penstock.doors.google.publishing import Publishing
from penstock.doors.google.pulling import Pulling
from penstock.doors.google.schemas import Schemas
from penstock.doors.google.snapshots import Snapshots
from penstock.doors.google.streaming import StreamingPull
from penstock.doors.google.subscriptions import Subscriptions
from penstock.doors.google.topics import Topics
from penstock.doors.google.validation import Validation
from penstock.engine.async_queue import AsyncMessageQueue


class Parts:
    def __init__(self, queue: AsyncMessageQueue, check_endpoint: Callable[[Any], None]) -> None:
        self.holdings = Holdings()
        self.schemas = Schemas(queue, queue.clock.now)
        self.topics = Topics(queue, self.schemas.check_settings)
        self.subscriptions = Subscriptions(queue, check_endpoint)
        self.snapshots = Snapshots(queue)
        self.policies = Policies(queue, self.schemas)
        self.publishing = Publishing(queue, Validation(self.schemas.revisions).validate)
        self.pulling = Pulling(queue)
        self.streaming = StreamingPull(queue, self.holdings, self.pulling)

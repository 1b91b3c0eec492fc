"""The parts of this door, each handed what it needs.

The rule kept here: parts know one another only through what is handed in here.
"""

from __future__ import annotations

from penstock.broker.model import Draft
from penstock.doors.google.holdings import Holdings
from penstock.doors.google.publishing import Publishing
from penstock.doors.google.pulling import Pulling
from penstock.doors.google.snapshots import Snapshots
from penstock.doors.google.streaming import StreamingPull
from penstock.doors.google.subscriptions import Subscriptions
from penstock.doors.google.topics import Topics
from penstock.faces.awaitable import AsyncMessageQueue
from penstock.faces.views import TopicMetadata


class Parts:
    def __init__(self, queue: AsyncMessageQueue) -> None:
        self.holdings = Holdings()
        self.topics = Topics(queue, lambda settings: None)
        self.subscriptions = Subscriptions(queue, lambda config: None)
        self.snapshots = Snapshots(queue)
        self.publishing = Publishing(queue, _as_is)
        self.pulling = Pulling(queue)
        self.streaming = StreamingPull(queue, self.holdings, self.pulling)


def _as_is(topic: TopicMetadata, drafts: list[Draft]) -> list[Draft]:
    return drafts

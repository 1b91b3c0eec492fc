"""The port of the doors: a message queue as doors see it, on this machine or another. One module for each noun.

A verb is one call. It is decided when it is called, in the order of the calls, and its awaitable is done when the
decision is durable. A refusal is raised where the awaitable is awaited. Lookups return what is decided, durable or not.
No argument or result belongs to the broker's state, so every verb could be a message between machines.
"""

from __future__ import annotations

from asyncio import Future
from typing import Any, Protocol

from penstock.broker.consuming import Delivery, Peeked, Renewed, Settled
from penstock.broker.dump import SnapshotDump
from penstock.broker.limits import Limits
from penstock.broker.publishing import Appended, Once
from penstock.broker.replay import SeekPreview
from penstock.engine.clock import Alarm, Clock, sleep_until
from penstock.engine.port.clocks import Clocks
from penstock.engine.port.deliveries import Inspecting, Leased, Leasing, Settling
from penstock.engine.port.documents import Documents
from penstock.engine.port.messages import Log, Publishing
from penstock.engine.port.snapshots import Snapshots
from penstock.engine.port.statistics import Counts
from penstock.engine.port.store import Listener, News, StoreAccess
from penstock.engine.port.subscriptions import Queues, Seeking, Subscriptions
from penstock.engine.port.topics import NameLists, Topics
from penstock.engine.views import (
    Backlog,
    Holding,
    Kind,
    Lease,
    NamePage,
    QueueNumbers,
    Store,
    SubscriptionMetadata,
    TopicMetadata,
    Unsettled,
)
from penstock.errors import PenstockError
from penstock.journal.port import BackupProgress, BackupReport

__all__ = [
    "Alarm",
    "Appended",
    "Backlog",
    "BackupProgress",
    "BackupReport",
    "Clock",
    "Clocks",
    "Counts",
    "Delivery",
    "Documents",
    "Holding",
    "Inspecting",
    "Kind",
    "Lease",
    "Leased",
    "Leasing",
    "Listener",
    "Log",
    "NameLists",
    "NamePage",
    "News",
    "Once",
    "Peeked",
    "Publishing",
    "Queue",
    "QueueNumbers",
    "Queues",
    "Renewed",
    "SeekPreview",
    "Seeking",
    "Settled",
    "Settling",
    "SnapshotDump",
    "Snapshots",
    "Store",
    "StoreAccess",
    "SubscriptionMetadata",
    "Subscriptions",
    "TopicMetadata",
    "Topics",
    "Unsettled",
    "refusal",
    "sleep_until",
]


def refusal(decision: Future[Any]) -> PenstockError | None:
    """Return why a decision was refused, if that is already known."""
    error = decision.exception() if decision.done() else None
    assert error is None or isinstance(error, PenstockError)
    return error


class Queue(
    Topics,
    NameLists,
    Subscriptions,
    Seeking,
    Queues,
    Publishing,
    Log,
    Leasing,
    Settling,
    Inspecting,
    Counts,
    Snapshots,
    Documents,
    Clocks,
    StoreAccess,
    News,
    Protocol,
):
    @property
    def limits(self) -> Limits: ...

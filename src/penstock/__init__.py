"""Penstock: one durable message broker for cloud queue clients, Python programs and Spark.

Only public names live here; where each comes from is an implementation matter.
"""

from penstock.assembly import open_journal
from penstock.broker.limits import Limits
from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.broker.publishing import Once
from penstock.engine.blocking_queue import MessageQueue
from penstock.engine.clock import Clock, ManualClock, SystemClock
from penstock.engine.views import InternalMessage
from penstock.errors import (
    AlreadyExistsError,
    DamagedStoreError,
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    NotFoundError,
    PenstockError,
    PermissionDeniedError,
    ResourceExhaustedError,
    UnavailableError,
)
from penstock.pubsub.client import PubSub
from penstock.pubsub.message import AckResponse, Message
from penstock.pubsub.snapshot import Snapshot
from penstock.pubsub.subscription import Subscription
from penstock.pubsub.topic import Topic

PubSub.open_journal = staticmethod(open_journal)  # the API names no journal itself

__all__ = [
    "AckResponse",
    "AlreadyExistsError",
    "Clock",
    "DamagedStoreError",
    "Draft",
    "FailedPreconditionError",
    "InternalError",
    "InternalMessage",
    "InvalidArgumentError",
    "Limits",
    "ManualClock",
    "Message",
    "MessageQueue",
    "NotFoundError",
    "Once",
    "PenstockError",
    "PermissionDeniedError",
    "PubSub",
    "ResourceExhaustedError",
    "Snapshot",
    "Subscription",
    "SubscriptionOptions",
    "SystemClock",
    "Topic",
    "TopicOptions",
    "UnavailableError",
]

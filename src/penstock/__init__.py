"""Penstock: one durable message broker for cloud queue clients, Python programs and Spark.

Only public names live here; where each comes from is an implementation matter.
"""

from penstock.broker.limits import Limits
from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.broker.publishing import Once
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
from penstock.faces.blocking import MessageQueue
from penstock.faces.clock import Clock, ManualClock, SystemClock
from penstock.faces.views import InternalMessage

__all__ = [
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
    "MessageQueue",
    "NotFoundError",
    "Once",
    "PenstockError",
    "PermissionDeniedError",
    "ResourceExhaustedError",
    "SubscriptionOptions",
    "SystemClock",
    "TopicOptions",
    "UnavailableError",
]

"""Penstock: one durable message broker for cloud queue clients, Python programs and Spark.

This module has only public names. Each is loaded on first use, so that importing one of them, or running the command
line, does not load all.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    __version__: str

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

_HOMES = {
    "broker.limits": ("Limits",),
    "broker.model": ("Draft", "SubscriptionOptions", "TopicOptions"),
    "broker.publishing": ("Once",),
    "engine.blocking_queue": ("MessageQueue",),
    "engine.clock": ("Clock", "ManualClock", "SystemClock"),
    "engine.views": ("InternalMessage",),
    "errors": (
        "AlreadyExistsError",
        "DamagedStoreError",
        "FailedPreconditionError",
        "InternalError",
        "InvalidArgumentError",
        "NotFoundError",
        "PenstockError",
        "PermissionDeniedError",
        "ResourceExhaustedError",
        "UnavailableError",
    ),
    "pubsub.client": ("PubSub",),
    "pubsub.message": ("AckResponse", "Message"),
    "pubsub.snapshot": ("Snapshot",),
    "pubsub.subscription": ("Subscription",),
    "pubsub.topic": ("Topic",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> object:
    if name == "__version__":
        from penstock.distribution import installed_version

        return installed_version()
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
    if name == "PubSub":
        from penstock.assembly import open_journal

        value.open_journal = staticmethod(open_journal)  # the API names no journal itself
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, "__version__"})


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

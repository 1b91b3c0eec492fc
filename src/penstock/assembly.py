"""The composition root: the only file that names concrete parts and puts them together.

The rule kept here: whoever builds a broker builds it here, so that every other module is handed what it needs.
Doors are imported when one is opened: a program that only wants a queue pays for none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.broker.limits import Limits
from penstock.faces.awaitable import AsyncMessageQueue
from penstock.faces.blocking import MessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal

if TYPE_CHECKING:
    from penstock.doors.port import Condition, Door
    from penstock.settings import Settings

log = logging.getLogger("penstock")

SERVER_LIMITS = Limits(queue_max_messages=0, queue_max_bytes=0, refuse_when_full=True)


def open_queue(data: str | Path | None = None, *, limits: Limits | None = None, **parts: Any) -> MessageQueue:
    """A MessageQueue that keeps its messages in the folder `data`, or in memory without one.

    >>> with open_queue("./my-data") as queue:
    ...     queue.register_topic("orders")
    """
    return MessageQueue(open_journal(data), limits=limits, **parts)


def open_journal(data: str | Path | None, **options: Any) -> Journal:
    if data is None:
        return MemoryJournal()
    from penstock.journal.sqlite import SqliteJournal

    return SqliteJournal(Path(data), log=log.warning, **options)


# ---------------------------------------------------------------------- the server


class Parts(NamedTuple):
    queue: AsyncMessageQueue
    doors: Sequence[Door]
    condition: Condition


async def open_parts(settings: Settings) -> Parts:
    """The queue of a server, recovered and running, and its doors, not yet open."""
    from penstock.doors.port import Condition

    queue = AsyncMessageQueue(open_journal(None if settings.memory else settings.data), limits=server_limits(settings))
    await queue.start()
    condition = Condition()
    doors = [
        open_door(settings, queue, condition) for name, open_door in DOORS.items() if settings.port_of(name) is not None
    ]
    return Parts(queue, doors, condition)


def server_limits(settings: Settings) -> Limits:
    return replace(
        SERVER_LIMITS,
        retention_seconds=settings.retention_seconds,
        retention_bytes=settings.retention_bytes,
        queue_max_messages=settings.queue_messages_max,
        queue_max_bytes=settings.queue_bytes_max,
    )


def _open_http(settings: Settings, queue: AsyncMessageQueue, condition: Condition) -> Door:
    from penstock.doors.http.server import HttpDoor
    from penstock.settings import installed_version

    return HttpDoor(
        host=settings.host,
        port=settings.http_port or 0,
        statistics=queue,
        condition=condition,
        log=logging.getLogger("penstock.doors.http"),
        version=installed_version(),
        allowed_hosts=settings.http_allowed_hosts,
    )


# By the name of its port setting; the first opens first and closes last.
DOORS: dict[str, Callable[[Settings, AsyncMessageQueue, Condition], Door]] = {
    "http": _open_http,
}

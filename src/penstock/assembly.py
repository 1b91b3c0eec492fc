"""The composition root: the only file that names concrete parts and puts them together.

The rule kept here: whoever builds a broker builds it here, so that every other module is handed what it needs.
Doors are imported when one is opened: a program that only wants a queue pays for none of them.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from penstock.broker.limits import UNLIMITED_QUEUES, Limits
from penstock.faces.blocking import MessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal


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

    return SqliteJournal(Path(data), **options)


SERVER_LIMITS = Limits(**UNLIMITED_QUEUES, refuse_when_full=True)

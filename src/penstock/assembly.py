"""The composition root: the only file that names concrete parts and puts them together.

The rule kept here: whoever builds a broker builds it here, so that every other module is handed what it needs.
Doors are imported when one is opened: a program that only wants a queue pays for none of them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.broker.limits import Limits
from penstock.broker.log import Sizes
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.blocking_queue import MessageQueue
from penstock.errors import UnavailableError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal, LogReader

if TYPE_CHECKING:
    from penstock.doors.port import Condition, Door
    from penstock.settings import Settings
    from penstock.wire.budget import Budget

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


def open_log_reader(data: str | Path) -> LogReader:
    """For another process of a server that has the folder open: its messages, to read only."""
    from penstock.journal.sqlite.scanning import LogScanner

    return LogScanner(Path(data))


# ---------------------------------------------------------------------- the server


class Parts(NamedTuple):
    queue: AsyncMessageQueue
    doors: Sequence[Door]
    condition: Condition


async def open_parts(settings: Settings, sizes: Sizes | None = None) -> Parts:
    """The queue of a server, recovered and running, and its doors, not yet open."""
    from penstock.doors.google.deadletters import source_attributes
    from penstock.doors.port import Condition
    from penstock.wire.budget import Budget

    journal = open_journal(None) if settings.memory else open_journal(settings.data, accept_loss=settings.accept_loss)
    queue = AsyncMessageQueue(
        journal,
        limits=server_limits(settings),
        describe_source=source_attributes,
        sizes=sizes,
    )
    await queue.start()
    condition, budget = Condition(), Budget(settings.buffer_bytes_max)
    wanted = [open_door for name, open_door in DOORS.items() if settings.port_of(name) is not None]
    opened = [open_door(settings, queue, condition, budget) for open_door in wanted]
    doors = [door for door in opened if door is not None]
    condition.counts = {door.name: door.counts for door in doors}
    return Parts(queue, doors, condition)


def server_limits(settings: Settings) -> Limits:
    return replace(
        SERVER_LIMITS,
        retention_seconds=settings.retention_seconds,
        retention_bytes=settings.retention_bytes,
        seek_all=settings.pubsub_seek_all,
        queue_max_messages=settings.queue_messages_max,
        queue_max_bytes=settings.queue_bytes_max,
    )


def _open_http(settings: Settings, queue: AsyncMessageQueue, condition: Condition, budget: Budget) -> Door:
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
        budget=budget,
    )


def _open_azure(settings: Settings, queue: AsyncMessageQueue, condition: Condition, budget: Budget) -> Door:
    from penstock.doors.azure.accounts import read_accounts
    from penstock.doors.azure.server import AzureDoor, Options

    return AzureDoor(
        host=settings.host,
        port=settings.azure_port or 0,
        queue=queue,
        accounts=read_accounts(settings.azure_accounts),
        log=logging.getLogger("penstock.doors.azure"),
        budget=budget,
        options=Options(
            certificate=settings.azure_tls_cert,
            private_key=settings.azure_tls_key,
            bearer=settings.azure_oauth == "basic",
            dialect=settings.azure_dialect,
            receipt_errors=settings.azure_receipt_errors,
            poison_after=settings.azure_poison_after,
            poll_seconds=settings.azure_poll_seconds,
            message_bytes_max=settings.azure_message_bytes_max,
            keep_alive_seconds=settings.azure_keep_alive_seconds,
        ),
    )


def _open_google(settings: Settings, queue: AsyncMessageQueue, condition: Condition, budget: Budget) -> Door:
    try:
        from penstock.doors.google.server import GoogleDoor, Options
    except ImportError as error:
        raise UnavailableError(
            f"the pubsub door needs {error.name}: install penstock[google], or close it with --pubsub-port off"
        ) from error

    return GoogleDoor(
        host=settings.host,
        port=settings.pubsub_port or 0,
        queue=queue,
        condition=condition,
        log=logging.getLogger("penstock.doors.google"),
        budget=budget,
        options=Options(
            certificate=settings.pubsub_tls_cert,
            private_key=settings.pubsub_tls_key,
            tokens=settings.pubsub_tokens,
            origins=settings.pubsub_cors_origins,
            may_reset=settings.memory or settings.pubsub_reset,
            push_allow=settings.push_allow,
            own_ports=[port for name in DOORS if (port := settings.port_of(name))],
        ),
    )


def _open_text(settings: Settings, queue: AsyncMessageQueue, condition: Condition, budget: Budget) -> Door:
    from penstock.doors.text.limits import Limits as TextLimits
    from penstock.doors.text.server import TextDoor
    from penstock.wire.trust import server_context

    return TextDoor(
        host=settings.host,
        port=settings.text_port or 0,
        queue=queue,
        project=settings.default_project,
        log=logging.getLogger("penstock.doors.text"),
        budget=budget,
        limits=TextLimits(
            content_bytes_max=settings.text_message_bytes_max,
            window_max=settings.text_window_max,
            connections_max=settings.text_connections_max,
            connections_per_address_max=settings.text_connections_per_address_max,
            frame_seconds=settings.text_frame_seconds,
            idle_seconds=settings.text_idle_seconds,
            write_seconds=settings.text_write_seconds,
        ),
        unix_path=settings.text_unix_socket,
        tls=server_context(
            "text", settings.text_tls_cert, settings.text_tls_key, client_ca=settings.text_tls_client_ca
        ),
    )


def _open_flight(settings: Settings, queue: AsyncMessageQueue, condition: Condition, budget: Budget) -> Door | None:
    if find_spec("pyarrow") is None:  # looked for, not imported: only the reader process pays for it
        log.warning("the flight door stays closed: it needs pyarrow (pip install penstock[flight])")
        return None
    from penstock.doors.flight.server import FlightDoor, Options

    return FlightDoor(
        host=settings.host,
        port=settings.flight_port or 0,
        queue=queue,
        log=logging.getLogger("penstock.doors.flight"),
        budget=budget,
        options=Options(
            project=settings.default_project,
            data=None if settings.memory else settings.data,
            certificate=settings.flight_tls_cert,
            private_key=settings.flight_tls_key,
            tokens=settings.flight_tokens,
        ),
    )


# By the name of its port setting; the first opens first and closes last.
DOORS: dict[str, Callable[[Settings, AsyncMessageQueue, Condition, Budget], Door | None]] = {
    "http": _open_http,
    "pubsub": _open_google,
    "azure": _open_azure,
    "text": _open_text,
    "flight": _open_flight,
}

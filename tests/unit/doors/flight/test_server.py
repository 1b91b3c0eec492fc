"""The server's side of the reader process: no error may end its supervision or the reading of its log."""

from __future__ import annotations

import asyncio
import logging
import socket
from typing import Any

import pytest

from penstock.assembly import SERVER_LIMITS
from penstock.doors.flight import server
from penstock.doors.flight.handover import Handover
from penstock.doors.flight.server import FlightDoor, copy_log
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal

SECONDS = 10  # only a failing test waits this long
LOG = logging.getLogger("tests.flight")


def test_no_log_line_ends_the_reading(caplog: pytest.LogCaptureFixture) -> None:
    async def copy() -> None:
        stream = asyncio.StreamReader(limit=100)
        lines = [b"INFO short", b"x" * 1000, b'REQUEST {"verb": "do_gE0000 mixed', b"REQUEST", b"", b"INFO last"]
        stream.feed_data(b"\n".join(lines) + b"\n")
        stream.feed_eof()
        await copy_log(stream, LOG)

    with caplog.at_level("INFO"):
        asyncio.run(copy())
    messages = [record.getMessage() for record in caplog.records]
    assert (messages[0], messages[-1]) == ("short", "last")
    assert 'REQUEST {"verb": "do_gE0000 mixed' in messages
    assert any("too long" in message for message in messages)


def test_a_first_client_that_could_not_be_accepted_ends_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """Such as with too many open files. Later clients would be accepted by the system and never answered."""
    failures = [OSError(24, "Too many open files"), RuntimeError("a bug")]
    first_client = Handover.first_client

    async def accept(self: Handover) -> None:
        if failures:
            raise failures.pop()
        await first_client(self)

    async def main() -> None:
        opened = asyncio.Event()

        async def open_reader(self: FlightDoor, handover: Handover) -> None:
            opened.set()
            await asyncio.Event().wait()

        monkeypatch.setattr(FlightDoor, "_open", open_reader)
        queue = AsyncMessageQueue(MemoryJournal(), limits=SERVER_LIMITS)
        await queue.start()
        door = FlightDoor(host="127.0.0.1", port=0, queue=queue, log=LOG, project="p")
        await door.start()
        host, port = door.address.split(":")
        client: Any = socket.create_connection((host, int(port)))
        async with asyncio.timeout(SECONDS):
            await opened.wait()
        client.close()
        await door.stop(0)
        await queue.close()

    monkeypatch.setattr(Handover, "first_client", accept)
    monkeypatch.setattr(server, "BACKOFF_SECONDS", (0.01, 0.01))
    asyncio.run(main())

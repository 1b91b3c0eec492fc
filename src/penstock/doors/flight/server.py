"""The Flight door in the server: it holds the port, starts the reader process and answers its questions.

The rule kept here: there is no reader process before somebody needs it, and whatever happens to it, the server goes
on; the door comes back at the same address, and nothing of it is left when the server is gone.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec

from penstock.broker.facts import Published, TopicDeleted
from penstock.doors.flight.decisions import Decisions
from penstock.doors.flight.desk import Desk
from penstock.doors.flight.doorstep import Doorstep
from penstock.doors.flight.letters import Hello
from penstock.doors.flight.link import Frame, ServerEnd
from penstock.doors.flight.options import FlightOptions
from penstock.doors.flight.tidings import Tidings
from penstock.doors.port import join_address
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import UnavailableError
from penstock.wire.budget import Budget
from penstock.wire.trust import server_context

PROCESS = "penstock.doors.flight.process"
START_SECONDS = 60.0
BACKOFF_SECONDS = (0.1, 5.0)
# A scan takes and gives back megabytes at a time; where the C library can be told to, it keeps them for the next batch.
ALLOCATION = {
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
}
STEADY_SECONDS = 10.0  # a reader process that lived so long was well


class FlightDoor:
    name = "flight"

    def __init__(
        self,
        *,
        host: str,
        port: int,
        queue: AsyncMessageQueue,
        log: logging.Logger,
        project: str,
        data: str | None = None,  # the folder of the store; None: everything is in memory
        options: FlightOptions | None = None,
        budget: Budget | None = None,
    ) -> None:
        self.address = ""
        self.counts: Counter[str] = Counter()
        self._host = host
        self._port = port
        self._queue = queue
        self._log = log
        self._options = options or FlightOptions()
        self._project, self._data = project, data
        self._budget = budget or Budget()
        self._tidings = Tidings()
        self._doorstep: Doorstep | None = None
        self._holder: socket.socket | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._reader: Reader | None = None
        self._stopping = False

    @property
    def guarded(self) -> bool:
        return bool(self._options.tokens)

    @property
    def hints(self) -> Sequence[str]:
        return [f"{'grpc+tls' if self._options.tls_cert else 'grpc'}://{self.address}"]

    async def start(self) -> None:
        certificate, private_key = _key_pair(self._options)
        self._family, host = await _resolved(self._host)
        self._doorstep = Doorstep(self._family, host, self._port)
        self._port = self._doorstep.port
        self.address = join_address(host, self._port)
        self._hello = Hello(
            host,
            self._port,
            self._project,
            self._data,
            self._queue.limits,
            list(self._options.tokens),
            certificate,
            private_key,
            [],
        )
        self._listener = self._queue.on([Published, TopicDeleted], self._tidings.on_fact)
        self._keeper = asyncio.create_task(self._keep(self._doorstep))

    async def stop(self, grace_seconds: float) -> None:
        self._stopping = True
        self._tidings.close()
        if self._keeper is not None:
            self._keeper.cancel()
            await asyncio.gather(self._keeper, return_exceptions=True)
        if self._reader is not None:
            await self._reader.stop(grace_seconds)
        self._release()

    def _release(self) -> None:
        self._queue.off(self._listener)
        for held in (self._doorstep, self._holder):
            if held is not None:
                held.close()

    async def _open(self, doorstep: Doorstep) -> None:
        """Start a reader process; returns when it answers."""
        desk = Desk(self._queue, self._tidings, self._log, self._budget)
        self._reader = Reader(desk, self._log, lambda: self._make_room(doorstep))
        hello = msgspec.structs.replace(self._hello, unfinished=Decisions(self._queue).unfinished())
        await self._reader.start(hello)
        await asyncio.to_thread(doorstep.hand_over, hello.host)

    def _make_room(self, doorstep: Doorstep) -> None:
        """A reader process is about to listen; the port stays ours if it does not get that far."""
        doorstep.leave()
        if self._holder is None:
            self._holder = _hold(self._family, self._hello.host, self._port)

    async def _keep(self, doorstep: Doorstep) -> None:
        """Start a reader process when the first client comes, and another when it ends."""
        if not Decisions(self._queue).unfinished():
            await doorstep.knock()
        loop, pause = asyncio.get_running_loop(), BACKOFF_SECONDS[0]
        while not self._stopping:
            with suppress(UnavailableError, OSError):  # it has ended, and the log says so
                await self._open(doorstep)
            assert self._reader is not None, "it was made, whatever became of it"
            since = loop.time()
            code = await self._reader.ended()
            if loop.time() - since >= STEADY_SECONDS:
                pause = BACKOFF_SECONDS[0]
            self.counts["reader_ended"] += 1
            self._log.error("the reader process ended (exit code %s); another one is started", code)
            await asyncio.sleep(pause)
            pause = min(pause * 2, BACKOFF_SECONDS[1])


class Reader:
    """One reader process and the link to it."""

    def __init__(self, desk: Desk, log: logging.Logger, make_room: Callable[[], None]) -> None:
        self._desk = desk
        self._log = log
        self._make_room = make_room
        self._link = ServerEnd(self._answer)
        self._open: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._process: asyncio.subprocess.Process | None = None
        self._tasks: list[asyncio.Task[None]] = []

    async def start(self, hello: Hello) -> None:
        self._hello = hello
        own, others = socket.socketpair()
        try:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                PROCESS,
                str(others.fileno()),
                pass_fds=(others.fileno(),),
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C is for the server alone
                env={**ALLOCATION, **os.environ},
            )
        except OSError:
            own.close()
            raise
        finally:
            others.close()
        self._tasks = [asyncio.create_task(self._link.run(own)), asyncio.create_task(self._read_log())]
        self._tasks[0].add_done_callback(lambda _: self._desk.pieces.close())
        ended = asyncio.create_task(self._process.wait())
        either: set[asyncio.Future[Any]] = {self._open, ended}
        await asyncio.wait(either, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        if not self._open.done():
            ended.cancel()
            await self._kill()
            raise UnavailableError("the reader process did not start; the log says more")
        ended.cancel()

    async def ended(self) -> int | None:
        """The exit code, once there is one."""
        if self._process is None:
            return None
        code = await self._process.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return code

    async def stop(self, grace_seconds: float) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        if self._open.done():  # otherwise it serves nobody yet
            await self._drain(self._process, grace_seconds)
        await self._kill()

    async def _drain(self, process: asyncio.subprocess.Process, grace_seconds: float) -> None:
        self._link.order("stop")
        try:
            async with asyncio.timeout(grace_seconds):
                await process.wait()
        except TimeoutError:
            self._log.warning("streams did not finish in time and were closed")

    async def _kill(self) -> None:
        assert self._process is not None, "it was started"
        if self._process.returncode is None:
            with suppress(ProcessLookupError):
                self._process.kill()
        await self._process.wait()
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)

    async def _answer(self, frame: Frame) -> bytes | None:
        if frame.word == "ready":
            self._make_room()
            self._link.order("hello", self._hello.packed())
            return None
        if frame.word == "open":
            if not self._open.done():
                self._open.set_result(None)
            return None
        return await self._desk.answer(frame)

    async def _read_log(self) -> None:
        """What the process writes to its standard error goes into our log."""
        assert self._process is not None, "it was started"
        assert self._process.stderr is not None, "it is a pipe"
        while line := await self._process.stderr.readline():
            level, _, text = line.decode("utf-8", "replace").rstrip().partition(" ")
            known = logging.getLevelNamesMapping().get(level)
            self._log.log(known or logging.WARNING, "%s", text if known else f"{level} {text}")


# ---------------------------------------------------------------------- the port


async def _resolved(host: str) -> tuple[int, str]:
    found = await asyncio.get_running_loop().getaddrinfo(host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    family, _, _, _, address = found[0]
    return family, str(address[0])


def _hold(family: int, host: str, port: int) -> socket.socket:
    """Keep a port, unheard, for the reader processes to come: OSError if somebody listens there."""
    holder = socket.socket(family, socket.SOCK_STREAM)
    try:
        holder.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        holder.bind((host, port))
    except OSError:
        holder.close()
        raise
    return holder


def _key_pair(options: FlightOptions) -> tuple[bytes, bytes]:
    """The certificate and its key, as the reader process gets them; empty without one."""
    certificate, private_key = options.tls_cert, options.tls_key
    if certificate is None:
        return b"", b""
    server_context(FlightDoor.name, certificate, private_key)  # says what is wrong with the files
    return Path(certificate).read_bytes(), Path(private_key or certificate).read_bytes()

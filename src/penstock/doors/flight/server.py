"""The Flight door in the server process: it holds the port, starts the reader process and answers its requests.

The reader process is started when the first client connects. If it ends, another one is started at the same address.
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
from penstock.doors.consumers import Consumer
from penstock.doors.flight.codec import TOPIC
from penstock.doors.flight.handover import Handover, bound_socket
from penstock.doors.flight.ipc import REQUEST, Hello, pack
from penstock.doors.flight.link import Frame, ServerEnd
from penstock.doors.flight.options import FlightOptions
from penstock.doors.flight.requests import Requests
from penstock.doors.port import join_address
from penstock.engine.port import Queue, SubscriptionMetadata
from penstock.errors import UnavailableError, where
from penstock.wire.budget import Budget
from penstock.wire.request_log import LOGGER, RequestLine, RequestLog
from penstock.wire.trust import server_context

PROCESS = "penstock.doors.flight.process"
START_SECONDS = 60.0
BACKOFF_SECONDS = (0.1, 5.0)
# A scan allocates and frees megabytes at a time. With these settings the C library keeps freed memory for the next
# batch, and returns it when the process is quiet. Arrow's own allocator keeps memory for every thread.
ALLOCATION = {
    "ARROW_DEFAULT_MEMORY_POOL": "system",
    "MALLOC_ARENA_MAX": "1",
    "MALLOC_MMAP_THRESHOLD_": str(32 << 20),
    "MALLOC_TRIM_THRESHOLD_": str(128 << 20),
}
STEADY_SECONDS = 10.0  # a reader process that lived this long did not fail at its start


class FlightDoor:
    name = "flight"

    def __init__(
        self,
        *,
        host: str,
        port: int,
        queue: Queue,
        log: logging.Logger,
        project: str,
        data: str | None = None,  # the folder of the store. None: everything is in memory
        options: FlightOptions | None = None,
        budget: Budget | None = None,
        requests: RequestLog | None = None,
    ) -> None:
        self.address = ""
        self.counts: Counter[str] = Counter()
        self._host = host
        self._port = port
        self._queue = queue
        self._log = log
        self._logs_requests = requests is not None
        self._options = options or FlightOptions()
        self._project, self._data = project, data
        self._requests = Requests(queue, project, log, budget or Budget())
        self._handover: Handover | None = None
        self._holder: socket.socket | None = None
        self._supervisor: asyncio.Task[None] | None = None
        self._child: ChildProcess | None = None
        self._stopping = False

    @property
    def guarded(self) -> bool:
        return bool(self._options.tokens)

    @property
    def hints(self) -> Sequence[str]:
        return [f"{'grpc+tls' if self._options.tls_cert else 'grpc'}://{self.address}"]

    def name_of(self, topic: str) -> str | None:
        return topic if TOPIC.fullmatch(topic) else None

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        return self._requests.consumers(subscription)

    async def start(self) -> None:
        key_pair = _key_pair(self._options)
        addresses = await asyncio.get_running_loop().getaddrinfo(
            self._host, None, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        self._family, host = addresses[0][0], str(addresses[0][4][0])
        self._handover = Handover(self._family, host, self._port)
        self._port = self._handover.port
        self.address = join_address(host, self._port)
        tokens = list(self._options.tokens)
        self._hello = Hello(
            host,
            self._port,
            self._project,
            self._data,
            self._queue.limits,
            tokens,
            *key_pair,
            log_level=self._log.getEffectiveLevel(),
            log_requests=self._logs_requests,
            read_bytes_max=self._options.read_bytes_max,
            read_unread_seconds=self._options.read_timeout,
        )
        self._listener = self._queue.on([Published, TopicDeleted], self._requests.waiters.on_fact)
        self._supervisor = asyncio.create_task(self._supervise(self._handover))

    async def stop(self, grace_seconds: float) -> None:
        loop, self._stopping = asyncio.get_running_loop(), True
        until = loop.time() + grace_seconds
        self._requests.waiters.close()
        if self._supervisor is not None:
            self._supervisor.cancel()
            await asyncio.gather(self._supervisor, return_exceptions=True)
        if self._child is not None:
            await self._child.stop(grace_seconds)
        if self._handover is not None:
            await asyncio.to_thread(self._handover.finish, until - loop.time())
        self._queue.off(self._listener)
        for listener in (self._handover, self._holder):
            if listener is not None:
                listener.close()

    async def _open(self, handover: Handover) -> None:
        """Start a reader process, and return when it listens."""
        self._child = ChildProcess(self._requests, self._log, lambda: self._release_port(handover))
        unfinished = await self._requests.decisions.unfinished_queries()
        await self._child.start(msgspec.structs.replace(self._hello, unfinished=unfinished))
        await asyncio.to_thread(handover.hand_over)

    def _release_port(self, handover: Handover) -> None:
        """Stop listening, and keep the port with a socket that does not listen: a reader process is about to listen."""
        handover.stop_listening()
        if self._holder is None:
            self._holder = bound_socket(self._family, self._hello.host, self._port)

    async def _supervise(self, handover: Handover) -> None:
        """Start a reader process when the first client connects, and another one when it ends."""
        await self._wait_for_work(handover)
        loop, pause = asyncio.get_running_loop(), BACKOFF_SECONDS[0]
        while not self._stopping:
            try:
                await self._open(handover)
            except Exception as error:  # noqa: BLE001 - without another attempt every client would wait without end
                self._log.error("the reader process could not be started: %s", where(error))
            assert self._child is not None, "it exists even if it did not start"
            since = loop.time()
            code = await self._child.ended()
            if loop.time() - since >= STEADY_SECONDS:
                pause = BACKOFF_SECONDS[0]
            self.counts["reader_ended"] += 1
            self._log.error("the reader process ended (exit code %s); another one is started", code)
            await asyncio.sleep(pause)
            pause = min(pause * 2, BACKOFF_SECONDS[1])

    async def _wait_for_work(self, handover: Handover) -> None:
        """Wait for the first client, unless there are decided rows to publish."""
        while True:
            try:
                if not await self._requests.decisions.unfinished_queries():
                    await handover.first_client()
                return
            except Exception as error:  # noqa: BLE001 - such as too many open files, which may pass
                self._log.error("the first client could not be accepted: %s", where(error))
                await asyncio.sleep(BACKOFF_SECONDS[1])


class ChildProcess:
    """One reader process and the link to it."""

    def __init__(self, requests: Requests, log: logging.Logger, release_port: Callable[[], None]) -> None:
        self._requests = requests
        self._log = log
        self._release_port = release_port
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
                start_new_session=True,  # Ctrl-C is for the server only
                env={**ALLOCATION, **os.environ},
            )
        except OSError:
            own.close()
            raise
        finally:
            others.close()
        assert self._process.stderr is not None, "it is a pipe"
        log = copy_log(self._process.stderr, self._log)
        self._tasks = [asyncio.create_task(self._link.run(own)), asyncio.create_task(log)]
        self._tasks[0].add_done_callback(lambda _: self._requests.partial.clear())
        ended = asyncio.create_task(self._process.wait())
        either: set[asyncio.Future[Any]] = {self._open, ended}
        await asyncio.wait(either, timeout=START_SECONDS, return_when=asyncio.FIRST_COMPLETED)
        ended.cancel()
        if not self._open.done():
            await self._kill()
            raise UnavailableError("the reader process did not start: see the log")

    async def ended(self) -> int | None:
        """Wait until the process has ended, and return its exit code."""
        if self._process is None:
            return None
        code = await self._process.wait()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return code

    async def stop(self, grace_seconds: float) -> None:
        if self._process is None or self._process.returncode is not None:
            return
        if self._open.done():  # otherwise the process has no clients yet
            self._link.notify("stop")
            try:
                async with asyncio.timeout(grace_seconds):
                    await self._process.wait()
            except TimeoutError:
                self._log.warning("streams did not finish in time and were closed")
        await self._kill()

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
            self._release_port()
            self._link.notify("hello", pack(self._hello))
            return None
        if frame.word == "open":
            if not self._open.done():
                self._open.set_result(None)
            return None
        return await self._requests.answer(frame)


async def copy_log(stream: asyncio.StreamReader, log: logging.Logger) -> None:
    """Copy the lines that a reader process writes to its standard error, until the process ends.

    The process blocks when its lines are not read, so no line may end the reading.
    """
    while line := await _read_line(stream):
        level, _, text = line.decode("utf-8", "replace").rstrip().partition(" ")
        with suppress(msgspec.DecodeError):  # two threads may have written at once. Then the line is logged as it is
            if level == REQUEST:
                logging.getLogger(LOGGER).info(msgspec.json.decode(text, type=RequestLine))
                continue
        number = logging.getLevelNamesMapping().get(level)
        log.log(number or logging.WARNING, "%s", text if number else f"{level} {text}")


async def _read_line(stream: asyncio.StreamReader) -> bytes:
    """Return the next line, or nothing at the end. A line over the stream's limit is replaced by a warning."""
    try:
        return await stream.readline()
    except ValueError:
        return b"WARNING a line of the reader process was too long and is left out"


def _key_pair(options: FlightOptions) -> tuple[bytes, bytes]:
    """Return the certificate and its key for the reader process. Both are empty without a certificate."""
    certificate, private_key = options.tls_cert, options.tls_key
    if certificate is None:
        return b"", b""
    server_context(FlightDoor.name, certificate, private_key)  # raises an error if the files are wrong
    return Path(certificate).read_bytes(), Path(private_key or certificate).read_bytes()

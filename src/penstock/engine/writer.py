"""The writer: a thread that commits what an event loop decided, and the callers in the loop that wait for it."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from typing import Any, TypeVar

from penstock.engine.engine import Engine
from penstock.errors import PenstockError

T = TypeVar("T")

MAINTAIN_EVERY = 16  # commits under load between two slices of the journal's upkeep
IDLE_SECONDS = 1.0  # how often the journal is looked after when nothing else is to do


class Writer:
    """Without a journal that keeps anything there is no thread: what is decided is committed at once."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiters: deque[tuple[int, asyncio.Future[Any], Any]] = deque()  # by rising number
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._write, name="penstock-writer", daemon=True)

    def begin(self) -> None:
        """Belong to the running loop."""
        self._loop = asyncio.get_running_loop()
        self._waiters.clear()
        self.failed: asyncio.Future[PenstockError] = self._loop.create_future()
        if self._engine.journal.durable and not self._thread.is_alive():
            self._thread.start()

    async def stop(self) -> None:
        self._stopping = True
        self._wake.set()
        if self._thread.is_alive():
            await asyncio.to_thread(self._thread.join)

    def committed(self, number: int, result: T) -> asyncio.Future[T]:
        """A future that has the result of a decision when it is durable, or fails if it never will be."""
        future: asyncio.Future[T] = self._loop.create_future()
        commits = self._engine.commits
        if not self._engine.journal.durable:
            commits.flush()
        if commits.durable >= number:
            self._settle(number, future, result)
        else:
            self._waiters.append((number, future, result))
            self._wake.set()
        return future

    def _settle(self, number: int, future: asyncio.Future[T], result: T) -> None:
        error = self._engine.commits.loss(number) if self._engine.commits.has_losses else None
        if error is None:
            future.set_result(result)
        else:
            future.set_exception(error)

    def _write(self) -> None:
        """The thread: commit what is there; when nothing is, and now and then, look after the journal."""
        busy, count, commits = True, 0, self._engine.commits
        while not self._stopping:
            self._wake.wait(0 if busy else IDLE_SECONDS)
            if self._wake.is_set():
                self._wake.clear()
                commits.flush()
                self._call_loop(self._after_commit)
                count += 1
                if self._wake.is_set() and count % MAINTAIN_EVERY:
                    continue
            busy = not self._engine.closed and commits.maintain()
            if commits.stalled is not None:
                self._call_loop(self._after_commit)

    def _call_loop(self, callback: Callable[[], None]) -> None:
        if not self._loop.is_closed():
            self._loop.call_soon_threadsafe(callback)

    def _after_commit(self) -> None:
        commits, waiters = self._engine.commits, self._waiters
        while waiters and waiters[0][0] <= commits.durable:
            number, future, result = waiters.popleft()
            if not future.done():
                self._settle(number, future, result)
        if commits.stalled is not None:
            self._after_refusal(commits.stalled)

    def _after_refusal(self, error: PenstockError) -> None:
        """Everything decided since the last commit is void; who waits for it gets the error."""
        waiters, self._waiters = self._waiters, deque()
        for _, future, _ in waiters:
            if not future.done():
                future.set_exception(error)
        with self._engine.lock:
            if self._engine.commits.failed:
                if not self.failed.done():
                    self.failed.set_result(error)
            elif self._engine.commits.stalled is not None:
                self._engine.go_back()

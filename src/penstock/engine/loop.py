"""An engine in one event loop: commands are decided in the loop, and a writer thread commits them.

A command's future is done when its commit is. Because commits keep the order of decisions, everything an answer depends
on is durable before the answer.
"""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable
from contextlib import suppress
from typing import Any, TypeVar, cast

from penstock.broker.broker import Broker
from penstock.broker.log import Need
from penstock.broker.model import SECOND
from penstock.engine import commands
from penstock.engine.clock import sleep_until
from penstock.engine.engine import Answer, Engine, log
from penstock.engine.reads import Block
from penstock.engine.wakeups import Wakeups
from penstock.errors import FailedPreconditionError, PenstockError

T = TypeVar("T")

MAINTAIN_EVERY = 16  # commits under load between two slices of the journal's upkeep
IDLE_SECONDS = 1.0  # time between two slices of the journal's upkeep when idle


class EngineLoop:
    wakeups: Wakeups

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._loop: asyncio.AbstractEventLoop | None = None
        self._writer = Writer(engine)

    def begin(self) -> None:
        """Attach to the running event loop. Called again, move from a closed loop to the running one."""
        loop = asyncio.get_running_loop()
        if self._loop is not None and not self._loop.is_closed():
            if loop is not self._loop:
                raise FailedPreconditionError("The message queue belongs to another event loop, which is still open")
            return
        if self._loop is not None:
            self.wakeups.close()  # the waiters ended with their loop
        self._loop = loop
        self._writer.begin()
        self.wakeups = Wakeups(self._engine)
        self._keeper = loop.create_task(self._keep_house())

    async def end(self) -> None:
        """Commit pending decisions, and stop the writer."""
        self.begin()  # in case it never began
        self._keeper.cancel()
        self.wakeups.stop()
        self.wakeups.close()
        try:
            if not self._engine.closed:
                await self.committed(self._engine.submit(), None)
        except PenstockError as error:
            log.error("The last commit failed: %s", error)
        await self._writer.stop()

    @property
    def failed(self) -> asyncio.Future[PenstockError]:
        """A future that is done when the journal has failed for good."""
        return self._writer.failed

    def committed(self, number: int, result: T) -> asyncio.Future[T]:
        """Return a future with the result, done when the decision is durable, failed if it never will be."""
        return self._writer.committed(number, result)

    def refused(self, error: PenstockError) -> asyncio.Future[Any]:
        assert self._loop is not None, "a queue is started before it is used"
        future = self._loop.create_future()
        future.set_exception(error)
        return future

    def commit(self) -> asyncio.Future[None]:
        """Return a future that is done when everything decided so far is durable."""
        try:
            self._engine.check()
        except PenstockError as error:
            return self.refused(error)
        return self.committed(self._engine.submit(), None)

    def run(self, command: Callable[[Broker, int], T], *about: str | int) -> asyncio.Future[T]:
        """Decide a command now. Return a future of its durable result. `about`: as for `Engine.decide`."""
        try:
            result, number = self._engine.decide(command, *about)
        except PenstockError as error:
            return self.refused(error)
        return self._writer.committed(number, result)

    def drive(self, make: Callable[[Broker], commands.Steps[T]]) -> asyncio.Future[T]:
        """Run the steps of a command: at once if nothing has to be read, otherwise in a task."""
        try:
            steps, broker = self._engine.begin(make)
            question, result, number = self._engine.step(steps, None, broker)
        except PenstockError as error:
            return self.refused(error)
        if question is None:
            return self._writer.committed(number, cast(T, result))
        assert self._loop is not None, "a queue is started before it is used"
        return self._loop.create_task(self._finish(steps, broker, question))

    async def _finish(self, steps: commands.Steps[T], broker: Broker, question: commands.Question) -> T:
        result, number = await self._walk(steps, broker, question)
        return await self._writer.committed(number, result)

    async def walk(self, make: Callable[[Broker], commands.Steps[T]]) -> tuple[T, int]:
        """Run the steps of a command. Return its result, and the number of the decision to wait for."""
        return await self._walk(*self._engine.begin(make))

    async def _walk(
        self, steps: commands.Steps[T], broker: Broker, question: commands.Question | None = None
    ) -> tuple[T, int]:
        while True:
            answer = await self._read(question) if question is not None else None
            question, result, number = self._engine.step(steps, answer, broker)
            if question is None:
                return cast(T, result), number

    async def catch_up(self) -> None:
        """Run housekeeping after a clock was moved by hand, before the next answer."""
        if self._engine.is_tick_due():
            await self.walk(self._engine.housekeep)

    async def _read(self, question: commands.Question) -> Answer:
        engine = self._engine
        if isinstance(question, commands.Pause):
            await asyncio.sleep(0)
            return None
        tail = engine.tail(question.topic)
        if engine.commits.holds(question.topic):  # only committed messages can be read
            await self.commit()
        if not engine.journal.durable:
            return engine.read(question, tail)
        if not isinstance(question, Need):
            return await asyncio.wrap_future(engine.reads.run(engine.read, question, tail))
        return Block(question.topic, await asyncio.wrap_future(engine.reads.read(question)), tail)

    async def _keep_house(self) -> None:
        engine = self._engine
        while True:
            await sleep_until(engine.clock, engine.now() + int(IDLE_SECONDS * SECOND))
            try:
                if engine.is_tick_due():
                    await self.drive(engine.housekeep)
                if engine.ages.wanted:
                    await self.drive(engine.ages.read)
            except PenstockError as error:
                log.error("Housekeeping failed: %s", error)


class Writer:
    """The thread that commits the decisions of a loop, and the futures of callers that wait for commits.

    With a journal that stores nothing there is no thread: decisions are committed at once.
    """

    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._waiters: deque[tuple[int, asyncio.Future[Any], Any]] = deque()  # by rising number
        self._wake = threading.Event()
        self._stopping = False
        self._thread = threading.Thread(target=self._write, name="penstock-writer", daemon=True)

    def begin(self) -> None:
        """Attach to the running event loop."""
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
        """Return a future with the result of a decision, done when it is durable, failed if it never will be."""
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
        """Run the thread: commit pending decisions, and maintain the journal when idle and from time to time."""
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
        """Go back after a refused commit, and fail the futures of all void decisions."""
        waiters, self._waiters = self._waiters, deque()
        for _, future, _ in waiters:
            if not future.done():
                future.set_exception(error)
        with self._engine.lock:
            if self._engine.commits.stalled is not None and not self._engine.commits.failed:
                with suppress(PenstockError):  # it is tried again, or the journal has failed
                    self._engine.go_back()
            if self._engine.commits.failed and not self.failed.done():
                self.failed.set_result(self._engine.commits.stalled or error)

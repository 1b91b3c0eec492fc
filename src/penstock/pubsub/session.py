"""The session, which all objects of one PubSub share: the queue, the event loop and the background tasks.

It knows every background task, so that closing can wait for all of them.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from typing import TYPE_CHECKING, Any

from penstock.broker.model import SECOND
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.clock import Alarm, Clock
from penstock.errors import FailedPreconditionError, UnavailableError
from penstock.names import full_name

if TYPE_CHECKING:
    from penstock.pubsub.subscription import Subscription


class Signal:
    """A wake-up for one waiting task. A second waiter replaces the first."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._waiter: asyncio.Future[None] | None = None

    def wake(self) -> None:
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def waiter(self) -> asyncio.Future[None]:
        """Return a future that is done when `wake` is called."""
        self._waiter = asyncio.get_running_loop().create_future()
        return self._waiter

    async def wait(self, seconds: float = 0) -> None:
        """Wait until `wake` is called, at most `seconds`. 0 means no limit."""
        waiter = self.waiter()
        alarm = self._clock.alarm(self._clock.now() + int(seconds * SECOND), self.wake) if seconds else None
        try:
            await waiter
        finally:
            if alarm is not None:
                alarm.cancel()


class Session:
    """The shared state of one PubSub."""

    def __init__(self, queue: AsyncMessageQueue, project: str, *, owns_queue: bool) -> None:
        self.queue = queue
        self.project = project
        self.owns_queue = owns_queue
        self.closed = False
        self.tasks: set[asyncio.Task[None]] = set()
        self.streams: dict[Subscription, None] = {}  # open subscriptions, in the order of opening
        self.pending: set[Outbox] = set()  # outboxes with something to send
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread = 0
        self._closing: asyncio.Task[None] | None = None
        # Tasks that wait for the end, which closing does not wait for.
        self._excused: dict[asyncio.Task[Any], None] = {}
        self._another_excused: asyncio.Future[None] | None = None

    @property
    def clock(self) -> Clock:
        return self.queue.clock

    def name(self, kind: str, name: object) -> str:
        return full_name(self.project, kind, name)

    # ------------------------------------------------------------------ the event loop

    def loop(self, caller: str) -> asyncio.AbstractEventLoop:
        """Return the running event loop. The first call binds the queue to it. `caller` is named in errors."""
        loop = running_loop(caller)
        if self.closed:
            raise UnavailableError("This PubSub is closed")
        if loop is not self._loop:
            self.queue.begin()
            self._loop, self._thread = loop, threading.get_ident()
        return loop

    def use(self) -> AsyncMessageQueue:
        """Return the queue, bound to the running event loop."""
        self.loop("PubSub")
        return self.queue

    def in_loop(self, action: Callable[..., object], *arguments: object) -> None:
        """Call a function in the event loop, from any thread."""
        if threading.get_ident() == self._thread:
            action(*arguments)
        elif self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(action, *arguments)

    def spawn(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)
        return task

    # ------------------------------------------------------------------ closing

    async def drain(self) -> None:
        """Flush all outboxes, and wait for all tasks except those that wait for this."""
        while True:
            for outbox in list(self.pending):
                outbox.flush()
            others = self.tasks - self._excused.keys() - {asyncio.current_task()}
            if not others:
                return
            self._another_excused = asyncio.get_running_loop().create_future()
            await asyncio.wait([*others, self._another_excused], return_when=asyncio.FIRST_COMPLETED)

    async def close(self) -> None:
        """Close once. A listener may call this, and closing does not wait for that listener."""
        if self.closed:
            return
        loop = self.loop("PubSub.close()")
        self._excuse(asyncio.current_task())
        for stream in list(self.streams):
            stream.begin_closing()
        if self._closing is None:
            self._closing = loop.create_task(self._close())
        await asyncio.shield(self._closing)

    async def _close(self) -> None:
        for stream in list(self.streams):
            await stream.close()
        await self.drain()
        self.closed = True
        if self.owns_queue:
            await self.queue.close()

    def _excuse(self, task: asyncio.Task[Any] | None) -> None:
        if task is not None:
            self._excused[task] = None
        if self._another_excused is not None and not self._another_excused.done():
            self._another_excused.set_result(None)


class Outbox:
    """A delay before sending, so that more is sent at once. It knows the tasks that send."""

    def __init__(self, session: Session, send: Callable[[], asyncio.Task[None]]) -> None:
        self._session = session
        self._send = send
        self._alarm: Alarm | None = None  # set while something waits to be sent
        self._sending: set[asyncio.Task[None]] = set()

    def hold_back(self, seconds: float) -> None:
        """Flush after `seconds`. 0 means after the tasks that are ready now."""
        loop, clock = running_loop("An answer"), self._session.clock
        if seconds:
            self._alarm = clock.alarm(clock.now() + int(seconds * SECOND), self.flush)
        else:
            self._alarm = loop.call_soon(self.flush)
        self._session.pending.add(self)

    def flush(self) -> None:
        if self._alarm is not None:
            self._alarm.cancel()
            self._alarm = None
            self._session.pending.discard(self)
            task = self._send()
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def drain(self) -> None:
        """Flush, and wait until everything is sent."""
        self.flush()
        if self._sending:
            await asyncio.wait(self._sending)


def running_loop(caller: str) -> asyncio.AbstractEventLoop:
    try:
        return asyncio.get_running_loop()
    except RuntimeError:
        raise FailedPreconditionError(
            f"{caller} needs a running event loop: call it in a coroutine, as in asyncio.run(main())"
        ) from None

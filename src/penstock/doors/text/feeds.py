"""A feed: one loop for each queue that pulls messages and shares them out among the windows of all connections.

One pull takes as many messages as the windows have room for. Each message belongs to a window from the moment of the
pull, so that it returns to the queue whatever happens to the connection.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from typing import Literal, TypeAlias

from penstock.doors.consumers import Consumer
from penstock.doors.text.dispatch import Dispatcher
from penstock.doors.text.errors import queue_gone
from penstock.doors.text.options import TextOptions
from penstock.doors.text.windows import Share, Window
from penstock.engine.port import Delivery, Leased, Queue
from penstock.errors import NotFoundError

ENDLESS = float("inf")  # T-033: a lease lasts as long as the connection
WAIT_SECONDS = 3600.0  # the longest wait of one pull

PutBack: TypeAlias = Callable[[Sequence[str]], None]
Provide: TypeAlias = Callable[[], Awaitable[None]]  # creates the queue if it is missing


class Feed:
    """The messages of one queue, on their way to the windows of this server's connections."""

    def __init__(
        self,
        queue: Queue,
        name: bytes,
        topic: str,
        subscription: str,
        limits: TextOptions,
        put_back: PutBack,
        provide: Provide,
    ) -> None:
        self.name = name
        self._queue = queue
        self._topic = topic
        self._subscription = subscription
        self._limits = limits
        self._put_back = put_back
        self._provide = provide
        self._is_named = False  # a request has named the queue since the feed last looked for it
        self._is_leasing = False  # the queue exists: the feed waits for its messages
        self.portion_bytes = limits.dispatch_bytes
        self._dispatcher = Dispatcher(self._offer_again)
        self._windows: dict[Window, None] = {}  # open
        self._closed: dict[Window, None] = {}  # may still hold messages
        self._line: deque[Window] = deque()  # windows that may have room, in turn (T-031)
        self._wake_up: asyncio.Future[None] | None = None  # pending while no window has room
        self._task: asyncio.Task[None] | None = None

    @property
    def in_use(self) -> bool:
        return self._task is not None

    def request(self, window: Window) -> None:
        """Serve an open window, as a consume request asks. The request names the queue (T-012)."""
        self._is_named = not self._is_leasing
        self.offer(window)

    def offer(self, window: Window) -> None:
        """Put an open window into the line if it has room, and wake the feed."""
        if window not in self._windows:
            self._windows[window] = None
            self._closed.pop(window, None)
            window.since = self._queue.clock.now()
        if not window.in_line and window.room > 0:
            window.in_line = True
            self._line.append(window)
        if self._task is None:
            self._start()
        elif self._wake_up is not None and not self._wake_up.done():
            self._wake_up.set_result(None)

    def _offer_again(self, shares: list[Share]) -> None:
        for share in shares:
            if share.window in self._windows:
                self.offer(share.window)

    def close(self, window: Window) -> None:
        """Give a window no more messages."""
        self._windows.pop(window, None)
        window.limit = 0
        if window.held:
            self._closed[window] = None
        else:
            self._closed.pop(window, None)
        if self._windows:
            return
        self._count_room()  # empties the line, which would keep a closed connection in memory
        if self._task is not None:
            self._task.cancel()

    def consumers(self) -> list[Consumer]:
        consumers = []
        for window in (*self._windows, *(window for window in self._closed if window.held)):
            endpoint, limit = window.client.endpoint or "unix", window.limit
            if window.counted:
                limit = min(limit, window.wanted + len(window.held))
            kind: Literal["stream"] | None = "stream" if window in self._windows else None
            consumers.append(
                Consumer(kind, f"connection {endpoint}", endpoint, window.since, limit, window.held.values())
            )
        return consumers

    # ------------------------------------------------------------------ the loop

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._on_end)

    async def _run(self) -> None:
        try:
            while self._windows:
                await self._pull()
        except Exception as error:  # noqa: BLE001 - clients are told of every error
            self._fail(error)

    def _on_end(self, task: asyncio.Task[None]) -> None:
        self._task, self._wake_up = None, None
        if self._windows:  # a window was opened while the loop ended
            self._start()

    def _fail(self, error: Exception) -> None:
        windows, self._windows = self._windows, {}
        self._line.clear()
        for window in windows:
            window.in_line, window.limit = False, 0
            window.client.feed_failed(window, error)

    async def _pull(self) -> None:
        """Pull messages for the room there is, or wait for room or messages.

        T-045: only a request creates the queue. A queue that another client deleted under its windows stays deleted.
        """
        if self._is_named:
            self._is_named = False
            await self._provide()
        room = min(self._count_room(), self._limits.dispatch_messages)
        if not room:
            return await self._wait_for_room()
        if await self._queue.find_queue(self._topic, self._subscription) is None and not self._is_named:
            raise queue_gone()
        with suppress(NotFoundError):  # the queue was deleted meanwhile, through another protocol
            leased = await self._lease(room)
            if leased.deliveries:
                self._dispatcher.dispatch(leased, self._share_out(leased.deliveries))
                await asyncio.sleep(0)  # let other tasks run

    async def _lease(self, room: int) -> Leased:
        self._is_leasing = True
        try:
            return await self._queue.lease(
                self._subscription,
                room,
                lease_seconds=ENDLESS,
                max_bytes=self._limits.dispatch_bytes,
                wait_seconds=WAIT_SECONDS,
            )
        finally:
            self._is_leasing = False

    async def _wait_for_room(self) -> None:
        self._wake_up = asyncio.get_running_loop().create_future()
        await self._wake_up
        self._wake_up = None

    def _count_room(self) -> int:
        """Return the room of all windows in the line. Windows without room leave the line until the next offer."""
        room, has_full = 0, False
        for window in self._line:
            free = window.room
            if free > 0:
                room += free
            else:
                window.in_line, has_full = False, True
        if has_full:
            self._line = deque(window for window in self._line if window.in_line)
        return room

    def _share_out(self, deliveries: Sequence[Delivery]) -> list[Share]:
        """T-031: assign one message to each window, in turn. Return messages to the queue if no window has room."""
        self._count_room()
        if len(self._line) == 1 and self._line[0].room >= len(deliveries):
            return [self._line[0].assign(deliveries)]
        line = self._line
        room = {window: window.room for window in line}
        assigned: dict[Window, list[Delivery]] = {window: [] for window in line}
        for index, delivery in enumerate(deliveries):
            if not line:
                self._put_back([extra.receipt for extra in deliveries[index:]])
                break
            window = line.popleft()
            assigned[window].append(delivery)
            room[window] -= 1
            window.in_line = room[window] > 0
            if window.in_line:
                line.append(window)
        return [window.assign(messages) for window, messages in assigned.items() if messages]

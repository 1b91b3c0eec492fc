"""Windows and feeds: how the messages of a queue find the connections that want them.

A queue has one feed for all its consumers. It takes as many messages as there are places in the windows, in one pull,
and deals them out in turn; a message belongs to a window from the moment it is taken, so that it returns to the queue
whatever becomes of the connection. It is sent once the message itself is durable; its lease need not be, as no lease
of this kind outlives the process.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from itertools import count
from operator import itemgetter
from typing import Literal, NamedTuple, Protocol, TypeAlias

from penstock.broker.names import receipt
from penstock.doors.consumers import Consumer
from penstock.doors.resources import QUEUE_OPTIONS
from penstock.doors.text.codec import Phrases, id_texts
from penstock.doors.text.options import TextOptions
from penstock.engine.port import Delivery, Leased, Queue
from penstock.errors import NotFoundError

ENDLESS = float("inf")  # T-033: a lease lasts as long as the connection
NOT_COUNTED = 1 << 62  # a window goes on for as long as there are messages
WAIT_SECONDS = 3600.0  # a feed that waits for messages looks again at least so often

PutBack: TypeAlias = Callable[[Sequence[str]], None]
Place: TypeAlias = tuple[int, int, int]  # a delivery: its offset, its stamp, and its number on this connection


class Share(NamedTuple):
    """What a window gets of one pull."""

    window: Window
    ids: Sequence[bytes]
    contents: Sequence[bytes]
    size: int
    last: int  # number of the last of them


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The messages of one pull, dealt to windows."""

    shares: list[Share]
    durable: asyncio.Future[None]  # the commit of the leases
    topic: int  # first id of the topic
    end: int  # offset behind the last message
    tail: int  # of the topic when the messages were leased: every message below it is durable with this commit


class Client(Protocol):
    """What a window needs of its connection."""

    promised_bytes: int  # taken from queues for it and not sent yet; the feeds count them

    @property
    def reading(self) -> bool:
        """Whether the client takes what it is sent."""

    @property
    def endpoint(self) -> str:
        """Address and port of the client."""

    def send(self, data: bytes) -> bool:
        """False if nothing is sent to this client any more."""

    def feed_failed(self, window: Window, error: Exception) -> None:
        """The queue cannot be consumed; the window is closed."""


class Window:
    """What one connection wants of one queue, and what it has."""

    __slots__ = (
        "consumer",
        "counted",
        "dealt",
        "feed",
        "held",
        "left",
        "limit",
        "phrases",
        "queued",
        "reached",
        "sent",
        "since",
        "subscription",
        "told",
    )

    def __init__(self, feed: Feed, consumer: Client, phrases: Phrases) -> None:
        self.feed = feed
        self.consumer = consumer
        self.phrases = phrases
        self.limit = 0  # most that may be outstanding; 0: closed
        self.left = 0  # how many more were asked for
        self.counted = False  # T-025: whether the request was for a count of messages
        self.dealt = 0  # messages it got so far; numbers them
        self.sent = 0  # number of the last message that was sent
        self.reached = 0  # number up to which the client has shown that messages reached its program
        self.told = False  # it has said itself how far that was
        self.subscription = 0  # its number, known with the first message
        self.held: dict[bytes, Place] = {}  # outstanding, by message id
        self.queued = False  # whether it stands in the line of its feed
        self.since = 0  # when it was first offered to its feed

    @property
    def room(self) -> int:
        """T-064: none for a client that does not read, or has enough coming."""
        consumer = self.consumer
        if not consumer.reading or consumer.promised_bytes >= self.feed.portion_bytes:
            return 0
        return min(self.limit - len(self.held), self.left)

    def ask(self, count: int, most: int, *, counted: bool) -> None:
        """T-025, T-027: in version 01 `count` more messages, in version 02 a window of so many."""
        if counted:
            before = self.left if self.counted and count else 0
            self.left, self.limit = min(before + count, most), most if count else 0
        else:
            self.left, self.limit = NOT_COUNTED, min(count, most)
        self.counted, self.told = counted, self.told and not count

    def take(self, ids: Sequence[bytes], *, unread: bool = False) -> tuple[dict[bytes, Place], list[bytes]]:
        """Messages that are no longer outstanding here, and the ids that are not held, or not twice."""
        pop, taken, unknown = self.held.pop, {}, []
        for each in ids:
            place = pop(each, None)
            if place is None:
                unknown.append(each)
            else:
                taken[each] = place
        if taken:
            self.told |= unread
            self.reached = max(self.reached, max([place[2] for place in taken.values()]) - unread)
        return taken, unknown

    def split(self) -> tuple[list[str], list[str]]:
        """T-044: receipts of what is outstanding here: what reached the program, as far as one knows, and the rest."""
        places = sorted(self.held.values(), key=itemgetter(2))
        edge = self.sent if self.counted else self.reached
        if not self.counted and not self.told:  # the next one is what it may have been working on
            edge = max(edge, next((number for _, _, number in places if self.reached < number <= self.sent), 0))
        seen = [place for place in places if place[2] <= edge]
        return self.receipts(seen), self.receipts(places[len(seen) :])

    def receipts(self, places: Iterable[Place]) -> list[str]:
        return [receipt(self.subscription, offset, stamp) for offset, stamp, _ in places]

    def hold(self, deliveries: Sequence[Delivery]) -> Share:
        """Count messages as outstanding; they are to be sent."""
        self.subscription = deliveries[0].subscription
        first = deliveries[0].first_id
        messages = [delivery.message for delivery in deliveries]
        ids = id_texts([first + message.offset for message in messages])
        numbers = count(self.dealt + 1)
        places = [(delivery.message.offset, delivery.stamp, next(numbers)) for delivery in deliveries]
        self.held.update(zip(ids, places, strict=True))
        self.dealt += len(places)
        self.left -= len(places)
        size = sum(message.size for message in messages)
        return Share(self, ids, [message.data for message in messages], size, self.dealt)

    def send(self, share: Share) -> None:
        if self.consumer.send(self.phrases.dispatch(share.ids, share.contents)):
            self.sent = share.last

    def forget(self, share: Share) -> None:
        """The taking never became durable: these messages are in the queue again."""
        self.left += len(share.ids)
        for message_id in share.ids:
            self.held.pop(message_id, None)


class Feed:
    """The messages of one queue, on their way to the consumers here."""

    def __init__(
        self,
        queue: Queue,
        name: bytes,
        topic: str,
        subscription: str,
        limits: TextOptions,
        put_back: PutBack,
    ) -> None:
        self.name = name
        self._queue = queue
        self._topic = topic
        self._subscription = subscription
        self._limits = limits
        self._put_back = put_back
        self.portion_bytes = limits.dispatch_bytes
        self._durable_topic, self._durable_until = 0, 0  # by first id: its messages below this offset are durable
        self._waiting: deque[Block] = deque()  # not sent yet, in the order of their leases
        self._windows: dict[Window, None] = {}
        self._closed: dict[Window, None] = {}  # want nothing more, and may still have messages
        self._line: deque[Window] = deque()  # windows that may have room, in turn (T-031)
        self._called: asyncio.Future[None] | None = None  # pending while there is no room
        self._task: asyncio.Task[None] | None = None

    @property
    def in_use(self) -> bool:
        return self._task is not None

    def offer(self, window: Window) -> None:
        """A window is open and may have room."""
        if window not in self._windows:
            self._windows[window] = None
            self._closed.pop(window, None)
            window.since = self._queue.clock.now()
        if not window.queued and window.room > 0:
            window.queued = True
            self._line.append(window)
        if self._task is None:
            self._start()
        elif self._called is not None and not self._called.done():
            self._called.set_result(None)

    def leave(self, window: Window) -> None:
        self._windows.pop(window, None)
        window.limit = 0
        if window.held:
            self._closed[window] = None
        else:
            self._closed.pop(window, None)
        if self._windows:
            return
        self._room()  # empties the line, which would keep a connection that is gone
        if self._task is not None:
            self._task.cancel()

    def consumers(self) -> list[Consumer]:
        found = []
        for window in (*self._windows, *(each for each in self._closed if each.held)):
            where, most = window.consumer.endpoint or "unix", window.limit
            if window.counted:
                most = min(most, window.left + len(window.held))
            kind: Literal["stream"] | None = "stream" if window in self._windows else None
            found.append(Consumer(kind, f"connection {where}", where, window.since, most, window.held.values()))
        return found

    # ------------------------------------------------------------------ the pump

    def _start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run())
        self._task.add_done_callback(self._ended)

    async def _run(self) -> None:
        try:
            while self._windows:
                await self._serve()
        except Exception as error:  # noqa: BLE001 - whatever it is, the clients must hear of it
            self._fail(error)

    def _ended(self, task: asyncio.Task[None]) -> None:
        self._task, self._called = None, None
        if self._windows:  # one came while the last one left
            self._start()

    async def _serve(self) -> None:
        """One look: take what there is for the places there are, or wait for either."""
        room = min(self._room(), self._limits.dispatch_messages)
        if not room:
            return await self._wait_for_room()
        if await self._queue.find_queue(self._topic, self._subscription) is None:
            await self._queue.provide_queue(self._topic, self._subscription, QUEUE_OPTIONS)
        with suppress(NotFoundError):  # it was deleted meanwhile, through another door
            leased = await self._queue.lease(
                self._subscription,
                room,
                lease_seconds=ENDLESS,
                max_bytes=self._limits.dispatch_bytes,
                wait_seconds=WAIT_SECONDS,
            )
            if leased.deliveries:
                self._dispatch(leased)
                await asyncio.sleep(0)  # others want to run as well

    async def _wait_for_room(self) -> None:
        self._called = asyncio.get_running_loop().create_future()
        await self._called
        self._called = None

    def _room(self) -> int:
        """Places in all windows of the line; those without any leave it until they are offered again."""
        room, full = 0, False
        for window in self._line:
            places = window.room
            if places > 0:
                room += places
            else:
                window.queued, full = False, True
        if full:
            self._line = deque(window for window in self._line if window.queued)
        return room

    # ------------------------------------------------------------------ dealing

    def _deal(self, deliveries: Sequence[Delivery]) -> list[Share]:
        """T-031: one message each, in turn. What no window has room for any more goes back."""
        self._room()
        if len(self._line) == 1 and self._line[0].room >= len(deliveries):
            return [self._line[0].hold(deliveries)]
        line = self._line
        places = {window: window.room for window in line}
        shares: dict[Window, list[Delivery]] = {window: [] for window in line}
        for place, delivery in enumerate(deliveries):
            if not line:
                self._put_back([each.receipt for each in deliveries[place:]])
                break
            window = line.popleft()
            shares[window].append(delivery)
            places[window] -= 1
            window.queued = places[window] > 0
            if window.queued:
                line.append(window)
        return [window.hold(share) for window, share in shares.items() if share]

    def _dispatch(self, leased: Leased) -> None:
        """T-024: send at once if the messages are known to be durable, else when a commit has made them durable.

        T-014: a block never overtakes an earlier block that still waits.
        """
        last = leased.deliveries[-1]
        block = Block(
            self._deal(leased.deliveries), leased.durable, last.first_id, last.message.offset + 1, leased.tail
        )
        if not self._waiting and self._is_durable(block):
            leased.durable.add_done_callback(partial(self._forget_if_lost, block.shares))
            self._send(block.shares)
            return
        for share in block.shares:
            share.window.consumer.promised_bytes += share.size
        self._waiting.append(block)
        leased.durable.add_done_callback(partial(self._committed, block))

    def _is_durable(self, block: Block) -> bool:
        return block.topic == self._durable_topic and block.end <= self._durable_until

    def _committed(self, block: Block, committed: asyncio.Future[None]) -> None:
        """Send every waiting block up to this one, and the blocks behind it that its commit made durable as well.

        Commits keep the order of the leases, so the commits of earlier blocks have ended too, even where their
        callbacks have yet to run.
        """
        if committed.exception() is not None:
            if block in self._waiting:
                self._waiting.remove(block)
                self._keep_promises(block)
            return self._forget_if_lost(block.shares, committed)
        self._durable_topic, self._durable_until = block.topic, block.tail
        while self._waiting and (block in self._waiting or self._is_durable(self._waiting[0])):
            ready = self._waiting.popleft()
            self._keep_promises(ready)
            if not ready.durable.done() or ready.durable.exception() is None:
                self._send(ready.shares)

    def _keep_promises(self, block: Block) -> None:
        for share in block.shares:
            share.window.consumer.promised_bytes -= share.size

    def _forget_if_lost(self, shares: list[Share], committed: asyncio.Future[None]) -> None:
        if committed.exception() is not None:
            for share in shares:
                share.window.forget(share)
            self._offer_again(shares)

    def _send(self, shares: list[Share]) -> None:
        for share in shares:
            share.window.send(share)
        self._offer_again(shares)

    def _offer_again(self, shares: list[Share]) -> None:
        for share in shares:
            if share.window in self._windows:
                self.offer(share.window)

    def _fail(self, error: Exception) -> None:
        windows, self._windows = self._windows, {}
        self._line.clear()
        for window in windows:
            window.queued, window.limit = False, 0
            window.consumer.feed_failed(window, error)

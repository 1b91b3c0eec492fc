"""Selection of the next messages of a subscription, for pull and peek.

Selecting changes no state. It takes candidates out of the ready heaps (an index) and records them, so that the caller
can put back candidates that it does not deliver. Everything else goes into the plan, from which the caller makes facts.
Redeliveries come first, then the log, both oldest first.
"""

from __future__ import annotations

from dataclasses import dataclass
from heapq import heappop, heappush

from penstock.broker.leases import Entry
from penstock.broker.log import LogCache, Need
from penstock.broker.model import Message
from penstock.broker.ordering import Lane
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic


@dataclass(slots=True, eq=False)
class Room:
    """The number of messages and bytes that may still be selected."""

    messages: int
    bytes: int  # stop before exceeding it, except with the first message; 0: no limit
    flow_bytes: int  # stop once it is reached; 0: no limit
    scan: int  # number of messages of the log to look at


class Plan:
    """The selected messages in the order of delivery, and the messages that the cursor passed."""

    def __init__(self, cursor: int) -> None:
        self.messages: list[Message] = []
        self.size = 0
        self.until = cursor
        self.passed = 0  # messages settled without a delivery
        self.passed_bytes = 0
        self.filtered = 0
        self.ahead = 0  # filtered messages that were counted as acked before
        self.ahead_bytes = 0
        self.held: list[Message] = []
        self.delayed: list[Message] = []
        self.expired: list[Message] = []  # outstanding messages, or messages of the log that are moved
        self.lane_use: dict[str, int] = {}  # waiting messages of a lane that are in the plan
        self.blocked: set[str] = set()  # keys with a message that has to wait; never iterated
        self.fresh = 0  # index of the first message that is not a redelivery
        self.cut = False  # stopped early: more messages may be ready now
        self.need: Need | None = None
        self.taken: list[int] = []  # candidates taken out of the ready heaps
        self.taken_lanes: list[tuple[int, str]] = []

    def fits(self, size: int, room: Room) -> bool:
        if len(self.messages) >= room.messages:
            return False
        if room.flow_bytes and self.size >= room.flow_bytes:
            return False
        return not (room.bytes and self.messages and self.size + size > room.bytes)

    def choose(self, message: Message) -> None:
        self.messages.append(message)
        self.size += message.size

    def settle(self, message: Message) -> None:
        """Count a message as settled without a delivery."""
        self.passed += 1
        self.passed_bytes += message.size


class Selection:
    """One selection from a subscription at one instant."""

    def __init__(
        self,
        topic: Topic,
        subscription: Subscription,
        cache: LogCache,
        now: int,
        pinned: dict[tuple[int, int], Message] | None = None,
        holder: str = "",
    ) -> None:
        self.holder = holder
        self.others: list[tuple[int, str]] = []  # ready lanes that another holder has
        self.topic = topic
        self.subscription = subscription
        self.cache = cache
        self.now = now
        self.pinned = pinned  # messages seen by this and earlier selections, which may not fit the cache together
        self.plan = Plan(subscription.cursor)

    def run(self, room: Room) -> Plan:
        subscription = self.subscription
        goes_on = room.messages > 0 and self._take_redeliveries(room)
        for item in self.others:
            heappush(subscription.lane_ready, item)
        subscription.lanes_of_others = len(self.others)
        if goes_on:
            self.plan.fresh = len(self.plan.messages)
            plain = self.pinned is None and subscription.accepts is None and not subscription.skips
            if plain and not subscription.options.ordering:
                self._scan_plain(room)
            else:
                self._scan(room)
        return self.plan

    def put_back(self) -> None:
        """Return all candidates to the ready heaps, because nothing was delivered."""
        for offset in self.plan.taken:
            heappush(self.subscription.ready, offset)
        lane_ready = self.subscription.lane_ready
        for item in self.plan.taken_lanes:
            heappush(lane_ready, item)
        if len(lane_ready) > 64 + 2 * len(self.subscription.lanes):  # looking ahead in a lane leaves copies behind
            lane_ready[:] = sorted(set(lane_ready))

    def _find(self, offset: int) -> Message | None:
        if self.pinned is None:
            return self.cache.get(self.topic.number, offset)
        key = self.topic.number, offset
        message = self.pinned.get(key) or self.cache.get(*key)
        if message is not None:
            self.pinned[key] = message
        return message

    # ------------------------------------------------------------------ redeliveries

    def _take_redeliveries(self, room: Room) -> bool:
        """Take messages that are ready again. Return False if the log need not be looked at."""
        subscription = self.subscription
        while subscription.ready or subscription.lane_ready:
            lane_first = not subscription.ready or (
                subscription.lane_ready and subscription.lane_ready[0][0] < subscription.ready[0]
            )
            if not (self._take_from_lane(room) if lane_first else self._take_ready(room)):
                self.plan.fresh = len(self.plan.messages)
                return False
        return True

    def _take_ready(self, room: Room) -> bool:
        offset = self.subscription.ready[0]
        entry = self.subscription.outstanding.get(offset)
        repeated = self.plan.taken and self.plan.taken[-1] == offset
        if entry is None or entry.leased or entry.due > self.now or repeated:
            heappop(self.subscription.ready)  # stale, or twice in the heap
            return True
        if not self._take(offset, entry, room):
            return False
        self.plan.taken.append(heappop(self.subscription.ready))
        return True

    def _take_from_lane(self, room: Room) -> bool:
        offset, key = self.subscription.lane_ready[0]
        lane = self.subscription.lanes.get(key)
        used = self.plan.lane_use.get(key, 0)
        if lane is not None and lane.is_held_by_another(self.holder):
            self.others.append(heappop(self.subscription.lane_ready))
            return True
        if lane is None or key in self.plan.blocked or not self._may_leave(lane, used, offset):
            heappop(self.subscription.lane_ready)  # stale, twice in the heap, or after a delayed message
            return True
        entry = self.subscription.outstanding.get(offset)
        message = self._find(offset) if entry is None else None
        if message is not None and (message.visible_at > self.now or 0 < message.expires_at <= self.now):
            return self._put_off(message, key, used)
        if not self._take(offset, entry, room):
            return False
        self.plan.taken_lanes.append(heappop(self.subscription.lane_ready))
        self.plan.lane_use[key] = used + 1
        following = lane.waiting(used + 1)
        if following is not None and self._may_leave(lane, used + 1, following):
            heappush(self.subscription.lane_ready, (following, key))
        return True

    def _put_off(self, message: Message, key: str, used: int) -> bool:
        """Plan an entry for a held message that is delayed or expired, once it is the next of its lane."""
        item = heappop(self.subscription.lane_ready)
        self.plan.blocked.add(key)
        if used:  # earlier messages are being delivered; the next pull looks at it, before later ones
            self.plan.cut = self.pinned is None
            return self.pinned is not None  # a peek delivers nothing, so it goes on
        self.plan.taken_lanes.append(item)
        (self.plan.expired if 0 < message.expires_at <= self.now else self.plan.delayed).append(message)
        return True

    def _may_leave(self, lane: Lane, used: int, offset: int) -> bool:
        if lane.leased + used >= self.subscription.options.ordering_window or lane.waiting(used) != offset:
            return False
        if lane.is_held_by_another(self.holder):
            return False
        entry = self.subscription.outstanding.get(offset)
        return entry is None or entry.due <= self.now

    def _take(self, offset: int, entry: Entry | None, room: Room) -> bool:
        """Choose a waiting message. Return False to stop here."""
        message = self._find(offset)
        if message is None:
            return self._ask_for(offset)
        if 0 < message.expires_at <= self.now:
            self.plan.expired.append(message)
            return True
        if not self.plan.fits(message.size, room):
            return False
        self.plan.choose(message if entry is None or entry.body is None else message._replace(data=entry.body))
        return True

    def _ask_for(self, offset: int) -> bool:
        # Messages selected so far are handled first, and a missing one is asked for only if there are none. Otherwise
        # two messages that do not fit the cache together would be read in turn for ever.
        self.plan.cut = True
        if self.pinned is not None or not (self.plan.messages or self.plan.expired or self.plan.delayed):
            self.plan.need = self.cache.need(self.topic.number, offset, self.topic.tail, self.topic.mean_bytes())
        return False

    # ------------------------------------------------------------------ the log

    def _scan_plain(self, room: Room) -> None:
        """Scan the log a chunk at a time, in the common case without a filter, ordering or skips."""
        plan, tail, now = self.plan, self.topic.tail, self.now
        while plan.until < tail and len(plan.messages) < room.messages:
            span = self.cache.span(self.topic.number, plan.until)
            if span is None:
                self._ask_for(plan.until)
                return
            messages, index = span
            for message in messages[index : index + room.messages - len(plan.messages)]:
                if message.visible_at > now or message.expires_at:
                    self._scan(room)
                    return
                if not plan.fits(message.size, room):
                    return
                plan.messages.append(message)
                plan.size += message.size
                plan.until += 1

    def _scan(self, room: Room) -> None:
        plan, tail, accepts = self.plan, self.topic.tail, self.subscription.accepts
        for _ in range(room.scan):
            for first, until in self.subscription.skips:
                if first > plan.until:
                    break
                plan.until = max(plan.until, until)
            full = len(plan.messages) >= room.messages
            if plan.until >= tail or (full and (accepts is None or self.pinned is not None)):
                return
            message = self._find(plan.until)
            if full and (message is None or accepts is None or accepts(message.attributes)):
                return  # the cursor stops at a matching message, so that the age of the backlog is right
            if message is None:
                plan.cut = True
                if self.pinned is not None or plan.until == self.subscription.cursor:
                    self._ask_for(plan.until)
                return
            if not self._decide(message, room):
                return
            plan.until += 1
        plan.cut = True

    def _decide(self, message: Message, room: Room) -> bool:
        """Decide on one message of the log. Return False to stop before it."""
        plan, subscription = self.plan, self.subscription
        if subscription.accepts is not None and not subscription.accepts(message.attributes):
            plan.filtered += 1
            plan.settle(message)
            if message.offset < subscription.compared:
                plan.ahead += 1
                plan.ahead_bytes += message.size
            if self.pinned is not None:
                self.pinned[self.topic.number, message.offset] = message._replace(data=b"")
        elif 0 < message.expires_at <= self.now:
            if subscription.options.expired_topic:
                plan.delayed.append(message)  # it gets an entry first, and is then moved
                plan.expired.append(message)
            else:
                plan.settle(message)
        elif subscription.options.ordering and message.ordering_key and self._is_blocked(message.ordering_key):
            plan.held.append(message)
            plan.blocked.add(message.ordering_key)
        elif message.visible_at > self.now:
            plan.delayed.append(message)
            plan.blocked.add(message.ordering_key)
        elif not plan.fits(message.size, room):
            return False
        else:
            plan.choose(message)
            if subscription.options.ordering and message.ordering_key:
                plan.lane_use[message.ordering_key] = plan.lane_use.get(message.ordering_key, 0) + 1
        return True

    def _is_blocked(self, key: str) -> bool:
        """Return whether an earlier message of the key comes first, or the ordering window is full."""
        if key in self.plan.blocked:
            return True
        used = self.plan.lane_use.get(key, 0)
        lane = self.subscription.lanes.get(key)
        if lane is not None and lane.is_held_by_another(self.holder):
            return True
        waiting = max(0, lane.waiting_count() - used) if lane else 0
        leased = lane.leased if lane else 0
        return waiting > 0 or leased + used >= self.subscription.options.ordering_window

"""A subscription: a cursor (the first offset not looked at) and the outstanding messages below it.

These methods apply facts and decide nothing. They are the only code that changes a subscription. A message is acked if
it is below the cursor and not outstanding, or inside a skip. Heaps, timers and lanes are derived and in no dump.
Commands take messages from the heaps, and put back the ones that they do not deliver.
"""

from __future__ import annotations

from collections.abc import Iterable
from heapq import heapify, heappop, heappush
from typing import TYPE_CHECKING

from penstock.broker import facts as f
from penstock.broker.counts import SubscriptionCounts
from penstock.broker.dump import EntryDump, SubscriptionDump
from penstock.broker.filters import compile_filter
from penstock.broker.leases import NO_RECEIPT, Entry, Timer, Timers
from penstock.broker.lifecycle import Stage
from penstock.broker.model import FOREVER, SECOND, Message, SubscriptionOptions
from penstock.broker.ordering import Lane
from penstock.broker.ranges import add_range, is_inside

if TYPE_CHECKING:
    from penstock.broker.topic import Topic


# The fields of a dump that a subscription takes over as they are.
_LOADED = ("used_at", "detached", "cursor", "stamp", "settled", "settled_bytes", "compared", "ahead", "ahead_bytes")


class Subscription:
    def __init__(self, created: f.SubscriptionCreated) -> None:
        self.number = created.subscription
        self.name = created.name
        self.topic = created.topic
        self.topic_name = created.topic_name
        self.created_at = created.at
        self.start = created.cursor  # earlier messages are not part of it
        self.used_at = created.at
        self.detached = False
        self.cursor = created.cursor
        self.settled = created.cursor  # messages of the topic that count as acked here, from offset 0 on
        self.settled_bytes = created.position
        self.stamp = 0  # deliveries so far; receipts of old releases were numbered with it
        self.counts = SubscriptionCounts()
        self._clear()
        self._configure(created.options)

    def _clear(self) -> None:
        # The filter was compared with all messages below this offset, even if that is above the cursor.
        self.compared = 0
        self.ahead = 0  # messages from the cursor to `compared` that the filter keeps out; they count as acked
        self.ahead_bytes = 0
        self.skips: list[tuple[int, int]] = []  # ranges at or above the cursor that count as acked, ascending
        self.outstanding: dict[int, Entry] = {}
        self.in_flight = 0
        self.in_flight_bytes = 0
        self.timers = Timers()
        self.ready: list[int] = []  # heap of offsets that may be delivered again; may hold stale ones
        self.lane_ready: list[tuple[int, str]] = []  # the same for the next message of each lane
        self.lanes_of_others = 0  # ready lanes that the last pull left to other holders; derived
        self.lanes: dict[str, Lane] = {}
        self.lows: list[int] = []  # heap over the outstanding offsets; may hold stale ones

    @property
    def front(self) -> int:
        """The first offset that neither the cursor nor the filter has reached."""
        return max(self.compared, self.cursor)

    def _configure(self, options: SubscriptionOptions) -> None:
        self.options = options
        self.accepts = compile_filter(options.filter) if options.filter else None

    # ------------------------------------------------------------------ facts

    def change(self, fact: f.SubscriptionChanged) -> None:
        if fact.options.filter != self.options.filter:
            self.compared = self.ahead = self.ahead_bytes = 0
        self._configure(fact.options)

    def detach(self) -> None:
        self.detached = True
        self._clear()

    def deliver(self, fact: f.Delivered) -> None:
        self.used_at = fact.at
        self.cursor = max(self.cursor, fact.until)
        self._drop_passed_skips()
        if fact.keys or fact.expiries:
            self._deliver_each(fact)
        else:
            self._deliver_all(fact)
        self.stamp += len(fact.offsets)
        self.in_flight += len(fact.offsets)
        self.in_flight_bytes += sum(fact.sizes)

    def _deliver_all(self, fact: f.Delivered) -> None:
        """Deliver messages in the common case, without ordering keys and expiry."""
        outstanding, deadline, (stamp, step) = self.outstanding, fact.deadline, self._stamps(fact)
        timer = self.timers.make(deadline, fact.offsets)
        for offset, size in zip(fact.offsets, fact.sizes, strict=True):
            if offset in outstanding:
                self._lease_again(outstanding[offset], stamp, deadline, timer)
            else:
                outstanding[offset] = Entry(True, stamp, 1, deadline, size, "", 0, None, timer)
                heappush(self.lows, offset)
            stamp += step

    def _deliver_each(self, fact: f.Delivered) -> None:
        keys, (stamp, step) = fact.keys or [""] * len(fact.offsets), self._stamps(fact)
        expiries = fact.expiries or [0] * len(fact.offsets)
        lasting = [offset for offset, at in zip(fact.offsets, expiries, strict=True) if not at or at > fact.deadline]
        shared = self.timers.make(fact.deadline, lasting) if lasting else None
        for offset, size, key, expires_at in zip(fact.offsets, fact.sizes, keys, expiries, strict=True):
            ends_early = 0 < expires_at <= fact.deadline
            deadline = expires_at if ends_early else fact.deadline
            timer = self.timers.make(expires_at, (offset,)) if ends_early else shared
            entry = self.outstanding.get(offset)
            if entry is None:
                self._add(offset, Entry(True, stamp, 1, deadline, size, key, expires_at, None, timer))
            else:
                self._lease_again(entry, stamp, deadline, timer)
            if key:
                self.lanes.setdefault(key, Lane()).lease(offset)
            stamp += step
        for key in dict.fromkeys(keys):
            self._queue_lane(key, fact.at)

    def _stamps(self, fact: f.Delivered) -> tuple[int, int]:
        return (fact.stamp, 0) if fact.stamp else (self.stamp + 1, 1)

    def _lease_again(self, entry: Entry, stamp: int, deadline: int, timer: Timer | None) -> None:
        self.timers.leave(entry.timer)
        entry.leased, entry.stamp, entry.due, entry.timer = True, stamp, deadline, timer
        entry.attempts += 1
        entry.extensions = 0

    def advance(self, fact: f.Passed) -> None:
        self.cursor = max(self.cursor, fact.until)
        self.settled += fact.total
        self.settled_bytes += fact.size
        self.ahead -= fact.ahead
        self.ahead_bytes -= fact.ahead_bytes
        self._drop_passed_skips()

    def compare(self, fact: f.Compared) -> None:
        self.compared = fact.until
        self.ahead += fact.total
        self.ahead_bytes += fact.size

    def keep_out(self, published: f.Published, total: int, size: int) -> None:
        """Count `total` messages of a publish as acked, because the filter does not match them."""
        until = published.first + published.total
        if self.cursor == published.first and total == published.total:
            self.cursor = until
            self.settled += total
            self.settled_bytes += size
        else:
            self.compared = until
            self.ahead += total
            self.ahead_bytes += size

    def hold(self, fact: f.Held) -> None:
        for offset, size, key in zip(fact.offsets, fact.sizes, fact.keys, strict=True):
            self.lanes.setdefault(key, Lane()).hold(offset, size)

    def delay(self, fact: f.Delayed) -> None:
        for offset, size, key, due, expires_at in zip(
            fact.offsets, fact.sizes, fact.keys, fact.dues, fact.expiries, strict=True
        ):
            self._add(offset, Entry(False, 0, 0, due, size, key, expires_at, None, None))
            self.timers.meet(offset, self.outstanding[offset], FOREVER)
            if key:
                self.lanes.setdefault(key, Lane()).wait(offset)
                self._queue_lane(key, fact.at)
            else:
                self._queue(offset, fact.at)

    def adopt(self, fact: f.Adopted) -> None:
        self._add(fact.offset, Entry(False, 0, 0, fact.due, fact.size, "", fact.expires_at, None, None))
        add_range(self.skips, fact.offset, fact.offset + 1)
        self._queue(fact.offset, fact.at)

    def ack(self, fact: f.Acked) -> None:
        self.used_at = fact.at
        self._settle(fact.offsets, fact.at)

    def remove(self, fact: f.Removed) -> None:
        self._settle(fact.offsets, fact.at)

    def _settle(self, offsets: Iterable[int], at: int) -> None:
        outstanding, timers = self.outstanding, self.timers
        count = size = leased = leased_bytes = 0
        for offset in offsets:
            entry = outstanding.pop(offset)
            count += 1
            size += entry.size
            if entry.leased:
                leased += 1
                leased_bytes += entry.size
            timers.leave(entry.timer)
            if entry.key:
                lane = self.lanes[entry.key]
                lane.leave(offset)
                if lane:
                    self._queue_lane(entry.key, at)
                else:
                    del self.lanes[entry.key]
        self.settled += count
        self.settled_bytes += size
        self.in_flight -= leased
        self.in_flight_bytes -= leased_bytes
        if len(self.lows) > 1024 and len(self.lows) > 2 * len(outstanding):
            self.lows = sorted(outstanding)

    def give_back(self, fact: f.Returned) -> None:
        dues = fact.dues or [fact.at] * len(fact.offsets)
        for offset, due in zip(fact.offsets, dues, strict=True):
            entry = self.outstanding[offset]
            self.timers.leave(entry.timer)
            entry.timer = None
            if entry.leased:
                self._count_lease(entry, -1)
            entry.due, entry.stamp = due, NO_RECEIPT if fact.by_holder else entry.stamp
            entry.attempts -= fact.unseen and entry.attempts > 0
            self.timers.meet(offset, entry, FOREVER)
            if not entry.key:
                self._queue(offset, fact.at)
        for key in dict.fromkeys(self.outstanding[offset].key for offset in fact.offsets):
            if key:
                self._queue_lane(key, fact.at)

    def extend(self, fact: f.Extended) -> None:
        self.used_at = fact.at
        entries = [(offset, self.outstanding[offset]) for offset in fact.offsets]
        lasting = [offset for offset, entry in entries if not 0 < entry.expires_at <= fact.deadline]
        shared = self.timers.make(fact.deadline, lasting) if lasting else None
        for offset, entry in entries:
            entry.extensions += 1
            self.timers.leave(entry.timer)
            if not entry.leased:
                self._count_lease(entry, 1)
            if 0 < entry.expires_at <= fact.deadline:  # no lease outlives its message
                entry.due, entry.timer = entry.expires_at, self.timers.make(entry.expires_at, (offset,))
            else:
                entry.due, entry.timer = fact.deadline, shared
            if fact.restamp:
                self.stamp += 1
                entry.stamp = fact.stamp or self.stamp

    def _count_lease(self, entry: Entry, change: int) -> None:
        """Count the start (1) or the end (-1) of a lease."""
        entry.leased = change > 0
        self.in_flight += change
        self.in_flight_bytes += change * entry.size
        if entry.key:
            self.lanes[entry.key].leased += change

    def rewrite(self, fact: f.Rewritten) -> None:
        self.outstanding[fact.offset].body = fact.data

    def seek(self, fact: f.Sought) -> None:
        self.used_at = fact.at
        self._clear()
        self.cursor = fact.cursor
        self.settled, self.settled_bytes = fact.settled, fact.settled_bytes
        self.skips = [(first, until) for first, until in fact.skips]

    def skip(self, first: int, until: int, size: int) -> None:
        """Count messages of a publish as acked, because they exceed the cap on the backlog."""
        add_range(self.skips, first, until)
        self.settled += until - first
        self.settled_bytes += size

    # ------------------------------------------------------------------ indexes

    def _add(self, offset: int, entry: Entry) -> None:
        self.outstanding[offset] = entry
        heappush(self.lows, offset)

    def _drop_passed_skips(self) -> None:
        while self.skips and self.skips[0][1] <= self.cursor:
            del self.skips[0]

    def _queue(self, offset: int, at: int) -> None:
        """Put a waiting message on the ready heap if it is due, or else on a timer."""
        entry = self.outstanding[offset]
        self.timers.meet(offset, entry, entry.due if entry.due > at else FOREVER)
        if entry.due <= at:
            heappush(self.ready, offset)

    def _queue_lane(self, key: str, at: int) -> None:
        """Put the next message of a lane on the ready heap or a timer, if the ordering window has room for it."""
        lane = self.lanes.get(key)
        if lane is None or lane.leased >= self.options.ordering_window:
            return
        offset = lane.waiting(0)
        if offset is None:
            return
        entry = self.outstanding.get(offset)
        if entry is not None and entry.due > at:
            self.timers.meet(offset, entry, entry.due)
        else:
            heappush(self.lane_ready, (offset, key))

    def wake(self, offset: int, at: int) -> None:
        """Queue a waiting message whose timer has come due."""
        entry = self.outstanding[offset]
        self.timers.meet(offset, entry, FOREVER)
        if entry.key:
            self._queue_lane(entry.key, at)
        else:
            heappush(self.ready, offset)

    def lowest_unacked(self) -> int:
        """Return the oldest unacked offset, or the cursor, moved past a skip that begins there."""
        while self.lows and self.lows[0] not in self.outstanding:
            heappop(self.lows)
        beyond = self.skips[0][1] if self.skips and self.skips[0][0] <= self.cursor else self.cursor
        lowest = min(self.lows[0], beyond) if self.lows else beyond
        return min([lowest, *(lane.held[0] for lane in self.lanes.values() if lane.held)])

    def unacked(self, topic: Topic) -> tuple[int, int]:
        """Return the number of unacked messages of a topic, and their bytes."""
        messages = topic.tail - self.settled - self.ahead
        return messages, topic.position - self.settled_bytes - self.ahead_bytes

    def stage(self, offset: int) -> Stage:
        entry = self.outstanding.get(offset)
        if entry is not None:
            return Stage.LEASED if entry.leased else Stage.WAITING
        if any(offset in lane.held for lane in self.lanes.values()):
            return Stage.HELD
        return Stage.SETTLED if offset < self.cursor or is_inside(self.skips, offset) else Stage.UNREAD

    def is_unused(self, now: int) -> bool:
        """Return whether the subscription was not used for its time to live."""
        ttl = self.options.expiration_seconds
        return bool(ttl) and now - self.used_at >= ttl * SECOND

    def note_holder(self, holder: str, messages: Iterable[Message]) -> None:
        """Record the holder of messages by ordering key. Derived state."""
        for key in {message.ordering_key for message in messages} & self.lanes.keys():
            self.lanes[key].holder = holder

    # ------------------------------------------------------------------ dump and load

    def dump(self) -> SubscriptionDump:
        fields = {name: getattr(self, name) for name in SubscriptionDump._fields if name != "held"}
        fields["skips"] = list(self.skips)
        fields["outstanding"] = [entry.dump(offset) for offset, entry in sorted(self.outstanding.items())]
        lanes = [(key, lane) for key, lane in sorted(self.lanes.items()) if lane.held]
        fields["held"] = {key: list(zip(lane.held, lane.held_sizes, strict=True)) for key, lane in lanes}
        return SubscriptionDump(**fields)

    @classmethod
    def load(cls, dump: SubscriptionDump) -> Subscription:
        d = dump
        created = f.SubscriptionCreated(d.number, d.name, d.topic, d.topic_name, d.start, 0, d.created_at, d.options)
        subscription = cls(created)
        for name in _LOADED:
            setattr(subscription, name, getattr(dump, name))
        subscription.skips = [(first, until) for first, until in dump.skips]
        for entry in dump.outstanding:
            subscription._load_entry(entry)
        for key, held in dump.held.items():
            lane = subscription.lanes.setdefault(key, Lane())
            for offset, size in held:
                lane.hold(offset, size)
        for key in subscription.lanes:
            subscription._queue_lane(key, 0)
        heapify(subscription.lows)
        return subscription

    def _load_entry(self, dump: EntryDump) -> None:
        d = dump
        entry = Entry(d.leased, d.stamp, d.attempts, d.due, d.size, d.key, d.expires_at, d.body, None, d.extensions)
        self._add(dump.offset, entry)
        if dump.leased:
            entry.timer = self.timers.make(dump.due, (dump.offset,))
            self.in_flight += 1
            self.in_flight_bytes += dump.size
        if dump.key:
            lane = self.lanes.setdefault(dump.key, Lane())
            lane.live.append(dump.offset)
            lane.leased += dump.leased
        if not dump.leased and dump.key:
            self.timers.meet(dump.offset, entry, FOREVER)
        elif not dump.leased:
            self._queue(dump.offset, 0)

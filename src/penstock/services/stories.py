"""Stories: the recent events of each message, read from the facts of the broker.

The latest facts are kept by reference, as many as name at most KEPT messages. Older facts are dropped. A fact is one
entry, whatever the number of its messages.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.broker import facts as f
from penstock.broker.names import parse_move_producer
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic

if TYPE_CHECKING:
    from penstock.engine.engine import Engine

KEPT = 200_000

_NAMING = (f.Acked, f.Delayed, f.Delivered, f.Extended, f.Held, f.Removed, f.Returned)  # they list their messages
_OF_MANY = (f.Published, f.Sought)
_SETTLED = ("acked", "moved", "skipped", "dead-letter", "expired", "retention")


class Event(NamedTuple):
    at: int
    kind: str  # published, delivered, acked, moved ...: the admin API has a sentence for each
    subscription: str  # empty: an event of the topic
    door: str | None = None  # door of a delivery, if it is still known
    until: int = 0  # deadline of the lease, or the time of the next delivery
    other: str = ""  # destination of a moved message; origin of a message that a move published


class Story(NamedTuple):
    """The events of consecutive messages."""

    events: dict[int, list[Event]]  # by offset, oldest first
    known_since: int  # earlier events are not kept

    def is_complete(self, offset: int) -> bool:
        """Return whether the story begins with the publish. The oldest events are dropped first."""
        events = self.events[offset]
        return bool(events) and events[0].kind == "published"


class Stories:
    def __init__(self, engine: Engine) -> None:
        self._engine = engine
        self._facts: deque[Any] = deque()
        self._weight = 0
        self._known_since = engine.now()
        engine.on(_OF_MANY, self._on_many)
        engine.on(_NAMING, self._on_fact)
        engine.on_reset(self._forget_all)

    def _on_many(self, fact: f.Published | f.Sought) -> None:
        self._facts.append(fact)
        self._weight += 1
        if self._weight > KEPT:
            self._forget()

    def _on_fact(self, fact: Any) -> None:
        self._facts.append(fact)
        self._weight += 1 + len(fact.offsets)
        if self._weight > KEPT:
            self._forget()

    def _forget(self) -> None:
        while self._weight > KEPT:
            oldest = self._facts.popleft()
            self._weight -= 1 + (0 if type(oldest) in _OF_MANY else len(oldest.offsets))
            self._known_since = getattr(oldest, "at", self._known_since)

    def _forget_all(self) -> None:
        """Drop all facts, because some of them were rolled back, and it is not known which."""
        self._facts.clear()
        self._weight, self._known_since = 0, self._engine.now()

    def of(self, topic_name: str, first: int, until: int) -> Story:
        """Return the stories of the messages with first <= offset < until."""
        with self._engine.lock:
            topic = self._engine.broker.state.topic(topic_name)
            kept, since, collector = list(self._facts), self._known_since, _Collector(self._engine, topic, first, until)
        for fact in kept:
            collector.take(fact)
        return Story(collector.found, since)


class _Collector:
    """The events of a range of messages, collected from all facts in order."""

    def __init__(self, engine: Engine, topic: Topic, first: int, until: int) -> None:
        self._engine = engine
        self._topic = topic
        self._readers = dict(topic.readers)
        self._first, self._until = first, until
        self._moved: set[tuple[int, int]] = set()  # subscription and offset
        # The last publish, because a dead letter is published right before it is removed.
        self._published: f.Published | None = None
        self.found: dict[int, list[Event]] = {offset: [] for offset in range(first, until)}

    def take(self, fact: Any) -> None:
        if type(fact) is f.Published:
            self._take_publish(fact)
            return
        if type(fact) is f.Removed and fact.reason == "dead-letter":
            self._mark_dead_letters(fact.subscription)
        subscription = self._readers.get(fact.subscription)
        if subscription is None:
            return
        if type(fact) is f.Sought:
            for offset, events in self.found.items():
                _add_seek(events, fact, offset, subscription)
            return
        for index in _indexes(fact.offsets, self._first, self._until):
            offset = fact.offsets[index]
            message = subscription.number, offset
            if type(fact) is f.Acked and message in self._moved:
                self._moved.remove(message)  # the ack of the move; a later ack is of another consumer
            else:
                self.found[offset].append(self._event(fact, index, subscription.name))

    def _take_publish(self, fact: f.Published) -> None:
        self._published = fact
        source = parse_move_producer(fact.producer) if fact.producer else None
        if fact.topic == self._topic.number:
            origin = self._origin(*source) if source else ""
            for offset in range(max(self._first, fact.first), min(self._until, fact.first + fact.total)):
                self.found[offset].append(Event(fact.at, "published", "", other=origin))
        if source and source[0] == self._topic.identity and self._first <= fact.sequence < self._until:
            self._moved.add((source[1], fact.sequence))
            self._add_move(self.found[fact.sequence], fact, self._readers.get(source[1]))

    def _origin(self, identity: str, subscription: int) -> str:
        """Return the subscription that a move took a message from, or its topic if the subscription was deleted."""
        state = self._engine.broker.state
        origin: Subscription | Topic | None = state.subscriptions.get(subscription)
        origin = origin or next((topic for topic in list(state.topics.values()) if topic.identity == identity), None)
        return origin.name if origin is not None else ""

    def _add_move(self, events: list[Event], fact: f.Published, subscription: Subscription | None) -> None:
        name = subscription.name if subscription is not None else ""
        if events and events[-1][1:3] == ("delivered", name):
            events.pop()  # the delivery to the move itself
        events.append(Event(fact.at, "moved", name, other=self._destination()))

    def _mark_dead_letters(self, subscription: int) -> None:
        """Record that the messages of the last publish are dead letters of a subscription."""
        source, fact = self._engine.broker.state.subscriptions.get(subscription), self._published
        if source is None or fact is None or fact.topic != self._topic.number:
            return
        for offset in range(max(self._first, fact.first), min(self._until, fact.first + fact.total)):
            self.found[offset][0] = self.found[offset][0]._replace(other=source.name)

    def _destination(self) -> str:
        """Return the topic of the last publish."""
        fact = self._published
        topic = self._engine.broker.state.topics.get(fact.topic) if fact is not None else None
        return topic.name if topic is not None else ""

    def _event(self, fact: Any, index: int, name: str) -> Event:
        if type(fact) is f.Delivered:
            origin = self._engine.lease_origins.find(fact.subscription, fact.stamp)
            return Event(fact.at, "delivered", name, origin.door if origin is not None else None, fact.deadline)
        if type(fact) is f.Extended:
            return Event(fact.at, "extended", name, None, fact.deadline)
        if type(fact) is f.Returned:
            kind = "unseen" if fact.unseen else "returned" if fact.by_holder else "lapsed"
            due = fact.dues[index] if fact.dues else 0
            return Event(fact.at, kind, name, None, due)
        if type(fact) is f.Removed:
            is_dead_letter = fact.reason == "dead-letter"
            return Event(fact.at, fact.reason, name, other=self._destination() if is_dead_letter else "")
        if type(fact) is f.Delayed:
            return Event(fact.at, "delayed", name, None, fact.dues[index])
        return Event(getattr(fact, "at", 0), "acked" if type(fact) is f.Acked else "held", name)


def _add_seek(events: list[Event], fact: f.Sought, offset: int, subscription: Subscription) -> None:
    """Add the event of a seek or a purge, if it changes the state of the message."""
    name = subscription.name
    before = next((event.kind for event in reversed(events) if event.subscription == name), "")
    skipped = offset < fact.cursor or any(first <= offset < until for first, until in fact.skips)
    if not before:  # no event yet: the filter may drop it, or the subscription may be younger
        changed = skipped and bool(events) and not subscription.accepts
        changed = changed and subscription.created_at <= events[0].at
    else:
        changed = before not in _SETTLED if skipped else before != "sought"
    if changed:
        events.append(Event(fact.at, "skipped" if skipped else "sought", name))


def _indexes(offsets: Sequence[int], first: int, until: int) -> list[int]:
    """Return the indexes of the offsets that are in a range. A range of one offset needs no loop in Python."""
    if until - first == 1:
        return [offsets.index(first)] if first in offsets else []
    return [index for index, offset in enumerate(offsets) if first <= offset < until]

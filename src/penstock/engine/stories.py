"""The stories of messages: what happened to each of late, from the facts themselves.

Facts are kept as they are, by reference, and only so many that they name KEPT messages in all: one entry a command,
whatever the number of its messages. What is older is not known any more.
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

_NAMING = (f.Acked, f.Delayed, f.Delivered, f.Extended, f.Held, f.Removed, f.Returned)  # their messages one by one
_OF_MANY = (f.Published, f.Sought)
_SETTLED = ("acked", "moved", "skipped", "dead-letter", "expired", "retention")


class Happening(NamedTuple):
    """One thing that happened to a message, in the word of its fact."""

    at: int
    kind: str  # published, delivered, acked, moved, ...: a key of the sentences of the admin API
    subscription: str  # empty for the topic itself
    door: str | None = None  # that it was delivered through, where that is still known
    until: int = 0  # deadline of a lease, or when it may be delivered again
    other: str = ""  # where it went, of one that was moved; where it came from, of one that a move published


class Story(NamedTuple):
    """Of consecutive messages."""

    happenings: dict[int, list[Happening]]  # by offset, oldest first
    known_since: int  # what was before is not known


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
        """Some of what was decided never happened: which of the facts that are kept, nobody can tell."""
        self._facts.clear()
        self._weight, self._known_since = 0, self._engine.now()

    def of(self, topic_name: str, first: int, until: int) -> Story:
        """Of the messages with first <= offset < until."""
        with self._engine.lock:
            topic = self._engine.broker.state.topic(topic_name)
            kept, since, telling = list(self._facts), self._known_since, _Telling(self._engine, topic, first, until)
        for fact in kept:
            telling.take(fact)
        return Story(telling.found, since)


class _Telling:
    """The happenings of some messages of a topic, from all facts in their order."""

    def __init__(self, engine: Engine, topic: Topic, first: int, until: int) -> None:
        self._engine = engine
        self._topic = topic
        self._readers = dict(topic.readers)
        self._first, self._until = first, until
        self._moved: set[tuple[int, int]] = set()  # subscription and offset
        self._published: f.Published | None = None  # the last: that of a dead letter comes right before it is removed
        self.found: dict[int, list[Happening]] = {offset: [] for offset in range(first, until)}

    def take(self, fact: Any) -> None:
        if type(fact) is f.Published:
            self._take_published(fact)
            return
        if type(fact) is f.Removed and fact.reason == "dead-letter":
            self._tell_arrived(fact.subscription)
        subscription = self._readers.get(fact.subscription)
        if subscription is None:
            return
        if type(fact) is f.Sought:
            for offset, happenings in self.found.items():
                _tell_sought(happenings, fact, offset, subscription)
            return
        for place in _places(fact.offsets, self._first, self._until):
            offset = fact.offsets[place]
            if type(fact) is f.Acked and (subscription.number, offset) in self._moved:
                self._moved.remove((subscription.number, offset))  # by the move; a later one is another's
            else:
                self.found[offset].append(self._happening(fact, place, subscription.name))

    def _take_published(self, fact: f.Published) -> None:
        self._published = fact
        source = parse_move_producer(fact.producer) if fact.producer else None
        if fact.topic == self._topic.number:
            origin = self._origin(*source) if source else ""
            for offset in range(max(self._first, fact.first), min(self._until, fact.first + fact.total)):
                self.found[offset].append(Happening(fact.at, "published", "", other=origin))
        if source and source[0] == self._topic.identity and self._first <= fact.sequence < self._until:
            self._moved.add((source[1], fact.sequence))
            self._tell_moved(self.found[fact.sequence], fact, self._readers.get(source[1]))

    def _origin(self, identity: str, subscription: int) -> str:
        """What a move took it from: a subscription, or the topic where it was made for the move and is gone."""
        state = self._engine.broker.state
        known: Subscription | Topic | None = state.subscriptions.get(subscription)
        known = known or next((each for each in state.topics.values() if each.identity == identity), None)
        return known.name if known is not None else ""

    def _tell_moved(self, happenings: list[Happening], fact: f.Published, subscription: Subscription | None) -> None:
        name = subscription.name if subscription is not None else ""
        if happenings and happenings[-1][1:3] == ("delivered", name):
            happenings.pop()  # to the move itself
        happenings.append(Happening(fact.at, "moved", name, other=self._destination()))

    def _tell_arrived(self, subscription: int) -> None:
        """What was published just now are dead letters of a subscription."""
        known, fact = self._engine.broker.state.subscriptions.get(subscription), self._published
        if known is None or fact is None or fact.topic != self._topic.number:
            return
        for offset in range(max(self._first, fact.first), min(self._until, fact.first + fact.total)):
            self.found[offset][0] = self.found[offset][0]._replace(other=known.name)

    def _destination(self) -> str:
        """The topic of what was published last."""
        fact = self._published
        topic = self._engine.broker.state.topics.get(fact.topic) if fact is not None else None
        return topic.name if topic is not None else ""

    def _happening(self, fact: Any, place: int, name: str) -> Happening:
        if type(fact) is f.Delivered:
            origin = self._engine.lease_origins.find(fact.subscription, fact.stamp)
            return Happening(fact.at, "delivered", name, origin.door if origin is not None else None, fact.deadline)
        if type(fact) is f.Extended:
            return Happening(fact.at, "extended", name, None, fact.deadline)
        if type(fact) is f.Returned:
            kind = "unseen" if fact.unseen else "returned" if fact.by_holder else "lapsed"
            due = fact.dues[place] if fact.dues else 0
            return Happening(fact.at, kind, name, None, due)
        if type(fact) is f.Removed:
            is_dead_letter = fact.reason == "dead-letter"
            return Happening(fact.at, fact.reason, name, other=self._destination() if is_dead_letter else "")
        if type(fact) is f.Delayed:
            return Happening(fact.at, "delayed", name, None, fact.dues[place])
        return Happening(getattr(fact, "at", 0), "acked" if type(fact) is f.Acked else "held", name)


def _tell_sought(happenings: list[Happening], fact: f.Sought, offset: int, subscription: Subscription) -> None:
    """What a seek, a purge or a snapshot made of a message, where that is another thing than before."""
    name = subscription.name
    before = next((each.kind for each in reversed(happenings) if each.subscription == name), "")
    skipped = offset < fact.cursor or any(first <= offset < until for first, until in fact.skips)
    if not before:  # it waited there, as far as is known: the filter may not take it, or the subscription came later
        changed = skipped and bool(happenings) and not subscription.accepts
        changed = changed and subscription.created_at <= happenings[0].at
    else:
        changed = before not in _SETTLED if skipped else before != "sought"
    if changed:
        happenings.append(Happening(fact.at, "skipped" if skipped else "sought", name))


def _places(offsets: Sequence[int], first: int, until: int) -> list[int]:
    """Where those of a range stand among these; of one offset, without a look at each in Python."""
    if until - first == 1:
        return [offsets.index(first)] if first in offsets else []
    return [place for place, offset in enumerate(offsets) if first <= offset < until]

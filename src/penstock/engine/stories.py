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
        engine = self._engine
        with engine.lock:
            topic = engine.broker.state.topic(topic_name)
            names = {number: each.name for number, each in topic.readers.items()}
            kept, since = list(self._facts), self._known_since
        found: dict[int, list[Happening]] = {offset: [] for offset in range(first, until)}
        moved: set[tuple[int, int]] = set()  # subscription and offset
        for fact in kept:
            if type(fact) is f.Published:
                source = parse_move_producer(fact.producer) if fact.producer else None
                if fact.topic == topic.number:
                    origin = self._origin(*source) if source else ""
                    for offset in range(max(first, fact.first), min(until, fact.first + fact.total)):
                        found[offset].append(Happening(fact.at, "published", "", other=origin))
                if source and source[0] == topic.identity and first <= fact.sequence < until:
                    moved.add((source[1], fact.sequence))
                    self._tell_moved(found[fact.sequence], fact, names.get(source[1], ""))
            elif fact.subscription not in names:
                continue
            elif type(fact) is f.Sought:
                for offset, happenings in found.items():
                    _tell_sought(happenings, fact, offset, names[fact.subscription])
            else:
                for place in _places(fact.offsets, first, until):
                    key = fact.subscription, fact.offsets[place]
                    if type(fact) is f.Acked and key in moved:
                        moved.remove(key)  # by the move; a later one is another's
                    else:
                        found[key[1]].append(self._happening(fact, place, names[key[0]]))
        return Story(found, since)

    def _origin(self, identity: str, subscription: int) -> str:
        """What a move took it from: a subscription, or the topic where it was made for the move and is gone."""
        state = self._engine.broker.state
        known: Subscription | Topic | None = state.subscriptions.get(subscription)
        known = known or next((each for each in state.topics.values() if each.identity == identity), None)
        return known.name if known is not None else ""

    def _tell_moved(self, happenings: list[Happening], fact: f.Published, name: str) -> None:
        if happenings and happenings[-1][1:3] == ("delivered", name):
            happenings.pop()  # to the move itself
        topic = self._engine.broker.state.topics.get(fact.topic)
        happenings.append(Happening(fact.at, "moved", name, other=topic.name if topic is not None else ""))

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
            subscription = self._engine.broker.state.subscriptions.get(fact.subscription)
            letters = subscription.options.dead_letter_topic if subscription is not None else ""
            return Happening(fact.at, fact.reason, name, other=letters if fact.reason == "dead-letter" else "")
        if type(fact) is f.Delayed:
            return Happening(fact.at, "delayed", name, None, fact.dues[place])
        return Happening(getattr(fact, "at", 0), "acked" if type(fact) is f.Acked else "held", name)


def _tell_sought(happenings: list[Happening], fact: f.Sought, offset: int, name: str) -> None:
    """What a seek, a purge or a snapshot made of a message, where that is another thing than before."""
    before = next((each.kind for each in reversed(happenings) if each.subscription == name), "")
    skipped = offset < fact.cursor or any(first <= offset < until for first, until in fact.skips)
    if happenings and (before not in _SETTLED if skipped else before not in ("", "sought")):
        happenings.append(Happening(fact.at, "skipped" if skipped else "sought", name))


def _places(offsets: Sequence[int], first: int, until: int) -> list[int]:
    """Where those of a range stand among these; of one offset, without a look at each in Python."""
    if until - first == 1:
        return [offsets.index(first)] if first in offsets else []
    return [place for place, offset in enumerate(offsets) if first <= offset < until]

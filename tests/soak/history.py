"""What clients of all doors did and saw, and whether a broker may have done so.

Written from the promises, not from the broker:
    lost          a publish was answered, and a subscription of the topic saw the message neither itself nor among its
                  dead letters
    unexpected    somebody was given a message that nobody tried to publish
    came again    an ack of an exactly-once subscription was confirmed, and the message was given out afterwards
    out of order  a key's messages came for the first time in another order than they were published
    repeated      one reading of the log showed a message twice
A client notes an attempt before it publishes, an acceptance after the answer, a delivery as soon as it has it and
before it settles it. So what one client noted after another was answered did happen after it.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Expected(NamedTuple):
    """A subscription and what was promised for it."""

    name: str
    topic: str
    dead_letters: str = ""  # the subscription where its dead letters are read
    exactly_once: bool = False
    ordered: bool = False
    log: bool = False  # a reading of the log itself: nothing comes twice


class History:
    """Filled by many threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.attempted: dict[str, set[str]] = defaultdict(set)
        self.accepted: dict[str, dict[str, None]] = defaultdict(dict)  # in order
        self.deliveries: dict[str, list[str]] = defaultdict(list)
        self.acked_after: dict[str, dict[str, int]] = defaultdict(dict)  # deliveries noted when the ack was confirmed

    def attempt(self, topic: str, *bodies: str) -> None:
        with self._lock:
            self.attempted[topic].update(bodies)

    def accept(self, topic: str, *bodies: str) -> None:
        with self._lock:
            self.accepted[topic].update(dict.fromkeys(bodies))

    def deliver(self, subscription: str, *bodies: str) -> None:
        with self._lock:
            self.deliveries[subscription] += bodies

    def confirm_ack(self, subscription: str, body: str) -> None:
        with self._lock:
            self.acked_after[subscription].setdefault(body, len(self.deliveries[subscription]))

    def count(self) -> dict[str, int]:
        with self._lock:
            return {name: len(bodies) for name, bodies in (*self.accepted.items(), *self.deliveries.items())}


def key_of(body: str) -> str:
    """Bodies of messages with a key are written `publisher|key|number`."""
    return body.split("|")[1] if body.count("|") == 2 else ""


def problems(history: History, expected: list[Expected]) -> list[str]:
    """What should not have happened, at most a few lines of each kind."""
    return [line for each in expected for line in _of_one(history, each)]


def _of_one(history: History, one: Expected) -> Iterator[str]:
    deliveries = history.deliveries[one.name]
    seen = set(deliveries)
    known = seen | (set(history.deliveries[one.dead_letters]) if one.dead_letters else set())
    yield from _some(one, "lost", [body for body in history.accepted[one.topic] if body not in known])
    yield from _some(one, "unexpected", seen - history.attempted[one.topic])
    if one.exactly_once:
        yield from _some(one, "came again", _came_again(deliveries, history.acked_after[one.name]))
    if one.ordered:
        yield from _some(one, "out of order", _out_of_order(deliveries, history.accepted[one.topic]))
    if one.log and len(seen) < len(deliveries):
        yield from _some(one, "repeated", (body for body, times in Counter(deliveries).items() if times > 1))


def _came_again(deliveries: list[str], acked_after: dict[str, int]) -> Iterator[str]:
    for index, body in enumerate(deliveries):
        if index >= acked_after.get(body, len(deliveries)):
            yield body


def _out_of_order(deliveries: list[str], accepted: dict[str, None]) -> Iterator[str]:
    places = {body: place for place, body in enumerate(accepted)}
    furthest: dict[str, int] = {}
    for body in dict.fromkeys(deliveries):
        place = places.get(body, -1)
        if place < furthest.get(key_of(body), -1):
            yield body
        furthest[key_of(body)] = max(place, furthest.get(key_of(body), -1))


def _some(one: Expected, kind: str, bodies: Iterable[str]) -> Iterator[str]:
    found = sorted(bodies)
    if found:
        yield f"{one.name}: {kind}: {len(found)} messages, such as {', '.join(found[:5])}"

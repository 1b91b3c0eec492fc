"""The history of the clients of all doors, and the check of it.

The check is written from the promises, and not from the code of the broker:     lost          a publish was answered,
and the message was neither in a subscription of the topic nor among its                   dead letters     unexpected
a client received a message that no client tried to publish     came again    an ack of an exactly-once subscription was
confirmed, and the message was delivered afterwards     out of order  first deliveries of a key's messages came in
another order than they were published     repeated      one reading of the log showed a message twice A client notes an
attempt before it publishes, an acceptance after the answer, and a delivery before it settles it. So if one client has
its answer before another one makes a note, the events happened in this order.
"""

from __future__ import annotations

import threading
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator
from typing import NamedTuple


class Expected(NamedTuple):
    """A subscription and its promises."""

    name: str
    topic: str
    dead_letters: str = ""  # the subscription that reads its dead letters
    exactly_once: bool = False
    ordered: bool = False
    log: bool = False  # a reading of the log itself, which shows no message twice


class History:
    """A record that many threads fill."""

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
    """Return the key of a body. Bodies of messages with a key have the form `publisher|key|number`."""
    return body.split("|")[1] if body.count("|") == 2 else ""


def problems(history: History, expected: list[Expected]) -> list[str]:
    """Return the broken promises, with at most a few lines for each kind."""
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

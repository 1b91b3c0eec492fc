"""The checker of a queue's promises across a power cut.

The history before the cut is a list of calls with their answers. At most the last call has no answer, and may have
happened or not. After the cut the queue is drained completely. The checker looks for:
    lost             a publish was answered, and the message is neither acked nor in the drain
    unexpected       a message is in the drain that no client tried to publish
    ack_durable      an ack was answered, and the message came back
    lease_exclusive  a lease was answered and runs, and another consumer got the message, or its receipt is refused
    attempts         the attempt of a delivery after the cut does not follow from the answered deliveries before it
    key_order        messages of one key were delivered in another order than they were published
    dead_letter      a message is both in its subscription and among the dead letters
    time             the store continues at a later time than that of the cut, and leases end early
The checker makes one pass over the history, without a search.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock import ManualClock, MessageQueue
from tests.simulation.workload import SUBSCRIPTIONS, Answered, Invoked


class Lease(NamedTuple):
    receipt: str
    deadline: int


class History:
    """The calls and answers before the cut, by subscription and body."""

    def __init__(self, told: list[Invoked | Answered], attempted: dict[bytes, str]) -> None:
        self._keys = attempted
        self.published: list[bytes] = []
        self.acked: set[tuple[str, bytes]] = set()
        self.leases: dict[tuple[str, bytes], Lease] = {}
        self.attempts: dict[tuple[str, bytes], int] = {}
        self.now = told[-1].at if told else 0
        for event in told:
            if isinstance(event, Answered):
                self._note(event)
        self.pending = told[-1] if told and isinstance(told[-1], Invoked) else None

    def _note(self, event: Answered) -> None:
        name = event.subscription
        if event.call == "publish":
            self.published += event.bodies
        elif event.call == "pull":
            if SUBSCRIPTIONS[name][1].ordering and any(attempt > 1 for attempt in event.attempts):
                self._forget_leases(name)  # a returned message brings back the later ones of its key
            for body, receipt, attempt in zip(event.bodies, event.receipts, event.attempts, strict=True):
                self.attempts[name, body] = attempt
                self.leases[name, body] = Lease(receipt, event.deadline)
        elif event.call == "extend":
            for body, receipt in zip(event.bodies, event.receipts, strict=True):
                self.leases[name, body] = Lease(receipt, event.deadline)
        else:
            for body in event.bodies:
                self.leases.pop((name, body), None)
                if event.call == "ack":
                    self.acked.add((name, body))
            if event.call == "nack" and SUBSCRIPTIONS[name][1].ordering:
                self._forget_leases(name)  # returned messages bring back the later ones of their keys

    def _forget_leases(self, name: str) -> None:
        self.leases = {place: lease for place, lease in self.leases.items() if place[0] != name}

    def running(self, name: str) -> dict[bytes, Lease]:
        """Return the leases of a subscription that must outlast the cut, by body."""
        leases = [(body, lease) for (each, body), lease in self.leases.items() if each == name]
        running = {body: lease for body, lease in leases if lease.deadline > self.now}
        # an earlier message whose lease ended brought back the later ones of its key
        if SUBSCRIPTIONS[name][1].ordering:
            running = {body: lease for body, lease in running.items() if not self._may_be_behind(name, body)}
        return running

    def _may_be_behind(self, name: str, body: bytes) -> bool:
        """Return whether an earlier message of its key was delivered and not acked."""
        key, bodies = self._keys[body], list(self._keys)
        earlier = [each for each in bodies[: bodies.index(body)] if key and self._keys[each] == key]
        return any((name, each) in self.attempts and (name, each) not in self.acked for each in earlier)

    def is_open(self, call: str, name: str) -> bool:
        """Return whether the cut interrupted such a call, which may then have happened or not."""
        return self.pending is not None and self.pending.call == call and self.pending.subscription == name

    def may_be_acked(self, name: str, body: bytes) -> bool:
        open_ack = self.is_open("ack", name) and self.pending is not None and body in self.pending.bodies
        return open_ack or (name, body) in self.acked


class Delivered(NamedTuple):
    body: bytes
    attempt: int
    receipt: str


def check(queue: MessageQueue, clock: ManualClock, told: list[Invoked | Answered], attempted: dict[bytes, str]) -> None:
    """Raise AssertionError with the name of the first broken promise. `attempted` is body -> ordering key."""
    history = History(told, attempted)
    assert not told or clock.now() == history.now, "time: the store is ahead of the cut"
    if not all(queue.subscription_exists(name) for name in SUBSCRIPTIONS):
        assert not told, "lost: a subscription is gone"
        return
    drains = {name: _pull(queue, name) for name in SUBSCRIPTIONS}
    for name, got in drains.items():
        _check_leases(history, name, got)
        _ack_at_once(queue, history, name, got)
    for name in ("plain", "ordered", "windowed", "poison", "graves"):  # the dead letters last
        drains[name] += _drain(queue, clock, name)
    for name, got in drains.items():
        _check_deliveries(history, name, got, attempted)
    _check_lost(history, drains)


def _pull(queue: MessageQueue, name: str) -> list[Delivered]:
    got = queue.lease(name, 1_000)
    return [Delivered(each.message.data, each.attempt, each.receipt) for each in got]


def _check_leases(history: History, name: str, got: list[Delivered]) -> None:
    """Check the leases at the time of the cut, before any time has passed."""
    if history.is_open("nack", name) or history.is_open("ack", name):
        return
    running = history.running(name)
    for each in got:
        assert each.body not in running, f"lease_exclusive: {name} gave {each.body[:9]!r} to a second consumer"


def _ack_at_once(queue: MessageQueue, history: History, name: str, got: list[Delivered]) -> None:
    """Ack receipts from before the cut and new ones. Both must be valid before any time has passed."""
    running = [] if history.is_open("nack", name) else list(history.running(name).items())
    stale = queue.ack_many([each.receipt for each in got] + [lease.receipt for _, lease in running]).stale
    for body, lease in running:
        if lease.receipt not in stale:
            history.acked.add((name, body))
        else:
            known = history.may_be_acked(name, body) or history.is_open("extend", name)
            assert known, f"lease_exclusive: the receipt of {body[:9]!r} became invalid with the cut on {name}"


def _drain(queue: MessageQueue, clock: ManualClock, name: str) -> list[Delivered]:
    """Pull and ack until nothing is left."""
    kept: list[Delivered] = []
    for _ in range(100):
        got = _pull(queue, name)
        kept += got
        queue.ack_many([each.receipt for each in got])
        if not got and not queue.backlog(name).messages:
            return kept
        clock.advance(0 if got else 30)
    raise AssertionError(f"lost: {name} cannot be drained, {queue.backlog(name)}")


def _check_deliveries(history: History, name: str, got: list[Delivered], attempted: dict[bytes, str]) -> None:
    before = dict(history.attempts)
    for each in got:
        assert each.body in attempted, f"unexpected: {each.body[:9]!r} on {name}"
        told = before.get((name, each.body), 0)
        most = told + 1 + history.is_open("pull", name)
        assert told < each.attempt <= most, (
            f"attempts: {each.body[:9]!r} on {name} has attempt {each.attempt}, not {told + 1}"
        )
        before[name, each.body] = each.attempt
    _check_order(name, got, attempted)


def _check_order(name: str, got: list[Delivered], attempted: dict[bytes, str]) -> None:
    if not SUBSCRIPTIONS[name][1].ordering:
        return
    places = {body: place for place, body in enumerate(attempted)}
    last: dict[str, int] = {}
    for each in got:
        key = attempted[each.body]
        # With a window, an earlier message may come back after a later one was acked. First deliveries are still in
        # order.
        if key and (each.attempt == 1 or SUBSCRIPTIONS[name][1].ordering_window == 1):
            assert places[each.body] >= last.get(key, -1), f"key_order: {each.body[:9]!r} too late on {name}"
            last[key] = places[each.body]


def _check_lost(history: History, drains: dict[str, list[Delivered]]) -> None:
    bodies = {name: [each.body for each in got] for name, got in drains.items()}
    for name, drained in bodies.items():
        for body in drained:
            answered_before_drain = (name, body) in history.acked
            assert not answered_before_drain, f"ack_durable: {body[:9]!r} came back on {name}"
    dead = set(bodies["graves"]) | {body for name, body in history.acked if name == "graves"}
    both = dead & set(bodies["poison"])
    assert not both, f"dead_letter: {sorted(both)[0][:9]!r} is in both places"
    for name in ("plain", "ordered", "windowed", "poison"):
        found = set(bodies[name]) | (dead if name == "poison" else set())
        for body in history.published:
            graves = name == "poison" and history.may_be_acked("graves", body)
            assert body in found or graves or history.may_be_acked(name, body), f"lost: {body[:9]!r} on {name}"

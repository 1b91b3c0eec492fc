"""A seeded workload on a queue with every kind of call, in an order that the seed decides.

The same seed and the same answers give the same calls. Each call is reported before it is made (`Invoked`) and after
its answer (`Answered`), so that a listener can judge a cut at any point.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Any, NamedTuple

from penstock import Draft, ManualClock, MessageQueue, PenstockError, SubscriptionOptions
from tests.lenient import LenientQueue

KEYS = ("", "", "k", "l")
SUBSCRIPTIONS: dict[str, tuple[str, SubscriptionOptions]] = {
    "plain": ("orders", SubscriptionOptions(lease_seconds=10)),
    "ordered": ("orders", SubscriptionOptions(lease_seconds=5, ordering=True, retry_minimum_seconds=1)),
    "windowed": ("orders", SubscriptionOptions(lease_seconds=5, ordering=True, ordering_window=3)),
    "poison": ("orders", SubscriptionOptions(lease_seconds=2, dead_letter_topic="dead", max_delivery_attempts=2)),
    "graves": ("dead", SubscriptionOptions()),
}
WILD: dict[str, tuple[str, SubscriptionOptions]] = {
    "hurried": ("orders", SubscriptionOptions(lease_seconds=2, retry_minimum_seconds=1)),
    "choosy": ("orders", SubscriptionOptions(filter="attributes:a", flow_max_messages=3, flow_max_bytes=200)),
}


class Invoked(NamedTuple):
    """A report before a call: from here on the call may have happened."""

    at: int
    call: str
    subscription: str
    bodies: list[bytes]


class Answered(NamedTuple):
    """A report after a call: from here on the call must have happened."""

    at: int
    call: str
    subscription: str
    bodies: list[bytes]
    receipts: list[str]
    attempts: list[int]
    deadline: int  # of the leases in the answer


class Held(NamedTuple):
    receipt: str
    body: bytes
    subscription: str


class Workload:
    def __init__(self, clock: ManualClock, random: Random, tell: Callable[[Any], None], *, wild: bool = False) -> None:
        self.clock, self.random, self.tell = clock, random, tell
        self.names = [*SUBSCRIPTIONS, *(WILD if wild else ())]
        self.held: list[Held] = []
        self.published: list[tuple[bytes, str]] = []  # attempted publishes: (body, ordering key), in order
        self._calls: list[Callable[[MessageQueue], None]] = [
            *[self.publish] * 4, *[self.pull] * 5, *[self.ack] * 3, self.nack, self.extend, self.wait,
        ]  # fmt: skip
        self._calls += [self.replace, self.move, self.peek, self.recreate] if wild else []
        self._wild = wild
        self._bodies = 0  # number of bodies so far; no two bodies are the same

    def set_up(self, queue: MessageQueue) -> None:
        for topic in ("orders", "dead"):
            if not queue.topic_exists(topic):
                queue.register_topic(topic)
        for name, (topic, options) in (SUBSCRIPTIONS | WILD).items():
            if name in self.names and not queue.subscription_exists(name):
                queue.register_subscription(name, topic, options)

    def step(self, queue: MessageQueue) -> None:
        self.random.choice(self._calls)(queue)

    # ------------------------------------------------------------------ calls of normal programs

    def publish(self, queue: MessageQueue) -> None:
        drafts = [self._draft() for _ in range(self.random.randrange(1, 5))]
        bodies = [draft.data for draft in drafts]
        self._invoke("publish", "", bodies)
        self.published += [(draft.data, draft.ordering_key) for draft in drafts]
        ids = queue.publish("orders", drafts)
        self._answer("publish", "", bodies, ids, [], 0)

    def _draft(self) -> Draft:
        self._bodies += 1
        body = b"%d:" % self._bodies + self.random.randbytes(self.random.choice((0, 4, 40, 900)))
        if not self._wild:
            return Draft(body, {}, self.random.choice(KEYS))
        attributes = self.random.choice(({}, {"a": "1"}, {"b": "é"}))
        delay, ttl = self.random.choice((0, 0, 0, 2)), self.random.choice((0, 0, 0, 5))
        return Draft(body, attributes, self.random.choice(KEYS), delay, ttl)

    def pull(self, queue: MessageQueue) -> None:
        name = self.random.choice(self.names)
        self._invoke("pull", name, [])
        got = queue.lease(name, self.random.choice((1, 2, 5, 20)))
        self.held += [Held(each.receipt, each.message.data, name) for each in got]
        bodies, receipts = [each.message.data for each in got], [each.receipt for each in got]
        deadline = self.clock.now() + int((SUBSCRIPTIONS | WILD)[name][1].lease_seconds * 10**9)
        self._answer("pull", name, bodies, receipts, [each.attempt for each in got], deadline)

    def ack(self, queue: MessageQueue) -> None:
        self._settle("ack", self._caller(queue).ack_many, drop=True)

    def nack(self, queue: MessageQueue) -> None:
        self._settle("nack", self._caller(queue).nack_many, drop=True)

    def extend(self, queue: MessageQueue) -> None:
        if self.held:
            chosen, caller = self.random.choice(self.held), self._caller(queue)
            self._invoke("extend", chosen.subscription, [chosen.body])
            good = _is_taken(lambda: caller.modify_ack_deadline(chosen.receipt, 20))
            bodies, receipts = ([chosen.body], [chosen.receipt]) if good else ([], [])
            self._answer("extend", chosen.subscription, bodies, receipts, [], self.clock.now() + 20 * 10**9)

    def _caller(self, queue: MessageQueue) -> MessageQueue | LenientQueue:
        """Return the queue as a program has it, or as a vendor's client whose receipts are not strict."""
        return self.random.choice((queue, LenientQueue(queue)))

    def wait(self, queue: MessageQueue) -> None:
        self.clock.advance(self.random.choice((0.5, 1, 1, 3, 10)))
        self._answer("wait", "", [], [], [], 0)  # the next call may be a close, which records the time

    def _settle(self, call: str, settle: Callable[[list[str]], Any], *, drop: bool) -> None:
        if not self.held:
            return
        name = self.random.choice(self.held).subscription
        chosen = [each for each in self.held if each.subscription == name and self.random.random() < 0.6]
        self._invoke(call, name, [each.body for each in chosen])
        settled = settle([each.receipt for each in chosen])
        good = [each for each in chosen if each.receipt not in settled.stale]
        self.held = [each for each in self.held if each not in chosen]
        self._answer(call, name, [each.body for each in good], [each.receipt for each in good], [], 0)

    # ------------------------------------------------------------------ unusual calls

    def replace(self, queue: MessageQueue) -> None:
        if self.held:
            chosen = self.held.pop(self.random.randrange(len(self.held)))
            _is_taken(lambda: self._caller(queue).replace_body(chosen.receipt, b"new", 5))

    def move(self, queue: MessageQueue) -> None:
        name, number = self.random.choice(self.names), self.random.randrange(4)
        if number == 0:
            queue.seek_to_offset(name, self.random.randrange(len(self.published) + 1))
        elif number == 1:
            queue.seek_to_time(name, self.clock.now() - self.random.randrange(20) * 10**9)
        elif number == 2:
            _is_taken(lambda: queue.create_snapshot(f"of {name}", name))
        else:
            _is_taken(lambda: queue.seek_to_snapshot(name, f"of {name}"))

    def peek(self, queue: MessageQueue) -> None:
        name = self.random.choice(self.names)
        self._answer("peek", name, [message.data for message in queue.peek(name, 5)], [], [], 0)

    def recreate(self, queue: MessageQueue) -> None:
        if self.random.random() < 0.2:
            queue.unregister_subscription(self.random.choice(self.names))
        if self.random.random() < 0.05:
            queue.unregister_topic("orders")
            for name in self.names:
                _is_taken(lambda name=name: queue.unregister_subscription(name))  # type: ignore[misc]
        self.set_up(queue)

    # ------------------------------------------------------------------ reports

    def _invoke(self, call: str, subscription: str, bodies: list[bytes]) -> None:
        self.tell(Invoked(self.clock.now(), call, subscription, bodies))

    def _answer(
        self, call: str, name: str, bodies: list[bytes], receipts: list[str], attempts: list[int], deadline: int
    ) -> None:
        self.tell(Answered(self.clock.now(), call, name, bodies, receipts, attempts, deadline))


def _is_taken(command: Callable[[], object]) -> bool:
    try:
        command()
    except PenstockError:
        return False
    return True

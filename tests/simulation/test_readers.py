"""Several readers of the same backlogs at once, stopped wherever one of them waits for the disk.

Calls of an AsyncMessageQueue are started, and continue in the order of the schedule. A read may look early and answer
late, and between the two other calls publish, pull, settle and forget. Each message has one holder at a time, none is
lost or redelivered after its ack, with any sizes of the caches, and no call fails.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable
from typing import Any

from hypothesis import HealthCheck, Phase, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from penstock import Draft, Limits, ManualClock, SubscriptionOptions
from penstock.broker.consuming import Delivery, Settled
from penstock.broker.log import Sizes
from penstock.broker.model import SECOND
from penstock.broker.publishing import Appended
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from tests.simulation.schedule import Scheduled
from tests.simulation.seeds import seeded
from tests.simulation.sizes import LOG_SIZES, check_cache

LEASE_SECONDS = 60
ATTEMPTS_MAX = 2
KEPT_SECONDS = 30  # in `short` a message may expire while it is leased
SUBSCRIPTIONS = {
    "plain": SubscriptionOptions(lease_seconds=LEASE_SECONDS),
    "ordered": SubscriptionOptions(lease_seconds=LEASE_SECONDS, ordering=True, ordering_window=3),
    "filtered": SubscriptionOptions(lease_seconds=LEASE_SECONDS, filter='attributes.a = "1"'),
    "mortal": SubscriptionOptions(
        lease_seconds=LEASE_SECONDS, dead_letter_topic="dead", max_delivery_attempts=ATTEMPTS_MAX
    ),
    "short": SubscriptionOptions(
        lease_seconds=LEASE_SECONDS,
        retention_seconds=KEPT_SECONDS,
        dead_letter_topic="nowhere",  # never created
        max_delivery_attempts=1,
    ),
}
NAMES = st.sampled_from(["plain", "plain", "plain", "short", "short", *SUBSCRIPTIONS])


class History:
    """The deliveries and acks of one subscription, as its consumers see them."""

    def __init__(self, options: SubscriptionOptions) -> None:
        self.mortal = options.dead_letter_topic == "dead"
        self.free: dict[int, bytes] = {}  # to be delivered, by offset
        self.held: dict[int, Delivery] = {}
        self.acked: set[int] = set()
        self.dead: list[bytes] = []  # it is unknown in which order these expired

    def deliver(self, deliveries: list[Delivery]) -> None:
        for delivery in deliveries:
            offset = delivery.message.offset
            assert offset not in self.held, f"{offset} is delivered while it is leased"
            assert offset not in self.acked, f"{offset} is redelivered after its ack"
            assert delivery.message.data == self.free.pop(offset)
            self.held[offset] = delivery

    def take(self, count: int) -> list[Delivery]:
        """Take deliveries, to settle them next."""
        return [self.held.pop(offset) for offset in list(self.held)[:count]]

    def ack(self, deliveries: list[Delivery]) -> None:
        self.acked.update(each.message.offset for each in deliveries)

    def fail(self, deliveries: list[Delivery]) -> None:
        for each in deliveries:
            if self.mortal and each.attempt >= ATTEMPTS_MAX:
                self.dead.append(each.message.data)
            else:
                self.free[each.message.offset] = each.message.data


class Readers(RuleBasedStateMachine):
    @initialize(sizes=LOG_SIZES, retention=st.sampled_from([0, 86400]))
    def start(self, sizes: Sizes, retention: int) -> None:
        self.clock = ManualClock()
        self.harness = Scheduled(clock=self.clock, sizes=sizes, limits=Limits(retention_seconds=retention))
        self.histories = {name: History(options) for name, options in SUBSCRIPTIONS.items()}
        self.published = 0
        self.published_at: list[int] = []  # by offset
        for topic in ("topic", "dead"):
            self.harness.do(self.queue.create_topic(topic))
        self.harness.do(self.queue.create_subscription("graves", "dead"))
        for name, options in SUBSCRIPTIONS.items():
            self.harness.do(self.queue.create_subscription(name, "topic", options))

    @property
    def queue(self) -> AsyncMessageQueue:
        return self.harness.queue

    def is_quiet(self) -> bool:
        return not self.harness.choices

    def teardown(self) -> None:
        if not hasattr(self, "harness"):
            return
        try:
            self.harness.finish()
            short = self.histories.pop("short")
            for name, history in self.histories.items():
                self._drain(name, history)
            self._outlive(short)
            dead = [data for history in self.histories.values() for data in history.dead]
            assert sorted(dead) == sorted(m.data for m in self.harness.do(self.queue.read("dead", 0, 10**6)))
        finally:
            self.harness.close()

    def _outlive(self, history: History) -> None:
        """Check that young messages exist, acked or leased or pending, and that later all are dropped at the next
        look.
        """
        now, left = self.clock.now(), history.free.keys() | history.held.keys()
        young = [offset for offset in left if now - self.published_at[offset] <= KEPT_SECONDS * SECOND]
        assert lookups.backlog(self.queue.engine, "short").messages >= len(young), f"not all of {young} exist"
        self.clock.advance(KEPT_SECONDS + 2)
        self.harness.do(self.queue.commit())  # the look that starts by itself has ended
        assert self.harness.do(self.queue.pull("short", 10)) == []
        assert lookups.backlog(self.queue.engine, "short").messages == 0

    def _drain(self, name: str, history: History) -> None:
        """Check that the remaining messages come once, as soon as the earlier ones of their keys are acked."""
        history.ack(acked := history.take(10**6))
        self.harness.do(self.queue.ack([each.receipt for each in acked]))
        while deliveries := self.harness.do(self.queue.pull(name, 5)):
            history.deliver(deliveries)
            history.ack(acked := history.take(10**6))
            self.harness.do(self.queue.ack([each.receipt for each in acked]))
        assert not history.free, f"{name} never got {sorted(history.free)}"

    # ------------------------------------------------------------------ starting calls

    @rule(count=st.integers(1, 8), attribute=st.sampled_from(["1", "1", "2"]), key=st.sampled_from(["", "k", "l"]))
    def publish(self, count: int, attribute: str, key: str) -> None:
        drafts = [Draft(b"%d" % (self.published + place), {"a": attribute}, key) for place in range(count)]
        self.published += count
        self.published_at += [self.clock.now()] * count
        for name, history in self.histories.items():
            if name != "filtered" or attribute == "1":
                tail = lookups.topic(self.queue.engine, "topic").tail
                history.free.update({tail + place: draft.data for place, draft in enumerate(drafts)})
        self.harness.begin(self.queue.publish("topic", drafts), self._published)

    def _published(self, appended: Appended) -> None:
        assert appended.total

    @rule(name=NAMES, limit=st.sampled_from([1, 2, 3, 10]))
    def pull(self, name: str, limit: int) -> None:
        self.harness.begin(self.queue.pull(name, limit), self.histories[name].deliver)

    @rule(name=NAMES, limit=st.sampled_from([1, 2, 3, 10]))
    def pull_as_streams_do(self, name: str, limit: int) -> None:
        self.harness.begin(self._stream(name, limit), self.histories[name].deliver)

    async def _stream(self, name: str, limit: int) -> list[Delivery]:
        leased = await self.queue.lease(name, limit)
        await leased.durable
        return leased.deliveries

    @rule(name=NAMES, limit=st.sampled_from([1, 3, 10]))
    def peek(self, name: str, limit: int) -> None:
        self.harness.begin(self.queue.peek(name, limit))

    @rule(name=NAMES, count=st.sampled_from([1, 2, 10]), ack=st.sampled_from([True, True, False]))
    def settle(self, name: str, count: int, ack: bool) -> None:
        history = self.histories[name]
        taken = history.take(count)
        ack = ack or name == "ordered"  # a nack would end the leases of later messages of its key as well
        receipts = [each.receipt for each in taken]
        (history.ack if ack else history.fail)(taken)
        then = self._settled if name != "short" else self._settled_in_time_or_not
        self.harness.begin((self.queue.ack if ack else self.queue.nack)(receipts), then)

    def _settled(self, settled: Settled) -> None:
        assert not settled.stale

    def _settled_in_time_or_not(self, settled: Settled) -> None:
        assert not settled.malformed

    # ------------------------------------------------------------------ continuing calls

    @precondition(lambda self: not self.is_quiet())
    @rule(choice=st.integers(0, 100))
    def go_on(self, choice: int) -> None:
        self.harness.go_on(choice)

    @precondition(lambda self: not self.is_quiet())
    @rule(choices=st.lists(st.integers(0, 100), min_size=1, max_size=5))
    def go_on_often(self, choices: list[int]) -> None:
        for choice in choices:
            if self.harness.choices:
                self.harness.go_on(choice)

    @precondition(lambda self: self.is_quiet())
    @rule(seconds=st.sampled_from([2, LEASE_SECONDS + 1, LEASE_SECONDS + 1]), alone=st.booleans())
    def advance(self, seconds: int, alone: bool) -> None:
        """Let housekeeping start, alone or with a caller that commits the decisions so far. Leases end."""
        self.clock.advance(seconds)
        if seconds > LEASE_SECONDS:
            for history in self.histories.values():
                history.fail(history.take(10**6))
        self.harness.begin(asyncio.sleep(0) if alone else self.queue.commit())

    @precondition(lambda self: self.is_quiet())
    @rule(back=st.integers(0, 20))
    def seek(self, back: int) -> None:
        topic, history = lookups.topic(self.queue.engine, "topic"), self.histories["plain"]
        offset = max(topic.head, topic.tail - back)
        kept = self.harness.do(self.queue.read("topic", offset, topic.tail))
        self.harness.do(self.queue.seek_to_offset("plain", offset))
        history.held.clear()
        history.free = {message.offset: message.data for message in kept}
        history.acked = set(range(offset))

    @invariant()
    def the_cache_is_whole(self) -> None:
        if hasattr(self, "harness"):
            check_cache(self.queue.engine.broker.cache)
            assert not self.queue.engine.internal_errors


def test_readers_do_not_disturb_each_other(rounds: Callable[[int, int], int]) -> None:
    """004 BR-006 and law 5: several readers read a backlog at once, with caches of a few messages."""
    number = int(os.environ.get("PENSTOCK_MODEL_SEED", rounds(0, int.from_bytes(os.urandom(4)))))
    chosen: dict[str, Any] = {"phases": [Phase.generate, Phase.shrink], "suppress_health_check": list(HealthCheck)}
    run_state_machine_as_test(
        seeded(Readers, number),
        settings=settings(
            max_examples=rounds(150, 20_000),
            stateful_step_count=60,
            deadline=None,
            database=None,
            report_multiple_bugs=False,
            print_blob=True,
            **chosen,
        ),
    )

"""The broker and a plain model of it give the same answers to any calls, in memory and on disk.

A failing run prints the shortest list of steps that leads to it, and the command that repeats it.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest
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

from penstock import Draft, Limits, ManualClock, MessageQueue, Once, PenstockError, SubscriptionOptions, TopicOptions
from penstock.broker.consuming import Delivery
from penstock.broker.log import Sizes
from penstock.broker.state import State
from penstock.engine import commands
from penstock.engine.commands import provide_queue
from penstock.journal import codec
from tests.conftest import NIGHTLY
from tests.lenient import LenientQueue
from tests.simulation.model import Model
from tests.simulation.records import FILTERS, Copy, Message, RefusedError
from tests.simulation.seeds import seeded
from tests.simulation.sizes import LOG_SIZES, check_cache
from tests.simulation.stores import MemoryStore, SqliteStore

TOPICS = st.sampled_from(["t1", "t1", "t1", "t1", "dead", "t2"])
SUBSCRIPTIONS = st.sampled_from(["s1", "s1", "s1", "s2", "s2", "graves", "s3"])
SNAPSHOTS = st.sampled_from(["n1", "n2"])
SIZES = st.sampled_from([1, 1, 2, 3, 10, 100])
PLACES = st.sampled_from([0, 0, 0, 1, 1, 2, 3, 4, 6, 10, 30])  # number of later receipts; mostly a valid one
SECONDS = st.sampled_from([0.25, 0.5, 1, 1, 2, 3, 5, 10, 60])
DRAFTS = st.builds(
    Draft,
    st.sampled_from([b"", b"x", b"hello", b"y" * 300]),
    st.sampled_from([*[{}, {"a": "1"}, {"a": "2", "ü": "é"}] * 5, {"": "wrong"}]),
    st.sampled_from(["k", "", "k", "", "l"]),
    st.sampled_from([0, 0, 0, 0, 1, 7]),
    st.sampled_from([0, 0, 0, 0, 2, 15]),
)
OPTIONS = st.builds(
    SubscriptionOptions,
    lease_seconds=st.sampled_from([1, 5, 10]),
    exactly_once=st.sampled_from([False, False, True]),
    ordering=st.booleans(),
    ordering_window=st.sampled_from([1, 2, 3]),
    filter=st.sampled_from(["", "", "", *FILTERS]),
    retry_minimum_seconds=st.sampled_from([0, 0, 2]),
    retry_maximum_seconds=st.sampled_from([5, 60]),
    dead_letter_topic=st.sampled_from(["", "", "dead", "nowhere"]),  # the last one is never created
    max_delivery_attempts=st.sampled_from([1, 2, 3]),
    flow_max_messages=st.sampled_from([0, 0, 0, 2]),
    flow_max_bytes=st.sampled_from([0, 0, 0, 100]),
    retain_acked=st.sampled_from([False, False, True]),
    retention_seconds=st.sampled_from([7 * 86400, 7 * 86400, 7 * 86400, 4, 12]),
)


class Machine(RuleBasedStateMachine):
    store_type: type[MemoryStore] | type[SqliteStore] = MemoryStore
    given: Mapping[str, Any] = {}  # options of every subscription, in addition to drawn ones

    @initialize(
        sizes=LOG_SIZES,
        cap=st.sampled_from([10_000, 10_000, 10_000, 10_000, 4]),
        options=OPTIONS,
        other=OPTIONS,
        retained=st.sampled_from([False, False, True]),
    )
    def start(
        self, sizes: Sizes, cap: int, options: SubscriptionOptions, other: SubscriptionOptions, retained: bool
    ) -> None:
        self.clock = ManualClock()
        self.capped = cap < 10_000
        self.store = self.store_type(clock=self.clock, sizes=sizes, limits=Limits(queue_messages_max=cap))
        self.model = Model(cap)
        self.model.now = self.clock.now()
        self.queue = self.store.open()
        self.steps = 0
        self.receipts: list[str] = []
        self.ids: dict[str, Message] = {}
        self.create_topic("t1", retained)
        self.create_topic("dead")
        self.create_subscription("s1", "t1", options)
        self.create_subscription("s2", "t1", other)
        self.create_subscription("graves", "dead", SubscriptionOptions())

    # ------------------------------------------------------------------ running a step

    def both(self, real: Callable[[MessageQueue], Any], model: Callable[[Model], Any]) -> tuple[Any, Any] | None:
        """Do the same in the broker and in the model.

        Return both answers, or None if both refused with the same code.
        """
        code = refused = 0
        answer = expected = None
        self.store.questions = 0
        self.steps += 1
        looks = self._looks()
        self.model.cursors = {each.name: each.cursor for each in self.queue.engine.broker.state.subscriptions.values()}
        try:
            answer = real(self.queue)
        except PenstockError as error:
            code = error.code
            # the effects of time were not refused; a crash must not undo them
            self.queue._wait(self.queue.engine.submit())
        self.model.fronts = self._fronts()
        self.model.heads = {topic.name: topic.head for topic in self.queue.get_all_topics()}
        self.model.tick({name for name, at in self._looks().items() if at > looks.get(name, 0)})
        try:
            expected = model(self.model)
        except RefusedError as error:
            refused = error.code
        assert code == refused, f"the broker answers {code}, the model {refused}"
        return None if code else (answer, expected)

    def _looks(self) -> dict[str, int]:
        """Return when the broker next looks at the age of a topic's messages. Each look moves this time."""
        return {topic.name: topic.trim_at for topic in self.queue.engine.broker.state.topics.values()}

    def _fronts(self) -> dict[str, int]:
        """Return how far the filter of each subscription was compared with the log.

        Without a filter, the end of the log.
        """
        state = self.queue.engine.broker.state
        tails = {each.name: each.tail for each in state.topics.values()}
        return {
            each.name: each.front if each.options.filter else tails.get(each.topic_name, 0)
            for each in state.subscriptions.values()
        }

    def is_rare(self) -> bool:
        """Allow steps that end most of the activity only rarely, so that a history has time to become interesting."""
        return self.steps % 8 == 7

    def some(self, places: list[int]) -> list[str]:
        return [self.receipts[-1 - place % len(self.receipts)] for place in places]

    def teardown(self) -> None:
        if hasattr(self, "queue"):
            self.queue.close()
            if isinstance(self.store, MemoryStore):
                check_replay(self.store, self.queue)
            self.store.remove()

    # ------------------------------------------------------------------ names

    @precondition(lambda self: self.is_rare())
    @rule(action=st.integers(0, 6), name=SUBSCRIPTIONS, topic=TOPICS, options=OPTIONS)
    def change_names(self, action: int, name: str, topic: str, options: SubscriptionOptions) -> None:
        if action == 0:
            self.create_topic(topic)
        elif action == 1:
            self.both(lambda queue: queue.unregister_topic(topic), lambda model: model.delete_topic(topic))
        elif action == 2:
            self.both(lambda queue: queue.unregister_subscription(name), lambda model: model.delete_subscription(name))
        elif action == 3:
            self.both(lambda queue: queue.detach_subscription(name), lambda model: model.detach(name))
        elif action == 4:
            self.provide_queue(name, topic, options)
        else:
            self.create_subscription(name, topic, options)

    def create_topic(self, name: str, retained: bool = False) -> None:
        options = TopicOptions(retention_seconds=86400 if retained else 0)
        self.both(lambda queue: queue.register_topic(name, options), lambda model: model.create_topic(name, retained))

    def create_subscription(self, name: str, topic: str, options: SubscriptionOptions) -> None:
        options = self._allowed(options)
        self.both(
            lambda queue: queue.register_subscription(name, topic, options),
            lambda model: model.create_subscription(name, topic, options),
        )

    def provide_queue(self, name: str, topic: str, options: SubscriptionOptions) -> None:
        """A message of a queue does not expire by retention, and a queue may have more messages than a cap allows."""
        options = replace(self._allowed(options), retention_seconds=0)
        made = self.both(
            lambda queue: queue._run(lambda broker, now: provide_queue(broker, now, topic, name, options)),
            lambda model: model.provide_queue(name, topic, options),
        )
        assert made is None or made[0] == made[1]

    def _allowed(self, options: SubscriptionOptions) -> SubscriptionOptions:
        options = replace(options, **self.given)
        if self.capped:  # the count for the cap must be certain
            options = SubscriptionOptions(
                lease_seconds=options.lease_seconds,
                ordering=options.ordering,
                retention_seconds=options.retention_seconds,
                filter=options.filter,
            )
        return options

    # ------------------------------------------------------------------ messages

    @rule(name=TOPICS, drafts=st.lists(DRAFTS, max_size=6), once=st.sampled_from([None] * 6 + [("p", 1), ("p", 2)]))
    def publish(self, name: str, drafts: list[Draft], once: tuple[str, int] | None) -> None:
        if self.capped:
            drafts = [draft._replace(ttl_seconds=0) for draft in drafts]
        key = Once(once[0], 0, once[1]) if once else None
        answers = self.both(
            lambda queue: queue.publish(name, drafts, key),
            lambda model: model.publish(name, [tuple(draft) for draft in drafts], once),  # type: ignore[misc]
        )
        if answers:
            ids, messages = answers
            assert len(ids) == len(messages)
            for each, message in zip(ids, messages, strict=True):
                self._name(each, message)

    def _name(self, each: str, message: Message) -> None:
        """An id names the same message forever."""
        assert self.ids.setdefault(each, message) is message
        assert message.id in ("", each)
        message.id = each

    @rule(name=SUBSCRIPTIONS, limit=SIZES)
    def pull_often(self, name: str, limit: int) -> None:
        self.pull(name, limit, None)

    @rule(name=SUBSCRIPTIONS, limit=SIZES, seconds=st.sampled_from([None, None, None, 3, float("inf")]))
    def pull(self, name: str, limit: int, seconds: float | None) -> None:
        answers = self.both(
            lambda queue: queue.lease(name, limit, lease_seconds=seconds),
            lambda model: model.pull(name, limit, seconds),
        )
        if answers:
            self._compare(*answers)

    @rule(name=SUBSCRIPTIONS, offsets=st.lists(st.integers(0, 20), min_size=1, max_size=4))
    def lease_at(self, name: str, offsets: list[int]) -> None:
        answers = self.both(
            lambda queue: queue._drive(lambda broker: commands.lease_at(broker, queue.engine.now, name, offsets)),
            lambda model: model.lease_at(name, offsets),
        )
        if answers:
            self._compare(*answers)

    def _compare(self, deliveries: list[Delivery], copies: list[Copy]) -> None:
        assert [_shown(each) for each in deliveries] == [_expected(copy) for copy in copies]
        for delivery, copy in zip(deliveries, copies, strict=True):
            self._name(delivery.id, copy.message)
            assert delivery.receipt not in self.receipts, "a receipt was given twice"
            self.receipts.append(delivery.receipt)
            copy.receipt = delivery.receipt

    @rule(name=SUBSCRIPTIONS, limit=SIZES)
    def peek(self, name: str, limit: int) -> None:
        answers = self.both(lambda queue: queue.peek(name, limit), lambda model: model.peek(name, limit))
        if answers:
            seen = [(each.offset, each.data) for each in answers[0]]
            expected = [(copy.message.offset, copy.data) for copy in answers[1]]
            if self._has_dead(name) and self.model.subscriptions[name].options.ordering_window > 1:
                # A message behind a dead one in the window of a key is visible only after those before it are
                # delivered.
                assert set(seen) <= {(c.message.offset, c.data) for c in self.model.peek(name, 1000)}
                assert seen[:1] == expected[:1]
            else:
                assert seen == expected

    @precondition(lambda self: self.receipts)
    @rule(places=st.lists(PLACES, min_size=1, max_size=5), strict=st.booleans())
    def ack(self, places: list[int], strict: bool) -> None:
        chosen = self.some(places)
        settled, bad = self.both(  # type: ignore[misc]
            lambda queue: LenientQueue(queue).ack_many(chosen, strict=strict), lambda model: model.ack(chosen, strict)
        )
        assert sorted(settled.stale) == sorted(bad)

    @precondition(lambda self: self.receipts)
    @rule(
        places=st.lists(PLACES, min_size=1, max_size=5),
        delay=st.sampled_from([None, None, None, 0, 4]),
        strict=st.booleans(),
    )
    def nack(self, places: list[int], delay: float | None, strict: bool) -> None:
        chosen = self.some(places)
        settled, bad = self.both(  # type: ignore[misc]
            lambda queue: LenientQueue(queue).nack_many(chosen, delay, strict=strict),
            lambda model: model.nack(chosen, delay, strict),
        )
        assert sorted(settled.stale) == sorted(bad)

    @rule(name=SUBSCRIPTIONS, window=SIZES, taken=st.integers(0, 3))
    def come_and_go(self, name: str, window: int, taken: int) -> None:
        """A consumer opens a window, fails at a few messages and leaves the others unseen."""
        before = len(self.receipts)
        self.pull(name, window, float("inf"))
        seen, unseen = self.receipts[before:][:taken], self.receipts[before:][taken:]
        self.both(lambda queue: queue.nack_many(seen), lambda model: model.nack(seen))
        self.put_back(unseen)

    @precondition(lambda self: self.receipts)
    @rule(places=st.lists(PLACES, min_size=1, max_size=5))
    def put_some_back(self, places: list[int]) -> None:
        self.put_back(self.some(places))

    def put_back(self, chosen: list[str]) -> None:
        settled, bad = self.both(  # type: ignore[misc]
            lambda queue: queue.nack_many(chosen, unseen=True), lambda model: model.put_back(chosen)
        )
        assert sorted(settled.stale) == sorted(bad)

    @precondition(lambda self: self.receipts)
    @rule(place=PLACES, seconds=st.sampled_from([0, 1, 5, 30]), strict=st.booleans())
    def extend(self, place: int, seconds: float, strict: bool) -> None:
        (chosen,) = self.some([place])

        def expected(model: Model) -> None:
            if model.extend([chosen], seconds, strict):
                raise RefusedError(3)

        self.both(lambda queue: LenientQueue(queue).modify_ack_deadline(chosen, seconds, strict=strict), expected)

    @precondition(lambda self: self.receipts)
    @rule(place=PLACES, data=st.sampled_from([b"", b"new", b"z" * 50]), strict=st.booleans())
    def replace_body(self, place: int, data: bytes, strict: bool) -> None:
        (chosen,) = self.some([place])
        answers = self.both(
            lambda queue: LenientQueue(queue).replace_body(chosen, data, 5, strict=strict),
            lambda model: model.replace(chosen, data, 5, strict),
        )
        if answers:
            receipt, copy = answers
            assert receipt not in self.receipts
            self.receipts.append(receipt)
            copy.receipt = receipt

    # ------------------------------------------------------------------ seeks

    @precondition(lambda self: self.steps % 3 == 2)
    @rule(
        action=st.sampled_from([0, 0, 1, 1, 2, 3, 4, 5]),
        name=SUBSCRIPTIONS,
        snapshot=SNAPSHOTS,
        back=st.integers(0, 12),
    )
    def change_place(self, action: int, name: str, snapshot: str, back: int) -> None:
        at, number = self.clock.now() - back * 10**9, max(self._tail(name) - back, 0)
        if action == 2 and self._has_dead(name):
            return  # a snapshot holds them if the subscription has reached them
        actions: list[tuple[Callable[[MessageQueue], Any], Callable[[Model], Any]]] = [
            (lambda queue: queue.seek_to_offset(name, number), lambda model: model.seek(name, number)),
            (lambda queue: queue.seek_to_time(name, at), lambda model: model.seek_to_time(name, at)),
            (lambda queue: queue.create_snapshot(snapshot, name), lambda model: model.create_snapshot(snapshot, name)),
            (
                lambda queue: queue.seek_to_snapshot(name, snapshot),
                lambda model: model.seek_to_snapshot(name, snapshot),
            ),
            (lambda queue: queue.delete_snapshot(snapshot), lambda model: model.delete_snapshot(snapshot)),
            (lambda queue: queue.purge(name), lambda model: model.purge(name)),
        ]
        self.both(*actions[action])

    @precondition(lambda self: self.is_rare())
    @rule(name=TOPICS)
    def purge_topic(self, name: str) -> None:
        self.both(
            lambda queue: queue._run(lambda broker, now: broker.purge_topic(now, name)),
            lambda model: model.purge_topic(name),
        )

    def _tail(self, name: str) -> int:
        subscription = self.model.subscriptions.get(name)
        return len(subscription.topic.log) if subscription is not None and subscription.topic is not None else 0

    def _has_dead(self, name: str) -> bool:
        subscription = self.model.subscriptions.get(name)
        return subscription is not None and len(subscription.alive(self.model.now)) < len(subscription.queue)

    # ------------------------------------------------------------------ time and restarts

    @rule(seconds=SECONDS, set_back=st.sampled_from([0, 0, 0, 20]), by_hand=st.booleans())
    def advance(self, seconds: float, set_back: int, by_hand: bool) -> None:
        """Move the clock, and sometimes change the wall clock, which must not change durations.

        Due events have their effect when a command looks around. If the test moves time, that is before any answer.
        """
        if not by_hand:
            self.clock.followers.clear()
        self.clock.set_wall(-set_back)
        self.clock.advance(seconds)
        self.model.now = self.clock.now()
        self.clock.followers.add(self.queue.engine)
        if by_hand:
            self.model.tick_at = 0
            self.both(MessageQueue.get_all_topics, lambda _: None)
            for name, front in self._fronts().items():
                assert front == self._tail(name) or self.model.subscriptions[name].topic is None, "compared to the end"

    @precondition(lambda self: self.steps % 4 == 1)
    @rule(crash=st.booleans())
    def restart(self, crash: bool) -> None:
        if crash:
            self.queue = self.store.crash(self.queue)
        else:
            self.queue.close()
            self.queue = self.store.open()
        self.model.restart()
        self.both(MessageQueue.get_all_topics, lambda _: None)  # an opened store looks around before its first answer

    # ------------------------------------------------------------------ invariants

    @invariant()
    def the_cache_is_whole(self) -> None:
        check_cache(self.queue.engine.broker.cache)

    @invariant()
    def topics_agree(self) -> None:
        topics = {topic.name: topic for topic in self.queue.get_all_topics()}
        assert topics.keys() == self.model.topics.keys()
        for name, topic in topics.items():
            assert topic.tail == len(self.model.topics[name].log)
            assert topic.head <= self.model.needed(name), f"{name} forgot a message that is still needed"

    @invariant()
    def subscriptions_agree(self) -> None:
        found = {each.name: each for each in self.queue.get_all_subscriptions()}
        assert found.keys() == self.model.subscriptions.keys()
        for name, subscription in self.model.subscriptions.items():
            assert found[name].detached == (subscription.topic is None)
            backlog, leased = self.queue.backlog(name), subscription.leased()
            alive, counted = subscription.alive(self.model.now), self.model.counted(subscription)
            assert len(alive) <= backlog.messages <= len(counted), name
            assert _bytes(alive) <= backlog.bytes <= _bytes(counted), name
            assert (backlog.in_flight_messages, backlog.in_flight_bytes) == (len(leased), _bytes(leased)), name


def _shown(delivery: Delivery) -> tuple[Any, ...]:
    message = delivery.message
    return (
        message.offset,
        message.data,
        message.attributes,
        message.ordering_key,
        message.publish_time,
        delivery.attempt,
    )


def _expected(copy: Copy) -> tuple[Any, ...]:
    message = copy.message
    return message.offset, copy.data, message.attributes, message.key, message.at, copy.attempts


def _bytes(copies: list[Copy]) -> int:
    return sum(copy.message.size for copy in copies)


def check_replay(store: MemoryStore, queue: MessageQueue) -> None:
    """Law 3: the facts, from the beginning or from any snapshot on, lead to the same state, byte for byte."""
    live = codec.encode_dump(queue.engine.broker.state.dump())
    for place in (0, *store.journal.dumps):
        dump, facts = store.journal.recover_from(place)
        state = State.load(dump) if dump is not None else State()
        for fact in facts:
            state.apply(fact)
        assert codec.encode_dump(state.dump()) == live, f"replayed from commit {place}"


class SqliteMachine(Machine):
    store_type = SqliteStore


SHARES = {Machine: 8, SqliteMachine: 4}  # number of parts of the nightly run, for several workers
EXAMPLES = {Machine: (400, 6_000), SqliteMachine: (120, 2_500)}  # histories in one part


@pytest.mark.parametrize(
    ("machine", "share"),
    [(machine, share) for machine, shares in SHARES.items() for share in range(shares if NIGHTLY else 1)],
)
def test_the_broker_matches_the_model(machine: type[Machine], share: int, rounds: Callable[[int, int], int]) -> None:
    """004 BR-003 to BR-016, BR-018 to BR-022: the same answers, errors, deliveries, attempts and backlogs; law 3."""
    examples = int(os.environ.get("PENSTOCK_EXAMPLES", 0)) or rounds(*EXAMPLES[machine])
    number = int(os.environ.get("PENSTOCK_MODEL_SEED", rounds(0, int.from_bytes(os.urandom(4)))))
    chosen = settings(
        max_examples=examples,
        stateful_step_count=50,
        deadline=None,
        database=None,
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink],
    )
    try:
        run_state_machine_as_test(seeded(machine, number), settings=chosen)
    except BaseException as error:
        again = f"PENSTOCK_MODEL_SEED={number} PENSTOCK_EXAMPLES={examples}"
        error.add_note(f"to repeat it: {again} python -m pytest {__file__} -k {machine.__name__}")
        raise

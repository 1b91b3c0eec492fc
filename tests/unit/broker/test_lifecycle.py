"""The table of message stages matches the broker, row by row and on random walks."""

from __future__ import annotations

import random
import re
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from penstock.broker import facts as f
from penstock.broker.broker import Broker
from penstock.broker.lifecycle import LIFE, SOUGHT, Stage
from penstock.broker.limits import Limits
from penstock.broker.model import SECOND, Draft, SubscriptionOptions, TopicOptions
from penstock.broker.state import State
from penstock.broker.subscription import Subscription

PAGE = Path(__file__).parents[3] / "ARCHITECTURE.md"
FACTS = {fact for row in LIFE.values() for fact in row}
OTHERS: dict[type[f.Fact], f.Fact] = {  # facts of a subscription that do not change the stage of a message
    f.Touched: f.Touched(2, 1),
    f.SubscriptionChanged: f.SubscriptionChanged(2, SubscriptionOptions(lease_seconds=20)),
    f.Compared: f.Compared(2, 10, 3, 3),
}
# facts that begin or end the life of every message in the subscription
ENDS = {f.SubscriptionCreated, f.SubscriptionDeleted, f.Detached}

# ---------------------------------------------------------------------- every fact in every stage

AT = 5  # the offset under test, with the key "k"; offset 3 of the key is leased
BEFORE: list[f.Fact] = [
    f.TopicCreated(1, "t", 0, TopicOptions()),
    f.SubscriptionCreated(2, "s", 1, "t", 0, 0, 0, SubscriptionOptions(ordering=True, ordering_window=2)),
    f.Published(1, 0, 10, 10, 0, True),
    f.Delivered(2, 0, 9, AT, [3], [1], ["k"], [], 7),
]
FACT_OF: dict[type[f.Fact], f.Fact] = {
    f.Published: f.Published(1, 10, 1, 1, 0, True, discards=[(2, AT, 6)]),
    f.Passed: f.Passed(2, 0, AT + 1, 1, 1, 1),
    f.Held: f.Held(2, [AT], [1], ["k"]),
    f.Delayed: f.Delayed(2, 0, [AT], [1], ["k"], [9], [0]),
    f.Adopted: f.Adopted(2, 0, AT, 1, 0, 0),
    f.Delivered: f.Delivered(2, 0, 9, AT + 1, [AT], [1], ["k"], [], 8),
    f.Extended: f.Extended(2, 0, [AT], 12),
    f.Rewritten: f.Rewritten(2, AT, b"other"),
    f.Returned: f.Returned(2, 0, [AT], [], True),
    f.Acked: f.Acked(2, 0, [AT]),
    f.Removed: f.Removed(2, 0, [AT], "expired"),
}
INTO: dict[Stage, list[f.Fact]] = {
    Stage.UNREAD: [],
    Stage.HELD: [FACT_OF[f.Held], f.Passed(2, 0, AT + 1, 0, 0, 0)],
    Stage.WAITING: [FACT_OF[f.Delayed], f.Passed(2, 0, AT + 1, 0, 0, 0)],
    Stage.LEASED: [FACT_OF[f.Delivered]],
    Stage.SETTLED: [FACT_OF[f.Passed]],
}


def in_stage(stage: Stage) -> State:
    state = State()
    for fact in [*BEFORE, *INTO[stage]]:
        state.apply(fact)
    assert state.subscriptions[2].stage(AT) is stage
    return state


@pytest.mark.parametrize(("stage", "kind"), list(product(Stage, sorted(FACTS, key=lambda kind: kind.__name__))))
def test_a_fact_leads_where_the_table_says(stage: Stage, kind: type[f.Fact]) -> None:
    state = in_stage(stage)
    if kind in LIFE[stage]:
        state.apply(FACT_OF[kind])
        assert state.subscriptions[2].stage(AT) is LIFE[stage][kind]
    elif kind in {f.Acked, f.Removed, f.Returned, f.Extended, f.Rewritten} and stage not in (
        Stage.WAITING,
        Stage.LEASED,
    ):
        with pytest.raises(KeyError):  # there is no such delivery, so the bug shows at once
            state.apply(FACT_OF[kind])


@pytest.mark.parametrize(("stage", "cursor"), list(product(Stage, (AT, AT + 1))))
def test_a_seek_restarts_every_message(stage: Stage, cursor: int) -> None:
    state = in_stage(stage)
    state.apply(f.Sought(2, 0, cursor, cursor, cursor, [(8, 9)]))
    subscription = state.subscriptions[2]
    expected = [SOUGHT[offset >= cursor and offset != 8] for offset in range(10)]
    assert [subscription.stage(offset) for offset in range(10)] == expected


@pytest.mark.parametrize(("stage", "kind"), list(product(Stage, OTHERS)))
def test_other_facts_leave_every_stage_alone(stage: Stage, kind: type[f.Fact]) -> None:
    state = in_stage(stage)
    state.apply(OTHERS[kind])
    assert state.subscriptions[2].stage(AT) is stage


def test_the_table_knows_every_fact_of_a_subscription() -> None:
    of_subscriptions = {kind for kind in f.FACTS.values() if "subscription" in kind._fields} | {f.Published}
    assert of_subscriptions == FACTS | {f.Sought} | set(OTHERS) | ENDS


def test_a_message_held_behind_another_of_its_key_is_unacked() -> None:
    broker = Broker(draw=lambda: 1)
    broker.recover(None, [])
    broker.create_topic(0, "t")
    broker.create_subscription(0, "s", "t", SubscriptionOptions(ordering=True))
    broker.publish(0, "t", [Draft(b"first", {}, "k"), Draft(b"second", {}, "k")])
    broker.pull(0, "s", 5)
    assert broker.state.subscription("s").stage(1) is Stage.HELD
    assert [broker.is_unacked(0, "s", offset) for offset in range(3)] == [True, True, False]


# ---------------------------------------------------------------------- random walks

Stages = dict[tuple[int, int], Stage]
KINDS = [
    SubscriptionOptions(retry_minimum_seconds=2, expired_topic="other"),
    SubscriptionOptions(ordering=True, ordering_window=2, dead_letter_topic="other", max_delivery_attempts=2),
    SubscriptionOptions(filter='attributes.a = "1"', retention_seconds=40),
    SubscriptionOptions(dead_letter_topic="other", max_delivery_attempts=1),
]


class Walk:
    """Random commands on one topic. After each command, every message must be in the stage that the table predicts."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.now = SECOND
        limits = Limits(queue_messages_max=30, queue_bytes_max=0)
        self.broker = Broker(limits, draw=lambda: self.random.randrange(1, 2**63))
        self.broker.recover(None, [])
        self.broker.create_topic(self.now, "t")
        self.broker.create_topic(self.now, "other")
        self.names = [f"s{each}" for each, _ in enumerate(KINDS)]
        for name, options in zip(self.names, KINDS, strict=True):
            self.broker.create_subscription(self.now, name, "t", options)
        self.receipts: list[str] = []
        self.broker.take()
        self.rows: set[tuple[Stage, type[f.Fact]]] = set()

    def subscriptions(self) -> list[Subscription]:
        return [self.broker.state.subscription(name) for name in self.names]

    def stages(self) -> Stages:
        until = self.broker.state.topic("t").tail + 10
        return {(each.number, o): each.stage(o) for each in self.subscriptions() for o in range(until)}

    def step(self) -> None:
        before, cursors = self.stages(), {each.number: each.cursor for each in self.subscriptions()}
        self.random.choice([self.publish, self.pull, self.pull, self.settle, self.wait, self.move])()
        foretold = before
        for fact in reversed(found := self.broker.take()[0]):
            if isinstance(fact, f.Passed):
                self._pass(foretold, fact, cursors[fact.subscription], found)
        for fact in found:
            self._foretell(foretold, fact)
        now = self.stages()
        assert {place: now[place] for place in foretold} == foretold, found

    def _pass(self, stages: Stages, fact: f.Passed, cursor: int, found: list[f.Fact]) -> None:
        """Update messages that the cursor passed and that no other fact of the command names."""
        named = {o for each in found if getattr(each, "subscription", 0) == fact.subscription for o in _offsets(each)}
        for offset in range(cursor, fact.until):
            if offset not in named and stages[fact.subscription, offset] is Stage.UNREAD:
                self._lead(stages, fact.subscription, offset, f.Passed)

    def _foretell(self, stages: Stages, fact: f.Fact) -> None:
        if isinstance(fact, f.Sought):
            for (number, offset), _ in list(stages.items()):
                if number == fact.subscription:
                    skipped = any(first <= offset < until for first, until in fact.skips)
                    stages[number, offset] = SOUGHT[offset >= fact.cursor and not skipped]
        elif isinstance(fact, f.Published):
            for number, first, _ in fact.discards:
                for offset in range(first, fact.first + fact.total):
                    self._lead(stages, number, offset, f.Published)
            until = fact.first + fact.total
            for number, total, _ in fact.filtered:
                if total == fact.total and self.broker.state.subscriptions[number].cursor == until:
                    for offset in range(fact.first, until):
                        self._lead(stages, number, offset, f.Published)
        elif not isinstance(fact, f.Passed):
            for offset in _offsets(fact):
                self._lead(stages, fact.subscription, offset, type(fact))  # type: ignore[union-attr]

    def _lead(self, stages: Stages, number: int, offset: int, kind: type[f.Fact]) -> None:
        stage = stages[number, offset]
        assert kind in LIFE[stage], f"{stage.name} has no row for {kind.__name__}"
        self.rows.add((stage, kind))
        stages[number, offset] = LIFE[stage][kind]

    # ------------------------------------------------------------------ commands

    def publish(self) -> None:
        draw = self.random
        drafts = [
            Draft(
                b"x", {"a": draw.choice("12")}, draw.choice(["", "k", "l"]), draw.choice([0, 0, 5]), draw.choice([0, 9])
            )
            for _ in range(draw.randrange(1, 8))
        ]
        at = self.broker.publish(self.now, "t", drafts)
        if draw.random() < 0.5:
            number = draw.choice(self.subscriptions()).number
            self.receipts.append(self.broker.publisher_receipt(number, at.first + draw.randrange(at.total)))

    def pull(self) -> None:
        pulled = self.broker.pull(self.now, self.random.choice(self.names), self.random.randrange(1, 6))
        self.receipts += [delivery.receipt for delivery in pulled.deliveries]

    def settle(self) -> None:
        asked = self.random.sample(self.receipts, min(len(self.receipts), 4))
        strict = self.random.random() < 0.5
        match self.random.randrange(5):
            case 0:
                self.broker.ack(self.now, asked, strict=strict)
            case 1:
                self.broker.nack(self.now, asked, unseen=self.random.random() < 0.3, strict=strict)
            case 2:
                self.broker.extend(self.now, asked, self.random.randrange(1, 20), strict=strict)
            case 3 if asked:
                self.receipts.append(self.broker.renew(self.now, asked[0], 5, b"other", strict=strict).receipt)

    def wait(self) -> None:
        self.now += self.random.randrange(1, 15) * SECOND
        for name in self.names:
            self.broker.settle(self.now, name)

    def move(self) -> None:
        name, topic = self.random.choice(self.names), self.broker.state.topic("t")
        match self.random.randrange(7):
            case 6:
                self.broker.compare_filter(self.now, topic, self.broker.state.subscription(name), 3)
            case 0:
                self.broker.seek_to_offset(self.now, name, self.random.randrange(topic.tail + 1))
            case 1:
                self.broker.purge(self.now, name)
            case 2:
                times = self.broker.retention_times(self.now, topic)
                floor = self.random.randrange(topic.head, topic.tail + 1)
                self.broker.lapse(self.now, topic, dict.fromkeys(times, floor), {})
                self.broker.trim(self.now, topic, dict.fromkeys(times, floor), 0, topic.tail)


def _offsets(fact: Any) -> list[int]:
    if hasattr(fact, "offsets"):
        return list(fact.offsets)
    return [fact.offset] if hasattr(fact, "offset") else []


def test_walks_follow_the_table_and_use_all_of_it() -> None:
    rows: set[tuple[Stage, type[f.Fact]]] = set()
    for seed in range(40):
        walk = Walk(seed)
        for _ in range(80):
            walk.step()
        rows |= walk.rows
    assert {(stage, kind) for stage, row in LIFE.items() for kind in row} == rows


@pytest.mark.parametrize(
    ("stage", "kind", "to"),
    [
        (Stage.LEASED, f.Returned, Stage.SETTLED),
        (Stage.WAITING, f.Delivered, Stage.HELD),
        (Stage.UNREAD, f.Held, Stage.UNREAD),
        (Stage.LEASED, f.Acked, None),
    ],
)
def test_a_wrong_or_missing_row_is_found(
    stage: Stage, kind: type[f.Fact], to: Stage | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    rest = {each: target for each, target in LIFE[stage].items() if each is not kind}
    monkeypatch.setitem(LIFE, stage, rest if to is None else {**rest, kind: to})
    with pytest.raises(AssertionError):
        test_walks_follow_the_table_and_use_all_of_it()


def test_the_picture_shows_the_table() -> None:
    drawn = {
        (Stage[source.upper()], getattr(f, name), Stage[target.upper()])
        for source, target, names in re.findall(r"^ +(\w+) --> (\w+): ([A-Z][\w, ]+)$", PAGE.read_text(), re.M)
        for name in names.split(", ")
    }
    assert drawn == {(stage, kind, to) for stage, row in LIFE.items() for kind, to in row.items()}

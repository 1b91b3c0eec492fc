"""Law 6: the cost of a command does not grow with the size of unrelated state. It is counted in bytecodes, not in time.

A command runs with a few and with a thousand of something: subscriptions of the topic, other topics, waiting messages,
leased ones, snapshots, ordering keys. A walk over them would cost thousands of bytecodes more.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from itertools import count
from types import FrameType
from typing import Any

import pytest

from penstock import Draft, Limits, ManualClock, MessageQueue, SubscriptionOptions
from penstock.broker.broker import Broker
from penstock.broker.publishing import FILTERS_AT_ONCE

FEW, MANY = 3, 1_000
TIMES = 5
SLACK = 1.25  # heaps and bisections are a little deeper with more entries
LONG = SubscriptionOptions(lease_seconds=600)
FILTERED = SubscriptionOptions(lease_seconds=600, filter='attributes.a = "1"')
ORDERED = SubscriptionOptions(lease_seconds=600, ordering=True)

SERVER = Limits(queue_messages_max=0, queue_bytes_max=0, refuse_when_full=True)
LIMITS = {
    "capped": Limits(queue_messages_max=10**6),
    "server": SERVER,
    "server with a day of history": Limits(
        queue_messages_max=0, queue_bytes_max=0, refuse_when_full=True, retention_seconds=86400
    ),
    "server that refuses": Limits(queue_messages_max=10**6, refuse_when_full=True),
}


def bytecodes(command: Callable[[], object]) -> int:
    """Return the number of bytecodes of a command, in all functions."""
    total = 0

    def trace(frame: FrameType, event: str, arg: object) -> Any:
        nonlocal total
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        total += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        command()
    finally:
        sys.settrace(before)
    return total


# ---------------------------------------------------------------------- state that may be large


def subscriptions(queue: MessageQueue, number: int) -> None:
    for each in range(number):
        queue.register_subscription(f"reader {each}", "topic", LONG)


def filtered(queue: MessageQueue, number: int) -> None:
    for each in range(number):
        queue.register_subscription(f"reader {each}", "topic", FILTERED)


def topics(queue: MessageQueue, number: int) -> None:
    for each in range(number):
        queue.register_topic(f"topic {each}")
        queue.register_subscription(f"reader {each}", f"topic {each}", LONG)
        queue.publish(f"topic {each}", [b"x"])


def waiting(queue: MessageQueue, number: int) -> None:
    queue.publish("topic", [b"x"] * number)


def leased(queue: MessageQueue, number: int) -> None:
    queue.publish("topic", [b"x"] * number)
    for name in ("sub", "ordered"):
        queue.lease(name, number)


def snapshots(queue: MessageQueue, number: int) -> None:
    for each in range(number):
        queue.create_snapshot(f"snapshot {each}", "sub")


def keys(queue: MessageQueue, number: int) -> None:
    queue.publish("topic", [Draft(b"x", {}, f"key {each}") for each in range(number) for _ in range(2)])
    queue.lease("ordered", number)


# ---------------------------------------------------------------------- commands


class Commands:
    """Commands that can be repeated."""

    def __init__(self, queue: MessageQueue, name: str) -> None:
        self.queue = queue
        self.name = name
        self.held = [each.receipt for each in queue.lease(name, 4 * TIMES)]
        self.numbers = count()

    def publish(self) -> None:
        self.queue.publish("topic", [b"x"])

    def publish_unread(self) -> None:
        self.queue.publish("unread", [b"x"])

    def pull(self) -> None:
        assert self.queue.lease(self.name, 1)

    def ack(self) -> None:
        self.queue.ack(self.held.pop())

    def nack(self) -> None:
        self.queue.nack(self.held.pop())

    def extend(self) -> None:
        self.queue.modify_ack_deadline(self.held[-1], 600)

    def peek(self) -> None:
        assert self.queue.peek(self.name, 1)

    def subscribe(self) -> None:
        self.queue.register_subscription(f"new {next(self.numbers)}", "topic", LONG)


COMMANDS = ("publish", "publish_unread", "pull", "ack", "nack", "extend", "peek", "subscribe")


def costs(limits: Limits, name: str, amount: Callable[[MessageQueue, int], None], number: int) -> dict[str, int]:
    with MessageQueue(limits=limits, clock=ManualClock()) as queue:
        for topic in ("topic", "unread"):
            queue.register_topic(topic)
        queue.register_subscription("sub", "topic", LONG)
        queue.register_subscription("ordered", "topic", ORDERED)
        amount(queue, number)
        queue.publish("topic", [b"x"] * 100)
        commands = Commands(queue, name)
        found = {}
        for command in COMMANDS:
            do = getattr(commands, command)
            do()  # the first run may fill caches
            found[command] = max(bytecodes(do) for _ in range(TIMES // 2))
        return found


@pytest.mark.parametrize("limits", LIMITS)
@pytest.mark.parametrize("amount", [subscriptions, topics, waiting, leased, snapshots, keys])
@pytest.mark.parametrize("name", ["sub", "ordered"])
def test_no_command_walks_unrelated_state(limits: str, amount: Callable[[MessageQueue, int], None], name: str) -> None:
    few, many = (costs(LIMITS[limits], name, amount, number) for number in (FEW, MANY))
    grown = {command: (few[command], many[command]) for command in few if many[command] > SLACK * few[command] + 50}
    assert not grown


@pytest.mark.parametrize("limits", LIMITS)
def test_the_number_of_filters_has_a_bound(limits: str) -> None:
    few, many = (costs(LIMITS[limits], "sub", filtered, number) for number in (FILTERS_AT_ONCE, MANY))
    grown = {command: (few[command], many[command]) for command in few if many[command] > SLACK * few[command] + 50}
    assert not grown


def test_the_count_sees_a_walk(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard can fail: it finds a publish that looks at each subscription."""
    publish = Broker.publish

    def planted(self: Broker, now: int, topic_name: str, *rest: Any) -> Any:
        assert not [each for each in self.state.topic(topic_name).readers.values() if each.settled < 0]
        return publish(self, now, topic_name, *rest)

    monkeypatch.setattr(Broker, "publish", planted)
    few, many = (costs(SERVER, "sub", subscriptions, number)["publish"] for number in (FEW, MANY))
    assert many > SLACK * few + 50

"""The queue of a door with faults: the order of decisions, and that no message is lost unintentionally."""

from __future__ import annotations

import asyncio
import inspect
import math
from collections.abc import Callable, Coroutine
from typing import Any

import pytest

from penstock.broker.model import Draft
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.port import Delivery, Queue, refusal
from penstock.errors import LostReplyError, UnavailableError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import JournalFullError
from penstock.services.faults.faults import Faults
from penstock.services.faults.queue import DECISIONS, FaultyQueue
from penstock.services.faults.rules import Rule

TOPIC, SUBSCRIPTION = "projects/p/topics/t", "projects/p/subscriptions/s"
SECONDS = 20

# Methods that only look, and calls of a door on its own behalf, are never hit.
UNTOUCHED = """
    clock clock_of limits connect_consumer disconnect_consumer
    examine is_unacked unacked leases sequences topics_of_producer publisher_receipt find_topic topics
    topic_statistics find_subscription subscriptions subscription_statistics backlog unsettled preview_seek find_queue
    names numbered_names find_topics find_subscriptions reader_names backlog_messages
    snapshots document documents store holdings first_offset_at commit on on_reset off backup
    put_back lease_at forget_producer touch_subscription put_document remove_document
    backlog_messages names numbered_names reader_names find_subscriptions find_topics
"""
PULLS = {"pull", "lease", "read"}


class Harness:
    def __init__(self) -> None:
        self.queue = AsyncMessageQueue(MemoryJournal()).at("pubsub")
        self.faults = Faults(lambda: 5)
        self.faulty: Any = FaultyQueue(self.queue, self.faults)

    def add(self, effect: Any, **words: Any) -> Any:
        return self.faults.add(Rule(effect=effect, **words))

    async def publish(self, *texts: str) -> None:
        for text in texts:
            await self.queue.publish(TOPIC, [Draft(text.encode())])

    async def waiting(self) -> tuple[int, int]:
        """Return the number of unacked messages, and how many of them are leased."""
        backlog = await self.queue.backlog(SUBSCRIPTION)
        return backlog.messages, backlog.in_flight_messages


def tell(story: Callable[[Harness], Coroutine[Any, Any, None]]) -> None:
    async def main() -> None:
        harness = Harness()
        await harness.queue.start()
        await harness.queue.create_topic(TOPIC)
        await harness.queue.create_subscription(SUBSCRIPTION, TOPIC)
        try:
            await asyncio.wait_for(story(harness), SECONDS)
        finally:
            await harness.queue.close()

    asyncio.run(main())


async def turns() -> None:
    """Run every task until it waits."""
    for _ in range(20):
        await asyncio.sleep(0)


def texts(deliveries: list[Delivery]) -> list[str]:
    return [each.message.data.decode() for each in deliveries]


def test_every_verb_of_the_port_is_listed() -> None:
    verbs = {name for name, _ in inspect.getmembers(Queue) if not name.startswith("_")}
    assert verbs - set(UNTOUCHED.split()) == {*DECISIONS, *PULLS}


def test_without_a_rule_calls_go_to_the_wrapped_queue() -> None:
    async def story(harness: Harness) -> None:
        decided = harness.faulty.publish(TOPIC, [Draft(b"a")])
        assert decided.done()  # as the queue in memory does, without a task in between
        assert texts(await harness.faulty.pull(SUBSCRIPTION, 1)) == ["a"]
        assert (await harness.faulty.find_topic(TOPIC)).name == TOPIC

    tell(story)


def test_a_refusal_is_known_at_once() -> None:
    async def story(harness: Harness) -> None:
        harness.add("error", error="unavailable", times=1)
        assert isinstance(refusal(harness.faulty.publish(TOPIC, [Draft(b"a")])), UnavailableError)
        harness.add("disk_full", times=1)
        assert isinstance(refusal(harness.faulty.publish(TOPIC, [Draft(b"a")])), JournalFullError)
        assert await harness.waiting() == (0, 0)

    tell(story)


def test_a_dropped_reply_was_decided_in_its_turn() -> None:
    async def story(harness: Harness) -> None:
        harness.add("drop", verb="publish", nth=1)
        first = harness.faulty.publish(TOPIC, [Draft(b"a")])
        second = harness.faulty.publish(TOPIC, [Draft(b"b")])
        assert refusal(first) is None
        with pytest.raises(LostReplyError):
            await first
        await second
        assert texts(await harness.queue.pull(SUBSCRIPTION, 10)) == ["a", "b"]

    tell(story)


def test_a_closed_call_decides_nothing() -> None:
    async def story(harness: Harness) -> None:
        harness.add("close", times=1)
        closed = harness.faulty.publish(TOPIC, [Draft(b"a")])
        assert refusal(closed) is None  # messages before it are answered
        with pytest.raises(LostReplyError):
            await closed
        assert await harness.waiting() == (0, 0)

    tell(story)


def test_a_held_call_ends_with_its_fault_or_its_seconds() -> None:
    async def story(harness: Harness) -> None:
        fault = harness.add("hold", verb="publish")
        held = harness.faulty.publish(TOPIC, [Draft(b"a")])
        await asyncio.sleep(0)
        assert (fault.held, await harness.waiting()) == (1, (0, 0))
        harness.faults.remove(fault.id)
        await held
        short = harness.add("hold", verb="publish", seconds=0.001)
        await harness.faulty.publish(TOPIC, [Draft(b"b")])
        assert (fault.held, short.held, await harness.waiting()) == (0, 0, (2, 0))

    tell(story)


def test_a_new_rule_hits_waiting_calls() -> None:
    async def story(harness: Harness) -> None:
        waiting = asyncio.ensure_future(harness.faulty.pull(SUBSCRIPTION, 1, wait_seconds=60))
        stream = asyncio.ensure_future(harness.faulty.lease(SUBSCRIPTION, 1, wait_seconds=60))
        await turns()
        harness.add("close", verb="pull")
        for each in (waiting, stream):
            with pytest.raises(LostReplyError):
                await each
        harness.faults.clear()
        await harness.publish("a")
        assert texts(await harness.faulty.pull(SUBSCRIPTION, 1)) == ["a"]

    tell(story)


def test_a_rule_for_other_calls_does_not_disturb_waiting_ones() -> None:
    async def story(harness: Harness) -> None:
        waiting = asyncio.ensure_future(harness.faulty.pull(SUBSCRIPTION, 1, wait_seconds=60))
        await turns()
        fault = harness.add("close", project="q")
        await harness.publish("a")
        assert texts(await waiting) == ["a"]
        assert fault.calls == 0

    tell(story)


def test_waiting_push_is_held_and_continues() -> None:
    async def story(harness: Harness) -> None:
        pushed = asyncio.ensure_future(harness.faulty.pull(SUBSCRIPTION, 1, wait_seconds=60, holder="push"))
        await turns()
        fault = harness.add("hold", verb="push")
        await harness.publish("a")
        await turns()
        assert (fault.held, await harness.waiting()) == (1, (1, 0))
        harness.faults.remove(fault.id)
        assert texts(await pushed) == ["a"]

    tell(story)


def test_a_cancelled_pull_leases_nothing() -> None:
    async def story(harness: Harness) -> None:
        waiting = asyncio.ensure_future(harness.faulty.pull(SUBSCRIPTION, 1, wait_seconds=60))
        await turns()
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        await harness.publish("a")
        assert await harness.waiting() == (1, 0)

    tell(story)


def test_a_cancelled_late_pull_returns_its_messages() -> None:
    async def story(harness: Harness) -> None:
        await harness.publish("a")
        fault = harness.add("latency", seconds=60)
        late = asyncio.ensure_future(harness.faulty.pull(SUBSCRIPTION, 1))
        await turns()
        assert (fault.held, await harness.waiting()) == (1, (1, 1))
        late.cancel()
        await turns()
        assert (late.cancelled(), await harness.waiting()) == (True, (1, 0))

    tell(story)


def test_a_duplicate_is_not_delivered_to_a_replaced_subscription() -> None:
    async def story(harness: Harness) -> None:
        await harness.publish("a")
        harness.add("duplicate", nth=1)
        assert texts(await harness.faulty.pull(SUBSCRIPTION, 1)) == ["a"]
        await harness.queue.delete_subscription(SUBSCRIPTION)
        await harness.queue.create_subscription(SUBSCRIPTION, TOPIC)
        assert await harness.faulty.pull(SUBSCRIPTION, 1) == []

    tell(story)


def test_messages_of_a_lost_answer_stay_leased() -> None:
    async def story(harness: Harness) -> None:
        await harness.publish("a")
        harness.add("drop", verb="pull", nth=1)
        with pytest.raises(LostReplyError):
            await harness.faulty.pull(SUBSCRIPTION, 1)
        assert await harness.waiting() == (1, 1)

    tell(story)


def test_an_endless_lease_is_returned_when_its_answer_is_lost() -> None:
    async def story(harness: Harness) -> None:
        await harness.publish("a")
        harness.add("drop", verb="pull", nth=1)
        with pytest.raises(LostReplyError):
            await harness.faulty.lease(SUBSCRIPTION, 1, lease_seconds=math.inf)
        assert await harness.waiting() == (1, 0)

    tell(story)


def test_a_pull_without_messages_is_not_hit() -> None:
    async def story(harness: Harness) -> None:
        fault = harness.add("drop", verb="pull", nth=1)
        assert await harness.faulty.pull(SUBSCRIPTION, 1) == []
        assert fault.calls == 0

    tell(story)


@pytest.mark.parametrize(
    ("most", "expected"), [(1, [["a"], ["a"], ["b"]]), (2, [["a", "b"], ["a", "b"], []]), (3, [["a", "b", "a"], ["b"]])]
)
def test_no_answer_has_more_messages_than_requested(most: int, expected: list[list[str]]) -> None:
    async def story(harness: Harness) -> None:
        await harness.publish("a", "b")
        harness.add("duplicate", nth=1)
        assert [texts(await harness.faulty.pull(SUBSCRIPTION, most)) for _ in expected] == expected

    tell(story)


def test_reorder_pulls_one_extra_message_and_returns_it() -> None:
    async def story(harness: Harness) -> None:
        await harness.publish("a", "b", "c")
        fault = harness.add("reorder", nth=2)
        assert [texts(await harness.faulty.pull(SUBSCRIPTION, 1)) for _ in range(3)] == [["a"], ["c"], ["b"]]
        assert fault.hits == 1
        assert await harness.waiting() == (3, 3)

    tell(story)


def test_reorder_does_not_return_messages_of_the_same_key() -> None:
    async def story(harness: Harness) -> None:
        for text in (b"a", b"b"):
            await harness.queue.publish(TOPIC, [Draft(text, ordering_key="k")])
        fault = harness.add("reorder")
        assert texts(await harness.faulty.pull(SUBSCRIPTION, 1)) == ["a"]
        assert fault.calls == 0
        assert await harness.waiting() == (2, 1)

    tell(story)


@pytest.mark.parametrize("verb", ["ack", "extend", "renew", "ack_delivered"])
def test_a_lease_ends_before_it_is_settled(verb: str) -> None:
    async def story(harness: Harness) -> None:
        await harness.publish("a")
        (delivery,) = await harness.faulty.pull(SUBSCRIPTION, 1)
        fault = harness.add("expire", verb="ack" if verb.startswith("ack") else "extend")
        if verb == "ack_delivered":
            place = (delivery.message.offset, delivery.stamp, 1)
            assert await harness.faulty.ack_delivered(delivery.subscription, [place]) == 0
        elif verb == "renew":
            assert (await harness.faulty.renew(delivery.receipt, 60)).receipt == ""
        else:
            more = (60,) if verb == "extend" else ()
            settled = await getattr(harness.faulty, verb)([delivery.receipt], *more)
            assert settled.stale == [delivery.receipt]
        assert (fault.hits, await harness.waiting()) == (1, (1, 0))

    tell(story)


def test_an_extension_by_nothing_is_a_nack() -> None:
    async def story(harness: Harness) -> None:
        await harness.publish("a")
        (delivery,) = await harness.faulty.pull(SUBSCRIPTION, 1)
        harness.add("error", error="internal", verb="extend")
        nacked = harness.add("error", error="unavailable", verb="nack")
        with pytest.raises(UnavailableError):
            await harness.faulty.extend([delivery.receipt], 0)
        assert nacked.hits == 1
        # the door itself returns the message, so this is no client's call
        await harness.faulty.nack([delivery.receipt], unseen=True)
        assert nacked.hits == 1

    tell(story)


@pytest.mark.parametrize(
    ("method", "args"),
    [
        ("create_topic", ("projects/p/topics/u",)),
        ("create_subscription", ("projects/p/subscriptions/u", TOPIC)),
        ("provide_queue", ("projects/p/topics/u", "projects/p/subscriptions/u")),
        ("delete_subscription", (SUBSCRIPTION,)),
        ("purge", (SUBSCRIPTION,)),
        ("seek_to_offset", (SUBSCRIPTION, 0)),
        ("create_snapshot", ("projects/p/snapshots/u", SUBSCRIPTION)),
        ("read", (TOPIC, 0, 1)),
    ],
)
def test_other_verbs_are_hit_as_well(method: str, args: tuple[Any, ...]) -> None:
    async def story(harness: Harness) -> None:
        fault = harness.add("error", error="unavailable", project="p")
        with pytest.raises(UnavailableError):
            await getattr(harness.faulty, method)(*args)
        assert fault.hits == 1
        assert fault.last[0].resource in args
        harness.faults.clear()
        await getattr(harness.faulty, method)(*args)

    tell(story)

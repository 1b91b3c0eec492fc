"""The statistics of a running queue: counters, fill levels and the duration of commits."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock import Draft, InternalMessage, Limits, ManualClock, MessageQueue
from penstock.broker.log import Sizes
from penstock.broker.model import SECOND
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.statistics import COMMIT_SECONDS_BOUNDS, CommitMeter
from penstock.errors import DamagedStoreError
from penstock.journal.memory import MemoryJournal
from penstock.journal.sqlite.journal import SqliteJournal
from penstock.services.traffic import Traffic


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def queue(clock: ManualClock) -> MessageQueue:
    queue = MessageQueue(clock=clock, limits=Limits(queue_messages_max=3))
    for name in ("topic", "dead"):
        queue.register_topic(name)
    policy = {"dead_letter_topic": "dead", "max_delivery_attempts": 2}
    queue.register_subscription("sub", "topic", dead_letter_policy=policy, filter="NOT attributes:hidden")
    return queue


def test_everything_that_happens_is_counted(queue: MessageQueue, clock: ManualClock) -> None:
    queue.publish("topic", [b"a", b"bb", InternalMessage(b"c", {"hidden": ""}), b"d", b"over the cap"])
    a, bb, d = queue.pull("sub", 10)
    queue.ack(a.ack_id)
    queue.nack(bb.ack_id)
    queue.nack(d.ack_id)
    queue.nack(queue.pull("sub", 1)[0].ack_id)
    clock.advance(3)
    topic, dead = queue.statistics().topics
    assert (topic.topic, topic.head, topic.tail, topic.counts.published) == (
        "topic",
        3,
        5,
        5,
    )  # all messages before d are settled
    assert topic.counts.bytes == 1 + 2 + 1 + len("hidden") + 1 + len("over the cap")
    assert (dead.counts.published, dead.dropped) == (1, {"no_subscription": 1})
    (sub,) = queue.statistics().subscriptions
    assert (sub.subscription, sub.topic) == ("sub", "topic")
    assert (sub.counts.delivered, sub.counts.acked, sub.counts.returned, sub.counts.dead_lettered) == (4, 1, 2, 1)
    assert (sub.backlog_messages, sub.backlog_bytes, sub.in_flight_messages) == (1, 1, 0)
    assert sub.oldest_unacked_age_seconds == 3
    assert sub.dropped == {"capacity": 1}  # filtered messages are not dropped


def test_an_empty_queue_has_no_age(queue: MessageQueue, clock: ManualClock) -> None:
    queue.publish("topic", [b"a"])
    clock.advance(7)
    assert queue.statistics().subscriptions[0].oldest_unacked_age_seconds == 7
    queue.ack(queue.pull("sub", 1)[0].ack_id)
    assert queue.statistics().subscriptions[0].oldest_unacked_age_seconds == 0


def test_commits_are_measured(queue: MessageQueue) -> None:
    before = queue.statistics().commit
    queue.publish("topic", [b"12345", b"678"])
    after = queue.statistics().commit
    assert after.commits == before.commits + 1
    assert after.bytes_written - before.bytes_written == 8
    assert after.facts > before.facts
    assert after.buckets[-1][1] <= after.commits


def test_a_meter_sorts_commits_into_buckets() -> None:
    meter = CommitMeter()
    for seconds in (0.0001, 0.0005, 0.0006, 3, 100):
        meter.note(seconds, facts=2, bytes_written=10)
    numbers = meter.statistics()
    assert (numbers.commits, numbers.facts, numbers.bytes_written) == (5, 10, 50)
    assert numbers.seconds == pytest.approx(103.0012)
    assert [bound for bound, _ in numbers.buckets] == list(COMMIT_SECONDS_BOUNDS)
    counts = dict(numbers.buckets)
    assert (counts[0.0005], counts[0.001], counts[2.0], counts[5.0]) == (2, 3, 3, 4)


def test_filtered_messages_do_not_count_as_deliverable(queue: MessageQueue, clock: ManualClock) -> None:
    def due() -> float:
        return queue.statistics().subscriptions[0].due_age_seconds

    queue.publish("topic", [InternalMessage(b"c", {"hidden": ""})] * 2)
    clock.advance(90)
    assert due() == 0
    queue.publish("topic", [b"a"])
    clock.advance(5)
    assert due() == 5
    queue.nack(queue.pull("sub", 1)[0].ack_id)
    clock.advance(5)
    assert due() == 10


# ---------------------------------------------------------------------- messages that are not in memory


def ages(queue: MessageQueue) -> dict[str, tuple[float, float]]:
    found = queue.statistics().subscriptions
    return {each.subscription: (each.oldest_unacked_age_seconds, each.due_age_seconds) for each in found}


def test_ages_are_the_same_after_a_restart(tmp_path: Path, clock: ManualClock) -> None:
    with MessageQueue(SqliteJournal(tmp_path), clock=clock) as queue:
        queue.register_topic("topic")
        queue.register_subscription("all", "topic")
        queue.register_subscription("some", "topic")
        queue.publish("topic", [b"a"])
        clock.advance(100)
        queue.publish("topic", [b"b"])
        queue.ack(queue.pull("some", 1)[0].ack_id)
        clock.advance(10)
        before = ages(queue)
        assert before == {"all": (110, 110), "some": (10, 10)}
    with MessageQueue(SqliteJournal(tmp_path), clock=clock) as queue:
        assert ages(queue) == before
        queue.register_subscription("new", "topic")
        queue.seek_to_offset("new", 0)
        clock.advance(1)
        assert ages(queue) == {"all": (111, 111), "some": (11, 11), "new": (111, 111)}
        queue.ack(queue.pull("all", 1)[0].ack_id)
        assert ages(queue)["all"] == (11, 11)


def test_a_message_delayed_over_a_restart_is_not_late(tmp_path: Path, clock: ManualClock) -> None:
    with MessageQueue(SqliteJournal(tmp_path), clock=clock) as queue:
        queue.register_topic("topic")
        queue.register_subscription("sub", "topic")
        queue.publish("topic", [Draft(b"a", delay_seconds=600)])
        assert queue.pull("sub", 1) == []
    with MessageQueue(SqliteJournal(tmp_path), clock=clock) as queue:
        clock.advance(300)
        assert ages(queue) == {"sub": (300, 0)}
        clock.advance(360)
        assert ages(queue)["sub"][0] == 660
        assert ages(queue)["sub"][1] > 0


@pytest.mark.parametrize("subscriptions", [1, 1200])
def test_a_running_server_reads_the_ages_it_was_asked_for(tmp_path: Path, subscriptions: int) -> None:
    clock = ManualClock()
    with MessageQueue(SqliteJournal(tmp_path), clock=clock) as queue:
        queue.register_topic("topic")
        for number in range(subscriptions):
            queue.register_subscription(f"sub-{number}", "topic")
        queue.publish("topic", [b"a"])
        published_at = clock.now()

    async def main() -> None:
        clock.advance(100)
        queue = AsyncMessageQueue(SqliteJournal(tmp_path), clock=clock)
        await queue.start()
        traffic = Traffic(queue.engine)
        traffic.take()
        async with asyncio.timeout(60):  # only a failing test waits this long, however busy the machine is
            while True:
                found = {each.oldest_unacked_age_seconds for each in queue.engine.statistics().subscriptions}
                if found != {0.0} and len(found) == 1:
                    break
                clock.advance(1)
                await asyncio.sleep(0.01)
        age = (clock.now() - published_at) / SECOND
        assert found == {age}
        assert not queue.engine.ages.wanted
        assert traffic.take().oldest_age_seconds == age
        await queue.close()

    asyncio.run(main())


def test_an_oldest_that_cannot_be_read_is_rather_too_old(clock: ManualClock) -> None:
    class Damaged(MemoryJournal):
        durable = True
        damaged = False

        def read(self, *words: object, **more: object) -> list[object]:
            if self.damaged:
                raise DamagedStoreError("a batch is damaged")
            return super().read(*words, **more)

    journal = Damaged()
    queue = MessageQueue(journal, clock=clock, sizes=Sizes(cache_bytes=1, chunk_messages=1))
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic")
    clock.advance(5)
    queue.publish("topic", [b"a"])
    queue.publish("topic", [b"b"])
    journal.damaged = True
    assert ages(queue) == {"sub": (5, 5)}
    assert ages(queue) == {"sub": (5, 5)}
    assert not queue.engine.ages.wanted

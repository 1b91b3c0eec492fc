"""AsyncMessageQueue and its journal: callers share commits, answers come after the commit, and errors reach all
callers.

The test controls the journal, so it knows which commit is in progress.
"""

from __future__ import annotations

import asyncio
import gc
import threading
import time
from collections.abc import Callable, Coroutine
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from penstock import Draft, ManualClock, ResourceExhaustedError, SubscriptionOptions, UnavailableError
from penstock.broker.log import Sizes
from penstock.broker.publishing import Appended
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.port import refusal
from penstock.errors import DamagedStoreError, PenstockError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import JournalFailedError, JournalFullError, Recovered
from penstock.journal.sqlite import SqliteJournal
from tests.unit.engine.journals import ToldJournal

Story = Callable[[AsyncMessageQueue, ToldJournal], Coroutine[Any, Any, None]]


def tell(story: Story, **parts: Any) -> None:
    async def main() -> None:
        journal = ToldJournal()
        queue = AsyncMessageQueue(journal, clock=ManualClock(), **parts)
        await queue.start()
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic")
        try:
            async with asyncio.timeout(20):
                await story(queue, journal)
        finally:
            journal.gate.set()
            await queue.close()

    asyncio.run(main())


def publish(queue: AsyncMessageQueue, *bodies: bytes) -> asyncio.Task[Appended]:
    return asyncio.ensure_future(queue.publish("topic", [Draft(body) for body in bodies]))


async def commit_begins(journal: ToldJournal) -> None:
    assert await asyncio.to_thread(journal.entered.acquire, timeout=10)


async def started_over(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
    """Publish a message, and then close the gate for later commits."""
    await queue.publish("topic", [Draft(b"first")])
    while journal.entered.acquire(blocking=False):
        pass
    journal.gate.clear()


def kept(journal: ToldJournal) -> list[bytes]:
    return [message.data for commit in journal.commits for batch in commit.batches for message in batch.messages]


def test_callers_that_come_together_share_a_commit() -> None:
    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        await started_over(queue, journal)
        before = len(journal.commits)
        leader = publish(queue, b"leader")
        await commit_begins(journal)
        others = [publish(queue, b"%d" % number) for number in range(100)]
        await asyncio.sleep(0)
        journal.gate.set()
        offsets = [appended.first for appended in await asyncio.gather(leader, *others)]
        assert offsets == list(range(1, 102))
        assert len(journal.commits) == before + 2

    tell(story)


def test_no_caller_is_answered_before_the_commit() -> None:
    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        await started_over(queue, journal)
        calls = [
            publish(queue, b"a"),
            asyncio.ensure_future(queue.pull("sub", 10)),
            asyncio.ensure_future(queue.pull("sub", 10)),  # finds no message, because an uncommitted pull has it
            asyncio.ensure_future(queue.create_topic("new")),
            asyncio.ensure_future(queue.read("topic", 0, 10)),
        ]
        await commit_begins(journal)
        for _ in range(50):
            await asyncio.sleep(0)
        assert not any(call.done() for call in calls)
        journal.gate.set()
        _, pulled, nothing, _, read = await asyncio.gather(*calls)
        assert [each.message.data for each in pulled] == [b"first", b"a"]
        assert nothing == []
        assert [message.data for message in read] == [b"first", b"a"]

    tell(story)


def test_all_callers_of_a_refused_commit_get_the_error_and_later_calls_work() -> None:
    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        await started_over(queue, journal)
        before = queue.engine.broker.state.dump()
        journal.refusals = [JournalFullError()]
        calls = [publish(queue, b"lost"), asyncio.ensure_future(queue.pull("sub", 1))]
        await commit_begins(journal)
        calls.append(publish(queue, b"lost as well"))
        await asyncio.sleep(0)
        journal.gate.set()
        answers = await asyncio.gather(*calls, return_exceptions=True)
        assert [type(answer) for answer in answers] == [JournalFullError] * 3
        assert isinstance(answers[0], ResourceExhaustedError)
        assert queue.engine.broker.state.dump() == before
        assert [each.message.data for each in await queue.pull("sub", 10)] == [b"first"]
        assert await queue.pull("sub", 10) == []
        await queue.publish("topic", [Draft(b"later")])
        assert kept(journal) == [b"first", b"later"]

    tell(story)


def test_a_command_between_the_refusal_and_its_news_does_not_rescue_the_lost() -> None:
    """A caller that waits for the refused commit must not be answered by a later one."""

    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        journal.refusals = [JournalFullError()]
        news: list[Callable[[], None]] = []
        queue.loop._writer._call_loop = news.append  # type: ignore[method-assign]
        lost = publish(queue, b"lost")
        while queue.engine.commits.stalled is None:
            await asyncio.sleep(0)
        del queue.loop._writer._call_loop
        with pytest.raises(JournalFullError):
            await queue.publish("topic", [Draft(b"too early")])
        for callback in news:
            callback()
        await queue.publish("topic", [Draft(b"found")])
        with pytest.raises(JournalFullError):
            await lost
        assert kept(journal) == [b"found"]

    tell(story)


def test_decisions_of_one_turn_are_lost_together() -> None:
    """The commit of another caller is refused while a door makes several decisions."""

    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        journal.refusals = [JournalFullError()]
        other = publish(queue, b"other")
        await asyncio.sleep(0)
        first = queue.publish("topic", [Draft(b"first of the turn")])
        assert await_in_this_turn(lambda: queue.engine.commits.stalled is not None)
        second = queue.publish("topic", [Draft(b"second of the turn")])
        assert isinstance(refusal(second), JournalFullError)
        for lost in (first, other):
            with pytest.raises(JournalFullError):
                await lost
        await queue.publish("topic", [Draft(b"later")])
        assert kept(journal) == [b"later"]

    tell(story)


def await_in_this_turn(condition: Callable[[], bool]) -> bool:
    """Keep the loop busy until another thread has made the condition true."""
    pause, until = threading.Event(), time.monotonic() + 10
    while not condition() and time.monotonic() < until:
        pause.wait(0.001)
    return condition()


def test_a_pull_that_reads_while_the_state_is_rolled_back_is_refused() -> None:
    """Otherwise its deliveries would be leases that no commit contains."""

    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        for number in range(2000):
            publish(queue, b"%d" % number)
        await queue.create_topic("other")
        reading, go_on = asyncio.Event(), asyncio.Event()
        read = queue.loop._read

        async def slow(question: Any) -> Any:
            reading.set()
            await go_on.wait()
            return await read(question)

        queue.loop._read = slow  # type: ignore[method-assign]
        pull = asyncio.ensure_future(queue.pull("sub", 10))
        await reading.wait()
        journal.refusals = [JournalFullError()]
        with pytest.raises(JournalFullError):
            await queue.publish("other", [Draft(b"lost")])
        go_on.set()
        with pytest.raises(JournalFullError):
            await pull
        assert lookups.backlog(queue.engine, "sub").in_flight_messages == 0
        assert len(await queue.pull("sub", 10)) == 10
        assert lookups.backlog(queue.engine, "sub").in_flight_messages == 10

    tell(story, sizes=Sizes(cache_bytes=1))


@pytest.mark.parametrize("error", [JournalFailedError(), DamagedStoreError("The store is damaged.")])
def test_a_failed_journal_stops_everything(error: PenstockError) -> None:
    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        journal.refusals = [error]
        with pytest.raises(type(error)):
            await queue.publish("topic", [Draft(b"unknown")])
        assert await queue.failed is error
        for call in (queue.publish("topic", [Draft(b"x")]), queue.pull("sub", 1), queue.create_topic("new")):
            with pytest.raises(type(error)):
                await call

    tell(story)


@pytest.mark.parametrize("error", [DamagedStoreError("The store is damaged."), KeyError("a bug")])
def test_a_state_that_cannot_be_read_again_stops_everything(error: Exception) -> None:
    """Every command failed, and the server neither said that it was ill nor stopped."""

    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        def fail() -> Recovered:
            raise error

        journal.recover = fail  # type: ignore[method-assign]
        journal.refusals = [JournalFullError()]
        with pytest.raises(JournalFullError):
            await queue.publish("topic", [Draft(b"lost")])
        assert isinstance(await queue.failed, JournalFailedError)
        with pytest.raises(JournalFailedError):
            await queue.publish("topic", [Draft(b"x")])

    tell(story)


def test_a_journal_that_fails_at_its_chores_stops_everything() -> None:
    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        def fail() -> bool:
            raise JournalFailedError

        journal.maintain = fail  # type: ignore[method-assign]
        with suppress(JournalFailedError):  # its commit may come before the chores or after
            await queue.publish("topic", [Draft(b"kept")])
        assert isinstance(await queue.failed, JournalFailedError)
        with pytest.raises(JournalFailedError):
            await queue.publish("topic", [Draft(b"x")])

    tell(story)


def test_a_full_journal_refuses_publishes_and_serves_the_rest() -> None:
    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        await queue.publish("topic", [Draft(b"a")])
        journal.full = True
        with pytest.raises(ResourceExhaustedError):
            await queue.publish("topic", [Draft(b"refused")])
        (leased,) = await queue.pull("sub", 10)
        assert (await queue.ack([leased.receipt])).stale == []
        assert queue.engine.statistics().publishes_refused == {"disk": 1}

    tell(story)


def test_closing_finishes_calls_in_progress() -> None:
    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        await started_over(queue, journal)
        under_way = publish(queue, b"under way")
        await commit_begins(journal)
        closing = asyncio.ensure_future(queue.close())
        await asyncio.sleep(0)
        journal.gate.set()
        await asyncio.gather(under_way, closing)
        assert kept(journal) == [b"first", b"under way"]
        for call in (queue.publish("topic", [Draft(b"x")]), queue.pull("sub", 1, wait_seconds=5)):
            with pytest.raises(UnavailableError):
                await call

    tell(story)


def test_a_caller_that_leaves_does_not_disturb_the_commit() -> None:
    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        await started_over(queue, journal)
        gone, stays = publish(queue, b"gone"), publish(queue, b"stays")
        await commit_begins(journal)
        gone.cancel()
        journal.gate.set()
        await stays
        assert kept(journal) == [b"first", b"gone", b"stays"]
        assert not queue.loop._writer._waiters

    tell(story)


def test_a_dead_letter_that_cannot_move_and_is_too_old_blocks_no_call(caplog: pytest.LogCaptureFixture) -> None:
    """Law 8: its lease and its retention end at the same look, and its dead letter topic does not exist."""

    async def main() -> None:
        clock = ManualClock()
        queue = AsyncMessageQueue(MemoryJournal(), clock=clock)
        await queue.start()
        await queue.create_topic("topic")
        options = SubscriptionOptions(retention_seconds=12, dead_letter_topic="nowhere", max_delivery_attempts=1)
        await queue.create_subscription("sub", "topic", options)
        await queue.publish("topic", [Draft(b"1")])
        await queue.pull("sub", 1)
        clock.advance(22)
        assert await queue.pull("sub", 1) == []
        assert queue.engine.statistics().subscriptions[0].dropped == {"retention": 1}
        assert caplog.messages[-1].endswith("there is no topic nowhere (1 so far)")
        await queue.publish("topic", [Draft(b"2")])
        assert len(await queue.pull("sub", 1)) == 1
        await queue.close()

    asyncio.run(main())


def test_options_are_kept_with_the_subscription() -> None:
    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        options = SubscriptionOptions(lease_seconds=33, labels={"a": "b"})
        assert (await queue.change_subscription("sub", options)).options == options
        again = AsyncMessageQueue(journal, clock=ManualClock())
        assert lookups.subscription(again.engine, "sub").options == options

    tell(story)


def test_a_queue_that_was_never_started_closes_all_the_same(tmp_path: Path) -> None:
    async def scenario() -> None:
        queue = AsyncMessageQueue(SqliteJournal(tmp_path / "data"))
        await queue.close()
        SqliteJournal(tmp_path / "data").close()  # the folder is free again

    asyncio.run(scenario())


def test_a_lease_that_found_nothing_leaves_no_error_behind() -> None:
    """The pull decided to pass messages, and a refused commit undoes that.

    No caller waits for the commit, so none gets an error.
    """

    async def story(queue: AsyncMessageQueue, journal: ToldJournal) -> None:
        complaints: list[object] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
        await queue.create_subscription("picky", "topic", SubscriptionOptions(filter='attributes.kind = "x"'))
        await queue.publish("topic", [Draft(b"plain")])
        await queue.seek_to_offset("picky", 0)
        journal.refusals = [JournalFullError()]
        leased = await queue.lease("picky", 1)
        assert leased.deliveries == []
        await asyncio.wait([leased.durable])
        assert queue.engine.commits.has_losses, "the commit was refused"
        del leased
        gc.collect()
        await asyncio.sleep(0)
        assert complaints == []

    tell(story)

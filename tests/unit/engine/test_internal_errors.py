"""A bug in a command: its caller gets an error, the bug is counted, and the command has no effect."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock import Draft, InternalError, ManualClock, MessageQueue, UnavailableError
from penstock.broker.facts import Acked, Delivered, Extended, Fact, Published, Returned
from penstock.broker.log import LogCache, Sizes
from penstock.broker.state import State
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.port import Settled, refusal
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal
from penstock.journal.sqlite import SqliteJournal

JOURNALS = ("memory", "sqlite")


def journal_of(kind: str, folder: Path) -> Journal:
    return MemoryJournal() if kind == "memory" else SqliteJournal(folder)


class Bug:
    """A bug that raises once while a kind of fact is applied, before or after the change of the state."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, kind: type[Fact], *, after: bool) -> None:
        self.armed = False
        apply = State.apply

        def planted(state: State, fact: Fact) -> None:
            breaks = self.armed and isinstance(fact, kind)
            if after or not breaks:
                apply(state, fact)
            if breaks:
                self.armed = False
                raise KeyError("secret")

        monkeypatch.setattr(State, "apply", planted)


@pytest.mark.parametrize("kind", JOURNALS)
def test_a_topic_works_after_a_bug(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 8: the pull with the bug is refused, and the next one gets every message."""
    bug = Bug(monkeypatch, Delivered, after=False)
    with MessageQueue(journal_of(kind, tmp_path), clock=ManualClock()) as queue:
        queue.register_topic("topic")
        queue.register_subscription("sub", "topic")
        queue.publish("topic", [b"1", b"2", b"3"])
        queue.nack(queue.pull("sub", 1)[0].ack_id)  # one message waits in the heap that a pull takes from
        bug.armed = True
        with pytest.raises(InternalError) as caught:
            queue.pull("sub", 10)
        assert "secret" not in str(caught.value)
        assert [each.data for each in queue.pull("sub", 10)] == [b"1", b"2", b"3"]
        queue.publish("topic", [b"4"])
        assert [each.data for each in queue.pull("sub", 10)] == [b"4"]


def test_the_changes_of_a_broken_command_are_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 3: the state is the committed one, so a refused publish leaves nothing behind."""
    bug = Bug(monkeypatch, Published, after=True)
    with MessageQueue(SqliteJournal(tmp_path), clock=ManualClock()) as queue:
        queue.register_topic("topic")
        queue.register_subscription("sub", "topic")
        queue.publish("topic", [b"kept"])
        bug.armed = True
        with pytest.raises(InternalError):
            queue.publish("topic", [b"never"])
        queue.publish("topic", [b"later"])
        assert [each.data for each in queue.pull("sub", 10)] == [b"kept", b"later"]


@pytest.mark.parametrize("kind", JOURNALS)
def test_the_queue_of_a_door_works_after_a_bug(kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 8, for every kind of call of the doors. Callers that wait for messages look again."""
    bug = Bug(monkeypatch, Delivered, after=False)

    async def main() -> None:
        queue = AsyncMessageQueue(journal_of(kind, tmp_path), clock=ManualClock())
        await queue.start()
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic")
        appended = await queue.publish("topic", [Draft(b"1")])
        bug.armed = True
        with pytest.raises(InternalError):
            await queue.pull("sub", 10)
        bug.armed = True
        with pytest.raises(InternalError):
            await queue.lease("sub", 10)
        assert sum(queue.engine.internal_errors.values()) == 2
        assert queue.engine.statistics().internal_errors == queue.engine.internal_errors
        (delivery,) = await queue.pull("sub", 10)
        assert delivery.message.offset == appended.first
        await queue.ack([delivery.receipt])
        await queue.close()

    asyncio.run(main())


@pytest.mark.parametrize("kind", JOURNALS)
@pytest.mark.parametrize("fact", [Acked, Extended, Returned])
def test_decisions_without_a_waiting_caller_are_guarded_as_well(
    fact: type[Fact], kind: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 8, for acks, extensions and returns whose caller does not wait."""
    bug = Bug(monkeypatch, fact, after=True)

    async def main() -> None:
        queue = AsyncMessageQueue(journal_of(kind, tmp_path), clock=ManualClock())
        await queue.start()
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic")
        await queue.publish("topic", [Draft(b"1")])
        deliveries = await queue.pull("sub", 10)
        receipts = [each.receipt for each in deliveries]
        decide: dict[type[Fact], Callable[[], Future[Settled]]] = {
            Acked: lambda: queue.ack(receipts),
            Extended: lambda: queue.extend(receipts, 30),
            Returned: lambda: queue.nack(receipts),
        }
        bug.armed = True
        decided = decide[fact]()
        assert isinstance(refusal(decided), InternalError), "refused at once"
        assert sum(queue.engine.internal_errors.values()) == 1
        await queue.publish("topic", [Draft(b"2")])
        await queue.close()

    asyncio.run(main())


def test_a_bug_in_a_shared_queue_is_counted_and_undone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 8, for the loop that shares a queue with threads."""
    bug = Bug(monkeypatch, Acked, after=True)

    async def main(queue: MessageQueue) -> None:
        shared = AsyncMessageQueue(queue.engine)
        shared.begin()
        bug.armed = True
        receipt = queue.pull("sub", 1)[0].ack_id
        with pytest.raises(InternalError):
            await shared.ack([receipt])
        assert sum(queue.engine.internal_errors.values()) == 1
        assert lookups.backlog(queue.engine, "sub").messages == 1, "the ack is undone"
        await shared.close()

    with MessageQueue(SqliteJournal(tmp_path), clock=ManualClock()) as queue:
        queue.register_topic("topic")
        queue.register_subscription("sub", "topic")
        queue.publish("topic", [b"1"])
        asyncio.run(main(queue))


@pytest.mark.parametrize("kind", JOURNALS)
def test_a_bug_on_the_way_to_the_journal_blocks_no_command(kind: str, tmp_path: Path) -> None:
    """Law 8: facts that cannot be written do not stay behind, where the next command would fail on them."""

    armed = False

    def listener(fact: Delivered) -> None:
        nonlocal armed
        if armed:
            armed = False
            raise KeyError("secret")

    async def main() -> None:
        nonlocal armed
        queue = AsyncMessageQueue(journal_of(kind, tmp_path), clock=ManualClock())
        await queue.start()
        queue.on([Delivered], listener)
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic")
        await queue.publish("topic", [Draft(b"1")])
        armed = True
        with pytest.raises(InternalError):
            await queue.pull("sub", 10)
        assert sum(queue.engine.internal_errors.values()) == 1
        await queue.publish("topic", [Draft(b"2")])
        assert [each.message.data for each in await queue.pull("sub", 10)] == [b"2"], "the first is leased"
        await queue.close()

    asyncio.run(main())


def test_steps_in_progress_are_told_to_ask_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Their decisions so far are rolled back with the state of the broken command."""
    bug = Bug(monkeypatch, Published, after=True)

    async def main() -> None:
        queue = AsyncMessageQueue(
            SqliteJournal(tmp_path), clock=ManualClock(), sizes=Sizes(cache_bytes=1, chunk_messages=1)
        )
        await queue.start()
        await queue.create_topic("topic")
        await queue.create_subscription("sub", "topic")
        for body in (b"1", b"2", b"3"):
            await queue.publish("topic", [Draft(body)])
        pull = asyncio.ensure_future(queue.pull("sub", 3))
        await asyncio.sleep(0)  # the command waits for the journal
        bug.armed = True
        with pytest.raises(InternalError):
            await queue.publish("topic", [Draft(b"never")])
        with pytest.raises(UnavailableError):
            await pull
        assert len(await queue.pull("sub", 3)) == 3
        await queue.close()

    asyncio.run(main())


def test_a_bug_is_counted_by_its_place_and_logged(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Law 8: a counter and a line in the log have the place of the bug, and no data of a peer."""
    with MessageQueue(SqliteJournal(tmp_path), sizes=Sizes(cache_bytes=1, chunk_messages=1)) as queue:
        queue.register_topic("topic")
        queue.register_subscription("sub", "topic")
        queue.publish("topic", [b"secret"])
        queue.publish("topic", [b"secret"])

        def broken(*_: object) -> None:
            raise IndexError("secret")

        monkeypatch.setattr(LogCache, "_add", broken)
        with pytest.raises(InternalError):
            queue.pull("sub", 10)
        ((place, count),) = queue.engine.statistics().internal_errors.items()
        assert place.startswith("broker/log.py:")
        assert place.endswith("IndexError")
        assert count == 1
        assert place in caplog.text
        assert "secret" not in caplog.messages[-1]


def test_a_bug_in_housekeeping_does_not_end_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    clock = ManualClock()

    async def main() -> None:
        queue = AsyncMessageQueue(SqliteJournal(tmp_path), clock=clock)
        await queue.start()
        await asyncio.sleep(0)  # the keeper sets its alarm
        with monkeypatch.context() as broken:
            broken.setattr(type(queue.engine.broker), "expire_resources", lambda self, now: 1 / 0)
            clock.advance(61)
            await asyncio.sleep(0)
            await asyncio.sleep(0)
        assert sum(queue.engine.internal_errors.values()) == 1
        assert not queue.loop._keeper.done()
        await queue.close()

    asyncio.run(main())

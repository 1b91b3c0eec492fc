"""A value that the journal cannot store: its command is undone, everything else goes on, and the store opens again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from penstock import Draft, InternalError, ManualClock, MessageQueue, SubscriptionOptions
from penstock.broker.broker import Broker
from penstock.broker.facts import DocumentPut, Fact, Published, SubscriptionChanged, Touched
from penstock.broker.limits import Limits
from penstock.broker.model import Batch, Message
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.port import NotStorableError
from penstock.journal.sqlite import SqliteJournal

HUGE: Any = 10**30
TEXT: Any = "text"
LONE = "\ud800"
NESTED: Any = []
for _ in range(100_000):
    NESTED = [NESTED]


def plant(*facts: Fact) -> Callable[[Broker, int], None]:
    """Return a command with a bug: it decides facts that no check has seen."""

    def command(broker: Broker, _: int) -> None:
        for fact in facts:
            broker.emit(fact)

    return command


def plant_message(broker: Broker, _: int) -> None:
    message = Message(b"", {"a": HUGE}, "", 0, 1, 4, 1, 0, 0)
    broker.emit(Published(1, 1, 1, 1, 0, True))
    broker.batches.append(Batch(1, 1, [message]))


GIVEN = {
    "number": plant(SubscriptionChanged(2, SubscriptionOptions(ordering_window=HUGE))),
    "surrogate": plant(DocumentPut("kind", LONE, b"")),
    "nested": plant(SubscriptionChanged(2, SubscriptionOptions(labels=NESTED))),
    "wrong kind": plant(DocumentPut("kind", "name", TEXT)),
    "wrong option": plant(SubscriptionChanged(2, SubscriptionOptions(exactly_once=TEXT))),
    "after others": plant(Touched(2, 0), DocumentPut("kind", "name", TEXT)),
}
COMPUTED = {"number": plant(Touched(2, HUGE)), "producer": plant(Published(1, 1, 0, 0, 0, False, LONE))}
COMPUTED["message"] = plant_message


def queue_in(folder: Path) -> MessageQueue:
    queue = MessageQueue(SqliteJournal(folder, reserve_bytes=0), clock=ManualClock())
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic")
    queue.publish("topic", [b"kept"])
    return queue


@pytest.mark.parametrize("command", [*GIVEN.values(), *COMPUTED.values()], ids=[*GIVEN, *COMPUTED])
def test_the_queue_goes_on_and_the_store_opens_again(command: Callable[[Broker, int], None], tmp_path: Path) -> None:
    queue = queue_in(tmp_path)
    before = queue.engine.broker.state.dump()
    with pytest.raises(InternalError):
        queue._run(command)
    assert queue.engine.broker.state.dump() == before
    queue.publish("topic", [b"later"])
    queue.engine.journal.close()  # without a snapshot, so that the next start reads every fact
    with MessageQueue(SqliteJournal(tmp_path, reserve_bytes=0), clock=ManualClock()) as again:
        assert [message.data for message in again.pull("sub", 10)] == [b"kept", b"later"]


@pytest.mark.parametrize("command", GIVEN.values(), ids=GIVEN)
def test_neighbours_of_a_value_that_a_caller_gave_notice_nothing(
    command: Callable[[Broker, int], None], tmp_path: Path
) -> None:
    async def main() -> None:
        queue = AsyncMessageQueue(shared.engine)
        queue.begin()
        earlier = queue.publish("topic", [Draft(b"earlier")])
        refused = queue.loop.run(command)
        later = queue.publish("topic", [Draft(b"later")])
        assert (await earlier).total == (await later).total == 1
        with pytest.raises(InternalError):
            await refused
        assert not queue.failed.done()
        await queue.close()

    with queue_in(tmp_path) as shared:
        asyncio.run(main())


@pytest.mark.parametrize("command", COMPUTED.values(), ids=COMPUTED)
def test_a_commit_with_a_value_of_the_hot_path_is_refused_whole(
    command: Callable[[Broker, int], None], tmp_path: Path
) -> None:
    """These are not looked at before the commit, because that would cost every message."""

    async def main() -> None:
        queue = AsyncMessageQueue(shared.engine)
        queue.begin()
        with pytest.raises(NotStorableError):
            await queue.loop.run(command)
        assert (await queue.publish("topic", [Draft(b"later")])).first == 1
        assert not queue.failed.done()
        await queue.close()

    with queue_in(tmp_path) as shared:
        asyncio.run(main())


@pytest.mark.parametrize("seconds", [1e300, float("inf")])
def test_a_retention_without_end_keeps_everything(seconds: float, tmp_path: Path) -> None:
    """Housekeeping failed each second, and took the state back to the last commit."""
    clock = ManualClock()
    journal = SqliteJournal(tmp_path, reserve_bytes=0)
    with MessageQueue(journal, limits=Limits(retention_seconds=seconds, seek_all=True), clock=clock) as queue:
        queue.register_topic("topic")
        queue.register_subscription("sub", "topic")
        queue.publish("topic", [b"kept"])
        queue.ack(queue.pull("sub", 1)[0].ack_id)
        clock.advance(86400 * 365)
        assert queue.pull("sub", 1) == []
        queue.seek_to_time("sub", 0)
        assert [message.data for message in queue.pull("sub", 1)] == [b"kept"]
        assert not queue.engine.internal_errors

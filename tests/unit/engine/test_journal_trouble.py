"""MessageQueue with a journal that refuses: callers get the error, the state is rolled back, and lost data never
counts as stored.
"""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any
from unittest.mock import Mock

import pytest

from penstock import Draft, ManualClock, MessageQueue, ResourceExhaustedError, UnavailableError
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.engine import Engine
from penstock.errors import DamagedStoreError, PenstockError
from penstock.journal.port import JournalFailedError, JournalFullError
from tests.unit.engine.journals import ToldJournal


@pytest.fixture
def journal() -> ToldJournal:
    return ToldJournal()


@pytest.fixture
def queue(journal: ToldJournal) -> MessageQueue:
    queue = MessageQueue(journal, clock=ManualClock())
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic")
    queue.publish("topic", [b"kept"])
    return queue


def test_a_refused_publish_leaves_no_trace(queue: MessageQueue, journal: ToldJournal) -> None:
    before = queue.engine.broker.state.dump()
    journal.refusals = [JournalFullError()]
    with pytest.raises(ResourceExhaustedError) as error:
        queue.publish("topic", [b"lost"])
    assert error.value.code == 8
    assert queue.engine.broker.state.dump() == before
    queue.publish("topic", [b"later"])
    assert [message.data for message in queue.pull("sub", 10)] == [b"kept", b"later"]


@pytest.mark.parametrize("call", ["pull", "ack", "nack", "modify_ack_deadline", "purge", "register_topic"])
def test_any_refused_command_leaves_no_trace(queue: MessageQueue, journal: ToldJournal, call: str) -> None:
    (leased,) = queue.pull("sub", 1)
    queue.publish("topic", [b"another"])
    before = queue.engine.broker.state.dump()
    journal.refusals = [JournalFullError()]
    arguments = {
        "pull": ("sub", 1),
        "ack": (leased.ack_id,),
        "nack": (leased.ack_id,),
        "modify_ack_deadline": (leased.ack_id, 30),
        "purge": ("sub",),
        "register_topic": ("new",),
    }
    with pytest.raises(ResourceExhaustedError):
        getattr(queue, call)(*arguments[call])
    assert queue.engine.broker.state.dump() == before
    queue.ack(leased.ack_id)
    assert [message.data for message in queue.pull("sub", 10)] == [b"another"]


def test_a_state_that_cannot_be_read_now_is_read_by_the_next_command(
    queue: MessageQueue, journal: ToldJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.refusals = [JournalFullError()]
    with monkeypatch.context() as patch:
        for error in (UnavailableError(), JournalFullError()):
            patch.setattr(journal, "recover", Mock(side_effect=error))
            with pytest.raises(type(error)):
                queue.publish("topic", [b"lost"])
    queue.publish("topic", [b"later"])
    assert [message.data for message in queue.pull("sub", 10)] == [b"kept", b"later"]


@pytest.mark.parametrize("error", [DamagedStoreError("The store is damaged."), KeyError("a bug")])
def test_a_state_that_cannot_be_read_again_stops_the_queue(
    error: Exception, queue: MessageQueue, journal: ToldJournal, monkeypatch: pytest.MonkeyPatch
) -> None:
    journal.refusals = [JournalFullError()]
    monkeypatch.setattr(journal, "recover", Mock(side_effect=error))
    for _ in range(2):
        with pytest.raises(JournalFailedError):
            queue.publish("topic", [b"lost"])


def test_a_call_that_decides_nothing_works_after_a_refusal(queue: MessageQueue, journal: ToldJournal) -> None:
    queue.ack(queue.pull("sub", 1)[0].ack_id)
    journal.refusals = [JournalFullError()]
    with pytest.raises(ResourceExhaustedError):
        queue.publish("topic", [b"lost"])
    assert queue.pull("sub", 1) == []
    assert queue.peek("sub", 1) == []


def test_every_thread_of_a_refused_commit_gets_the_error(queue: MessageQueue, journal: ToldJournal) -> None:
    """Twenty threads publish while the journal refuses. Each one with an answer finds its message stored."""
    journal.refusals = [JournalFullError() for _ in range(3)]
    start, answers, lock = threading.Barrier(20), [], threading.Lock()

    def publish(number: int) -> None:
        start.wait()
        try:
            queue.publish("topic", [b"%d" % number])
        except PenstockError as error:
            with lock:
                answers.append((number, error))
        else:
            with lock:
                answers.append((number, None))

    threads = [threading.Thread(target=publish, args=(number,)) for number in range(20)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    kept = {message.data for message in MessageQueue(journal, clock=ManualClock()).pull("sub", 100)}
    assert kept - {b"kept"} == {b"%d" % number for number, error in answers if error is None}
    assert all(isinstance(error, JournalFullError) for _, error in answers if error is not None)
    assert len(answers) == 20


def test_after_a_failed_commit_everything_is_refused(queue: MessageQueue, journal: ToldJournal) -> None:
    journal.refusals = [JournalFailedError()]
    with pytest.raises(JournalFailedError):
        queue.publish("topic", [b"unknown"])
    for call in (lambda: queue.publish("topic", [b"x"]), lambda: queue.pull("sub", 1), lambda: queue.purge("sub")):
        with pytest.raises(JournalFailedError):
            call()
    queue.close()


def test_a_full_journal_refuses_publishes_and_serves_the_rest(queue: MessageQueue, journal: ToldJournal) -> None:
    journal.full = True
    with pytest.raises(ResourceExhaustedError, match="The disk is full"):
        queue.publish("topic", [b"refused"])
    assert queue.statistics().publishes_refused == {"disk": 1}
    (message,) = queue.pull("sub", 10)
    queue.nack(message.ack_id)
    queue.ack(queue.pull("sub", 1)[0].ack_id)
    journal.full = False
    queue.publish("topic", [b"welcome"])
    assert [message.data for message in queue.pull("sub", 10)] == [b"welcome"]


def test_counters_do_not_decrease_when_the_state_is_rolled_back(queue: MessageQueue, journal: ToldJournal) -> None:
    queue.ack(queue.pull("sub", 1)[0].ack_id)
    journal.full = True
    with pytest.raises(ResourceExhaustedError):
        queue.publish("topic", [b"refused"])
    journal.full = False
    before = queue.statistics()
    journal.refusals = [JournalFullError()]
    with pytest.raises(ResourceExhaustedError):
        queue.publish("topic", [b"lost"])
    after = queue.statistics()
    assert after.publishes_refused == before.publishes_refused
    assert after.subscriptions == before.subscriptions
    assert after.topics[0].counts.published >= before.topics[0].counts.published


def lose_everything(journal: ToldJournal, engine: Engine) -> None:
    """Roll the engine back, as another thread does when its commit is refused."""
    journal.refusals.append(JournalFullError())
    engine.commits.flush()
    with engine.lock:
        engine.go_back()


@pytest.mark.parametrize("call", ["ack", "publish"])
def test_a_decision_that_another_thread_loses_is_never_called_durable(
    call: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Law 1: between the decision and the wait, another thread may roll back to the last commit."""
    journal = ToldJournal()
    queue = MessageQueue(journal, clock=ManualClock())
    queue.register_topic("topic")
    queue.register_subscription("sub", "topic")
    queue.publish("topic", [b"1"])
    receipt = queue.pull("sub", 1)[0].ack_id
    for name in ("step", "decide"):
        real = getattr(queue.engine, name)

        def interrupted(*given: Any, real: Callable[..., Any] = real) -> Any:
            answer = real(*given)
            lose_everything(journal, queue.engine)
            return answer

        monkeypatch.setattr(queue.engine, name, interrupted)
    calls: dict[str, Callable[[], object]] = {
        "ack": lambda: queue.ack(receipt),
        "publish": lambda: queue.publish("topic", [b"2"]),
    }
    with pytest.raises(JournalFullError):
        calls[call]()


def test_a_shared_publish_that_a_thread_loses_is_never_called_durable(monkeypatch: pytest.MonkeyPatch) -> None:
    """Law 1, for the loop that shares an engine with threads."""
    journal = ToldJournal()
    queue = MessageQueue(journal, clock=ManualClock())
    queue.register_topic("topic")
    real = queue.engine.decide

    def interrupted(command: Any, *about: Any) -> Any:
        answer = real(command, *about)
        lose_everything(journal, queue.engine)
        return answer

    async def story() -> None:
        shared = AsyncMessageQueue(queue.engine)
        shared.begin()
        monkeypatch.setattr(queue.engine, "decide", interrupted)
        with pytest.raises(JournalFullError):
            await asyncio.wait_for(shared.publish("topic", [Draft(b"1")]), 10)
        monkeypatch.undo()
        await shared.close()

    asyncio.run(story())

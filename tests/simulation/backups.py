"""Stores to back up, and their contents for comparison: the state and the messages of a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import NamedTuple

from penstock import MessageQueue
from penstock.broker.dump import StateDump
from penstock.broker.facts import Fact
from penstock.broker.limits import Limits
from penstock.broker.model import Draft, Message
from penstock.broker.state import State
from penstock.journal.port import BackupProgress, BackupReport, Commit
from penstock.journal.sqlite import SqliteJournal, backup

LIMITS = Limits(queue_messages_max=0, queue_bytes_max=0)
NOW = 1_800_000_000 * 10**9


def open_store(data: Path) -> MessageQueue:
    return MessageQueue(SqliteJournal(data, reserve_bytes=0), limits=LIMITS)


def fill(queue: MessageQueue, topic: str, bodies: Iterable[bytes]) -> None:
    """Publish bodies in one commit each. A subscription keeps the messages."""
    if not queue.topic_exists(topic):
        queue.create_topic(topic)
        queue.create_subscription(f"{topic}-reader", topic)
    for body in bodies:
        queue.publish(topic, [Draft(body)])


def consume(queue: MessageQueue, topic: str, count: int) -> None:
    deliveries = queue.lease(f"{topic}-reader", count)
    queue.ack_many([delivery.receipt for delivery in deliveries])


def back_up(data: Path, folder: Path) -> BackupReport:
    """Back up a closed store."""
    return backup.back_up(data, folder, now=NOW, progress=unheard)


def restore(folder: Path, data: Path, *, keep_identity: bool = True) -> None:
    backup.restore(folder, data, keep_identity=keep_identity, progress=unheard)


def unheard(progress: BackupProgress) -> None:
    assert 0 <= progress.bytes <= progress.total_bytes


class Contents(NamedTuple):
    dump: StateDump
    messages: dict[int, list[Message]]


def contents(data: Path) -> Contents:
    """Return the contents of a closed store, without changing it."""
    journal = SqliteJournal(data, reserve_bytes=0)
    try:
        dump, facts = journal.recover()
        state = replay(State.load(dump) if dump is not None else State(), facts)
        messages = {topic.number: journal.read(topic.number, topic.head, topic.tail) for topic in state.topics.values()}
        return Contents(state.dump(), messages)
    finally:
        journal.close()


def replay(state: State, facts: Iterable[Fact]) -> State:
    for fact in facts:
        state.apply(fact)
    return state


class WatchedJournal(SqliteJournal):
    """A journal that keeps every commit, so that the state after any of them can be computed."""

    def __init__(self, folder: Path) -> None:
        super().__init__(folder, reserve_bytes=0)
        self.commits: list[Commit] = []

    def commit(self, commit: Commit) -> None:
        super().commit(commit)
        self.commits.append(commit)

    def contents_at(self, number: int) -> Contents:
        """Return the contents after `count` commits."""
        state = State()
        messages: dict[int, list[Message]] = {}
        for commit in self.commits[:number]:
            replay(state, commit.facts)
            for batch in commit.batches:
                messages.setdefault(batch.topic, []).extend(batch.messages)
        kept = {
            topic.number: [each for each in messages.get(topic.number, []) if topic.head <= each.offset]
            for topic in state.topics.values()
        }
        return Contents(state.dump(), kept)

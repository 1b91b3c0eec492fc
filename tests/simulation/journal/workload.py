"""A seeded workload on a journal, and a model with the expected contents.

Every commit contains its own number, so that after a fault the test can say exactly which commits are there. The
workload includes snapshots, forgetting, checkpoints, vacuuming and reopening, with limits so low that each happens
many times in a short run.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from random import Random
from typing import NamedTuple
from unittest.mock import patch

from penstock.broker.dump import StateDump
from penstock.broker.facts import DocumentPut, Published
from penstock.broker.model import NO_ATTRIBUTES, Batch, Message
from penstock.journal.port import Commit, Journal, Recovered
from penstock.journal.sqlite import chores, wal

TOPICS = (1, 2, 7)


class Committed(NamedTuple):
    number: int


class Forgotten(NamedTuple):
    topic: int
    until: int


Event = Committed | Forgotten


@contextmanager
def low_limits() -> Iterator[None]:
    """Run checkpoints, deletions and vacuuming after a few pages instead of megabytes."""
    with (
        patch.multiple(chores, IDLE_PAGES=12, SLICE_BYTES=4000, SLICE_ROWS=3, SLICE_PAGES=3, SPARE_PAGES=1),
        patch.multiple(wal, BUSY_PAGES=24, LIMIT_PAGES=60),
    ):
        yield


class Life:
    """The commits of one seed, made one after the other. `commits` has all of them."""

    def __init__(self, random: Random) -> None:
        self._random = random
        self.commits: list[Commit] = []
        self._tails = dict.fromkeys(TOPICS, 0)
        self._clock = 10**18

    def next_commit(self) -> Commit:
        batches = [self._batch(topic) for topic in TOPICS if self._random.random() < 0.5]
        number = str(len(self.commits) + 1)
        facts = [Published(b.topic, b.first, len(b.messages), 0, self._clock, True) for b in batches]
        due = self._random.random() < 0.15
        # Random bytes, and never the same twice. A write that fails where the log happens to hold the same bytes has
        # succeeded, and its refused commit would be there.
        padding = self._random.randbytes(self._random.randrange(9000))
        dump = StateDump(len(self.commits) + 1, [], [], [], {"padding": {"x": padding}})
        commit = Commit([*facts, DocumentPut("commit", number, b"")], batches, dump if due else None)
        self.commits.append(commit)
        return commit

    def tail(self, topic: int) -> int:
        return self._tails[topic]

    def _batch(self, topic: int) -> Batch:
        first = self._tails[topic]
        messages = [self._message(first + index) for index in range(self._random.randrange(1, 6))]
        self._tails[topic] += len(messages)
        return Batch(topic, first, messages)

    def _message(self, offset: int) -> Message:
        self._clock += self._random.randrange(3)
        body = self._random.randbytes(self._random.choice((0, 10, 256, 256, 3000)))
        return Message(body, NO_ATTRIBUTES, "", self._clock, offset, 0, len(body), 0, 0)


def live(life: Life, journal: Journal, random: Random, steps: int, tell: Callable[[Event], None]) -> None:
    """Make some commits, forget and maintain. `tell` is called after each commit, and before messages are forgotten."""
    for _ in range(steps):
        journal.commit(life.next_commit())
        tell(Committed(len(life.commits)))
        if random.random() < 0.3:
            topic = random.choice(TOPICS)
            until = random.randrange(life.tail(topic) + 1)
            tell(Forgotten(topic, until))
            journal.forget(topic, until)
        if random.random() < 0.5:
            journal.maintain()


def count_recovered(life: Life, recovered: Recovered) -> int:
    """Return the number of recovered commits, which must be a complete prefix of the workload, in order."""
    start = recovered.dump.next_number if recovered.dump else 0
    if recovered.dump:
        assert recovered.dump == life.commits[start - 1].snapshot
    facts = list(recovered.facts)
    count = start
    for commit in life.commits[start:]:
        if not facts:
            break
        length = len(commit.facts)
        assert facts[:length] == list(commit.facts), f"commit {count + 1} differs from the one that was written"
        del facts[:length]
        count += 1
    assert not facts, "facts of a commit that was never made"
    return count


def check_messages(life: Life, journal: Journal, count: int, floors: dict[int, int]) -> None:
    """Check that every message of the first `count` commits is there, from the topic's floor on."""
    for topic in TOPICS:
        expected = [m for c in life.commits[:count] for b in c.batches if b.topic == topic for m in b.messages]
        first = min(floors.get(topic, 0), len(expected))
        assert journal.read(topic, first, len(expected)) == expected[first:], f"topic {topic} differs"


def floors_of(events: list[Event]) -> dict[int, int]:
    floors: dict[int, int] = {}
    for event in events:
        if isinstance(event, Forgotten):
            floors[event.topic] = max(floors.get(event.topic, 0), event.until)
    return floors

"""The journal in memory: for tests, for speed, and as the oracle of the conformance suite."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Mapping, Sequence
from threading import Lock

from penstock.broker.model import Message
from penstock.errors import DamagedStoreError, FailedPreconditionError
from penstock.journal.floors import GONE, Floors
from penstock.journal.port import Commit, JournalSizes, Recovered


class MemoryJournal:
    durable = False
    snapshot_due = False
    full = False

    def __init__(self) -> None:
        self._logs: dict[int, _Log] = {}
        self._floors = Floors()
        self._lock = Lock()  # readers come from any thread

    def recover(self) -> Recovered:
        return Recovered(None, [])

    def commit(self, commit: Commit) -> None:
        with self._lock:
            for topic, first, messages in commit.batches:
                log = self._logs.get(topic)
                if log is None:
                    log = self._logs[topic] = _Log()
                log.append(first, messages)

    def read(self, topic: int, first: int, until: int, whole: bool = False, max_bytes: int = 0) -> list[Message]:
        with self._lock:
            first = max(first, self._floors[topic])
            if first >= until:
                return []
            messages = self._logs.get(topic, _EMPTY).read(first, until)
        if len(messages) != until - first:
            raise DamagedStoreError(f"Topic {topic} lacks messages between offsets {first} and {until}.")
        return messages

    def find(self, topic: int, at: int) -> int | None:
        with self._lock:
            return self._logs.get(topic, _EMPTY).find(at, self._floors[topic])

    def forget(self, topic: int, until: int) -> None:
        with self._lock:
            if self._floors.lift(topic, until) and topic in self._logs:
                self._logs[topic].forget(until)
                if until >= GONE:
                    del self._logs[topic]

    def sweep(self, heads: Mapping[int, int]) -> None:
        for topic in list(self._logs):
            self.forget(topic, heads.get(topic, GONE))
        for topic, head in heads.items():
            self.forget(topic, head)

    def maintain(self) -> bool:
        return False

    def backup_command(self) -> Sequence[str]:
        raise FailedPreconditionError("This server keeps everything in memory: there is nothing on disk to back up.")

    def sizes(self) -> JournalSizes:
        return JournalSizes()

    def close(self) -> None:
        self._logs.clear()


class _Log:
    """The batches of one topic. `dead` entries at the front are forgotten. They are cut off in bulk, because cutting
    a list at its front moves the rest."""

    def __init__(self) -> None:
        self.firsts: list[int] = []
        self.batches: list[list[Message]] = []
        self.dead = 0

    def append(self, first: int, messages: list[Message]) -> None:
        if messages:
            self.firsts.append(first)
            self.batches.append(messages)

    def read(self, first: int, until: int) -> list[Message]:
        messages: list[Message] = []
        holding = bisect_right(self.firsts, first) - 1
        for index in range(max(self.dead, holding), len(self.batches)):
            start = self.firsts[index]
            if start >= until:
                break
            messages += self.batches[index][max(0, first - start) : until - start]
        return messages

    def find(self, at: int, floor: int) -> int | None:
        index = bisect_left(self.batches, at, lo=self.dead, key=lambda batch: batch[-1].publish_time)
        if index == len(self.batches):
            return None
        first, messages = self.firsts[index], self.batches[index]
        return max(floor, first + bisect_left(messages, at, key=lambda message: message.publish_time))

    def forget(self, until: int) -> None:
        index = self.dead
        while index < len(self.batches) and self.batches[index][-1].offset < until:
            self.batches[index] = []
            index += 1
        self.dead = index
        if self.dead * 2 > len(self.batches):
            del self.firsts[: self.dead], self.batches[: self.dead]
            self.dead = 0


_EMPTY = _Log()

"""The interface that every journal implements.

When `commit` returns, its content survives everything that the journal promises to survive. Commits survive whole or
not at all, and in the order in which they were made. One thread at a time (the writer) calls `commit`, `sweep` and
`maintain`. Any thread calls `read` and `find`, for committed messages only.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from typing import Any, NamedTuple, Protocol

from penstock.broker.dump import StateDump
from penstock.broker.facts import Fact
from penstock.broker.model import Batch, Message
from penstock.errors import InternalError, ResourceExhaustedError


class Commit(NamedTuple):
    """The content of one atomic write."""

    facts: Sequence[Fact]
    batches: Sequence[Batch]  # at most one per topic and step when the caller merges them
    snapshot: StateDump | None = None  # the state after `facts`, when one is due


class Recovered(NamedTuple):
    """The last snapshot of the state, and all later facts."""

    dump: StateDump | None
    facts: Sequence[Fact]


class JournalFullError(ResourceExhaustedError):
    """The disk is full: new messages are refused until space returns."""


class NotStorableError(InternalError):
    """A part of the change cannot be stored, so nothing of it was carried out."""


REFUSALS = (JournalFullError, NotStorableError)  # nothing of the commit was written, and the journal goes on


class JournalFailedError(InternalError):
    """The store could not make a write durable. The broker has stopped, as it does not know what is on disk."""


class JournalSizes(NamedTuple):
    """The disk space that a journal takes, and the free space. None: unknown."""

    bytes: int = 0
    wal_bytes: int = 0  # part of `bytes` in the write-ahead log
    free_bytes: int | None = None


class Journal(Protocol):
    durable: bool  # False: a commit is done when it is applied, without a wait

    def recover(self) -> Recovered:
        """Return the last snapshot and all later facts, checked. Called first, and again after a refusal."""

    def commit(self, commit: Commit) -> None:
        """Make one step durable. An error of REFUSALS means that nothing was written, JournalFailedError means stop."""

    def read(self, topic: int, first: int, until: int, whole: bool = False, max_bytes: int = 0) -> list[Message]:
        """Return the messages with first <= offset < until, complete and in order. Raise DamagedStoreError for a gap.

        Messages covered by `forget` or `sweep` are left out. With `whole` the answer may go on to the end of its last
        batch, so that the next call need not open that batch again. With `max_bytes` it may end with the batch that
        reaches this number of bytes.
        """

    def find(self, topic: int, at: int) -> int | None:
        """Return the first stored offset published at or after `at`, or None."""

    def forget(self, topic: int, until: int) -> None:
        """Allow to delete whole batches below `until`, now or later.

        `until` at the last possible offset means that the topic is deleted.
        """

    def sweep(self, heads: Mapping[int, int]) -> None:
        """Forget, after recovery, all messages below each topic's head, and all topics that `heads` does not name."""

    def maintain(self) -> bool:
        """Do a slice of idle-time work: give space back, checkpoint the log. Return True while there is more."""

    @property
    def snapshot_due(self) -> bool:
        """Whether enough facts came since the last snapshot for a new one."""

    @property
    def full(self) -> bool:
        """Whether new messages must be refused, so that acks still fit."""

    def backup_command(self) -> Sequence[str]:
        """Return the module and arguments of a Python process that copies this store while it is in use.

        The folder of the backup is one more argument. The process prints lines of JSON: {"progress": BackupProgress}
        now and then, at the end {"backup": BackupReport} or {"error": {"kind": ..., "message": ...}}. It can be killed.
        Raise FailedPreconditionError if nothing is stored.
        """

    def sizes(self) -> JournalSizes: ...

    def close(self) -> None:
        """Release everything. A new journal can open the same store afterwards."""


class StoredBatch(NamedTuple):
    """Consecutive messages as they were written. `body` was encoded by `codec.encode_messages`."""

    first: int
    until: int
    body: bytes


class LogReader(Protocol):
    """A reader of a store, for a process beside its writer. Any thread may call.

    It sees the committed log but not the heads of topics: messages below a head may still be there or not.
    """

    def batches(self, topic: int, first: int, until: int) -> Iterator[StoredBatch]:
        """Yield the batches with messages of a range, whole, checked and in order. A gap is a DamagedStoreError.

        Forgotten batches may be missing at the front.
        """

    def position_of(self, topic: int, offset: int) -> int:
        """Return the bytes of the topic's messages before an offset, at most the tail."""

    def offset_of(self, topic: int, position: int, low: int, high: int) -> int:
        """Return the first offset from `low` on that is at or after a position in bytes, at most `high`."""

    def close(self) -> None: ...


class StoreRows(Protocol):
    """The sealed rows of a store (`codec.py`) for a backup, while its writer goes on. For one thread.

    Each call returns a slice of the current store. Inside `view` all calls see the same commit.
    """

    def view(self) -> AbstractContextManager[None]: ...

    def last_commit(self) -> int: ...

    def snapshot(self) -> tuple[Any, ...] | None:
        """Return the newest snapshot."""

    def facts(self, after: int) -> list[tuple[Any, ...]]:
        """Return stored facts of commits above `after`, in order. An empty list means that there are no more."""

    def batches(self, topic: int, first: int) -> list[tuple[Any, ...]]:
        """Return batches of a topic that begin at `first` or later, in order. An empty list means no more."""

    def end(self, topic: int) -> int:
        """Return the offset after the last stored message of a topic. 0: no message is stored."""

    def next_batch(self, topic: int, first: int) -> BatchSeal | None:
        """Return the first batch at or after an offset, in this topic or a later one."""

    def size_bytes(self) -> int:
        """Return the approximate size of the store."""

    def close(self) -> None: ...


class Finding(NamedTuple):
    """The result of one check of a store."""

    check: str
    level: str  # "ok", "note", "problem"
    found: str
    advice: str = ""  # what to do, unless it is ok


class BackupProgress(NamedTuple):
    step: str  # "copying", then "checking"
    bytes: int
    total_bytes: int  # approximate


class BackupReport(NamedTuple):
    """The result of a backup that was written and checked."""

    number: int  # in its folder, from 1 on
    time: str  # of its start
    commit: int  # the last one in it
    topics: int
    messages: int
    files: int
    copied_bytes: int
    taken_over_bytes: int  # from the earlier backup


class BatchSeal(NamedTuple):
    """A stored batch without its body."""

    topic: int
    first: int
    until: int
    crc: int

"""The seam between the broker and what stores its facts: the methods that every journal implements.

When `commit` returns, its content survives whatever the journal promises to survive, whole or not at all, and
commits survive in the order in which they were made. `commit`, `sweep` and `maintain` are called by one thread at
a time (the writer); `read` and `find` by any thread, for committed messages only.
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


class JournalFailedError(InternalError):
    """The store could not make a write durable; the broker has stopped rather than guess what was kept."""


class JournalSizes(NamedTuple):
    """The disk space that a journal takes, and the free space. None: unknown."""

    bytes: int = 0
    wal_bytes: int = 0  # part of `bytes` in the write-ahead log
    free_bytes: int | None = None


class Journal(Protocol):
    durable: bool  # False: a commit is done when it is applied, there is nothing to wait for

    def recover(self) -> Recovered:
        """Return the last snapshot and every later fact, checked. Called first of all, and again after a refusal."""

    def commit(self, commit: Commit) -> None:
        """Make one step durable. JournalFullError: nothing was written. JournalFailedError: stop."""

    def read(self, topic: int, first: int, until: int, whole: bool = False, max_bytes: int = 0) -> list[Message]:
        """Return the messages with first <= offset < until, complete and in order. Raise DamagedStoreError for a gap.

        What `forget` or `sweep` covered is left out. With `whole` the answer may go on to the end of the batch it
        stopped in: a reader that comes back for the rest would have to open that batch again. With `max_bytes` it may
        end with the batch that reaches this number of bytes.
        """

    def find(self, topic: int, at: int) -> int | None:
        """Return the first stored offset published at or after `at`, or None."""

    def forget(self, topic: int, until: int) -> None:
        """Messages below `until` are no longer needed; whole batches below it may go, now or later.

        `until` at the last possible offset means that the topic is deleted.
        """

    def sweep(self, heads: Mapping[int, int]) -> None:
        """After recovery: forget below each topic's head, and everything of topics not named."""

    def maintain(self) -> bool:
        """A slice of idle-time work (give space back, move the log along); True while there is more."""

    @property
    def snapshot_due(self) -> bool:
        """Whether the facts since the last snapshot are worth a new one."""

    @property
    def full(self) -> bool:
        """Whether the journal asks for no new messages, so that acks still fit."""

    def backup_command(self) -> Sequence[str]:
        """The module and arguments with which Python copies this store while it is in use, in a process of its own.

        The folder of the backup is one more argument. The process prints lines of JSON: {"progress": BackupProgress}
        now and then, at the end {"backup": BackupReport} or {"error": {"kind": ..., "message": ...}}. It can be killed.
        FailedPreconditionError: nothing is stored.
        """

    def sizes(self) -> JournalSizes: ...

    def close(self) -> None:
        """Release everything; a journal that was closed can be opened again by a new one."""


class StoredBatch(NamedTuple):
    """Consecutive messages as they were written; `body` is what `codec.encode_messages` made of them."""

    first: int
    until: int
    body: bytes


class LogReader(Protocol):
    """The messages of a store, for a process beside the one that writes it. Any thread may call.

    It knows the committed log and nothing of heads: what is below a topic's head may still be there, or be gone.
    """

    def batches(self, topic: int, first: int, until: int) -> Iterator[StoredBatch]:
        """Every stored batch with messages of the range, whole, checked and in order; a gap is a DamagedStoreError.

        Batches may be missing at the front, if they were forgotten.
        """

    def position_of(self, topic: int, offset: int) -> int:
        """Bytes of the topic's messages before this one, which may be the next to come."""

    def offset_of(self, topic: int, position: int, low: int, high: int) -> int:
        """The first offset from `low` on at or behind a position in bytes, `high` if there is none below it."""

    def close(self) -> None: ...


class StoreRows(Protocol):
    """The sealed rows of a store (`codec.py`) for a backup, while its writer goes on. For one thread.

    Each call looks at the store as it is at that moment and gives a slice; inside `view` all look at one commit.
    """

    def view(self) -> AbstractContextManager[None]: ...

    def last_commit(self) -> int: ...

    def snapshot(self) -> tuple[Any, ...] | None:
        """The newest."""

    def facts(self, after: int) -> list[tuple[Any, ...]]:
        """Return stored facts of commits above `after`, in order. An empty list means that there are no more."""

    def batches(self, topic: int, first: int) -> list[tuple[Any, ...]]:
        """Batches of a topic that begin at `first` or later, in order; none: there are no more."""

    def end(self, topic: int) -> int:
        """The offset behind the last stored message of a topic; 0 if nothing of it is stored."""

    def next_batch(self, topic: int, first: int) -> BatchSeal | None:
        """The first batch at or behind a place, in this topic or the ones that follow."""

    def size_bytes(self) -> int:
        """About how much there is."""

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
    total_bytes: int  # about


class BackupReport(NamedTuple):
    """A backup that is written and checked."""

    number: int  # in its folder, from 1 on
    time: str  # when it was begun
    commit: int  # the last one that is in it
    topics: int
    messages: int
    files: int
    copied_bytes: int
    taken_over_bytes: int  # from the backup before


class BatchSeal(NamedTuple):
    """A stored batch without its body."""

    topic: int
    first: int
    until: int
    crc: int

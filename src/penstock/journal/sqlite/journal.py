"""SqliteJournal: commits, recovery, and calls to all other parts.

When `commit` returns, the facts and the messages of that step are synced in one transaction. When it raises
JournalFullError or NotStorableError, nothing of the step is stored. After any other failure the journal refuses every
call, because the content of the disk is unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import apsw

from penstock.broker.dump import StateDump
from penstock.broker.facts import Fact
from penstock.broker.model import Message
from penstock.errors import DamagedStoreError, PenstockError, UnavailableError
from penstock.journal.codec import (
    Row,
    encode_dump,
    encode_facts,
    open_facts,
    open_snapshot,
    parts,
    seal_batch,
    seal_facts,
    seal_snapshot,
)
from penstock.journal.floors import GONE, Floors
from penstock.journal.port import Commit, JournalFullError, JournalSizes, NotStorableError, Recovered
from penstock.journal.sqlite.chores import Chores
from penstock.journal.sqlite.connection import SQL, close_untouched, open_reader, value
from penstock.journal.sqlite.errors import Translation
from penstock.journal.sqlite.folder import Folder
from penstock.journal.sqlite.opening import open_checked
from penstock.journal.sqlite.readers import Readers
from penstock.journal.sqlite.reserve import RESERVE_BYTES, Reserve
from penstock.journal.sqlite.wal import WriteAheadLog

SNAPSHOT_BYTES = 4 << 20  # facts worth a snapshot, at least
ROW_BYTES = 1024  # of a row without its body, and more
SNAPSHOT_FACTOR = 4  # and at least this multiple of the size of the last snapshot


class SqliteJournal:
    durable = True

    def __init__(
        self,
        folder: Path,
        *,
        vfs: str | None = None,
        accept_loss: bool = False,
        reserve_bytes: int = RESERVE_BYTES,
        log: Callable[[str], None] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._log = log or (lambda line: None)
        self._accept_loss = accept_loss
        self._refusal: PenstockError | None = None
        self._removes = False
        self._folder = Folder(folder)
        self._reading = Translation(writing=False)
        self._writing = Translation(writing=True, stop=self._stop)
        try:
            self._writer, self._mark, self._seq = open_checked(self._folder, vfs, accept_loss, self._log)
        except BaseException:
            if self._folder.is_new:
                self._folder.remove()
            self._folder.release()
            raise
        self._fact_bytes = self._snapshot_bytes = 0
        self._floors = Floors()
        self._readers = Readers(lambda: open_reader(self._folder.database, vfs), self._floors)
        self._reserve = Reserve(self._folder.reserve, reserve_bytes, clock=clock, log=self._log)
        self._wal = WriteAheadLog(self._writer, self._reserve.size)
        self._chores = Chores(self._writer, self._wal)

    # -- the state -------------------------------------------------------------------------------------------------

    def recover(self) -> Recovered:
        self._require_usable()
        try:
            with self._reading, self._readers.connection() as reader, reader:  # one view for both queries
                dump, seq = self._recover_dump(reader)
                facts = self._recover_facts(reader, seq)
        except DamagedStoreError as error:
            self._stop(error)
            raise
        return Recovered(dump, facts)

    def commit(self, commit: Commit) -> None:
        self._require_usable()
        try:
            facts = encode_facts(commit.facts)
            batches = [seal_batch(part) for batch in commit.batches if batch.messages for part in parts(batch)]
            snapshot = None if commit.snapshot is None else self._encode_dump(commit.snapshot)
        except Exception as error:  # nothing was written yet
            raise NotStorableError() from error
        self._reserve.regain()
        try:
            self._write(facts, batches, snapshot)
        except JournalFullError:
            if not self._reserve.release():
                raise
            self._write(facts, batches, snapshot)
        self._note(facts, snapshot)

    @property
    def snapshot_due(self) -> bool:
        return self._fact_bytes > max(SNAPSHOT_BYTES, SNAPSHOT_FACTOR * self._snapshot_bytes)

    @property
    def full(self) -> bool:
        return self._reserve.released

    # -- the messages ----------------------------------------------------------------------------------------------

    def read(self, topic: int, first: int, until: int, whole: bool = False, max_bytes: int = 0) -> list[Message]:
        self._require_usable()
        first = max(first, self._floors[topic])
        if first >= until:
            return []
        with self._reading:
            return self._readers.read(topic, first, until, whole, max_bytes)

    def find(self, topic: int, at: int) -> int | None:
        self._require_usable()
        if self._floors[topic] >= GONE:
            return None
        with self._reading:
            return self._readers.find(topic, at)

    def forget(self, topic: int, until: int) -> None:
        self._require_usable()
        if self._floors.lift(topic, until):
            self._chores.forget(topic, until)

    def sweep(self, heads: Mapping[int, int]) -> None:
        self._require_usable()
        with self._reading:
            stored = self._chores.stored_topics()
        for topic in stored:
            self.forget(topic, heads.get(topic, GONE))
        for topic, head in heads.items():  # of topics without stored messages, too: below the head is no gap
            self._floors.lift(topic, head)

    def maintain(self) -> bool:
        self._require_usable()
        self._reserve.regain()
        try:
            with self._writing:
                return self._chores.slice()
        except JournalFullError:  # deleting needs a little space as well
            return self._reserve.release()

    def backup_command(self) -> Sequence[str]:
        return ["penstock.journal.sqlite.backup", str(self._folder.path)]

    def remove_if_new(self) -> None:
        """Let closing remove the store after a failed start, unless it existed before."""
        self._removes = self._folder.is_new

    def sizes(self) -> JournalSizes:
        return self._folder.sizes()

    def close(self) -> None:
        if isinstance(self._refusal, UnavailableError):  # closed before
            return
        trusted, self._refusal = self._refusal is None, UnavailableError("The journal is closed.")
        self._readers.close()
        try:
            with Translation(writing=True):
                if trusted:
                    with suppress(apsw.FullError):  # then the log stays, and is whole
                        self._wal.checkpoint()  # closing does this, too, but swallows its errors
                    with suppress(apsw.FullError):
                        self._writer.close()
                    self._mark.settle(self._seq, clean=True)
                else:
                    close_untouched(self._writer)
        finally:
            self._mark.close()
            if self._removes:
                self._folder.remove()
            self._folder.release()

    # -- inside ----------------------------------------------------------------------------------------------------

    def _require_usable(self) -> None:
        if self._refusal is not None:
            raise type(self._refusal)(self._refusal.message)

    def _stop(self, error: PenstockError) -> None:
        self._refusal = error

    def _recover_dump(self, reader: apsw.Connection) -> tuple[StateDump | None, int]:
        """Return the newest snapshot and its commit. A damaged one is skipped only if losses are accepted: the facts
        since the one before it are kept, so the state is the same."""
        rows: list[Row] = reader.execute(SQL["snapshots_newest"]).fetchall()
        self._cover([row[0] for row in rows])
        for row in rows:
            try:
                dump = open_snapshot(row)
            except DamagedStoreError as error:
                if not self._accept_loss:
                    raise
                self._log(f"{error} The snapshot before it is used.")
                continue
            self._snapshot_bytes = len(row[2])
            return dump, int(row[0])
        return None, 0

    def _recover_facts(self, reader: apsw.Connection, seq: int) -> list[Fact]:
        facts: list[Fact] = []
        self._fact_bytes = 0
        for row in reader.execute(SQL["facts_after"], (seq,)):
            if row[0] != seq + 1:
                break
            seq += 1
            facts += open_facts(row)
            self._fact_bytes += len(row[2])
        if seq != self._seq:
            raise DamagedStoreError(f"The store is damaged: commit {seq + 1} of {self._seq} is missing.")
        return facts

    def _encode_dump(self, dump: StateDump) -> bytes | None:
        """Return a snapshot, or None if it is too large for a row. Then the next start reads more facts."""
        body = encode_dump(dump)
        if len(body) < self._writer.limit(apsw.SQLITE_LIMIT_LENGTH) - ROW_BYTES:
            return body
        self._log(
            f"The state has {len(body) >> 20:,} MiB and is too large for a snapshot: the next start takes longer."
        )
        self._fact_bytes, self._snapshot_bytes = 0, len(body)  # the next one is due after as many facts as otherwise
        return None

    def _write(self, facts: bytes, batches: list[Row], snapshot: bytes | None) -> None:
        execute = self._writer.execute
        with self._writing:
            try:
                execute(SQL["begin"])
                execute(SQL["add_facts"], seal_facts(self._seq + 1, facts))
                for row in batches:
                    execute(SQL["add_batch"], row)
                if snapshot is not None:  # two are kept, with the facts since the older one
                    older = value(self._writer, SQL["last_snapshot_seq"])
                    execute(SQL["add_snapshot"], seal_snapshot(self._seq + 1, snapshot))
                    if older is not None:
                        execute(SQL["drop_snapshots_below"], (older,))
                execute(SQL["commit"])
            finally:
                if self._writer.in_transaction:  # a commit that failed stays open
                    execute(SQL["rollback"])

    def _note(self, facts: bytes, snapshot: bytes | None) -> None:
        """Do the work that follows a durable commit."""
        self._seq += 1
        self._fact_bytes += len(facts)
        try:
            self._mark.write(self._seq)
        except OSError as error:  # the commit is durable; only the notice of a later loss would be late
            self._log(f"The high-water mark of {self._folder.path} could not be written: {error.strerror}.")
        if snapshot is not None:
            self._fact_bytes, self._snapshot_bytes = 0, len(snapshot)
            with self._reading:
                self._cover([seq for (seq,) in self._writer.execute(SQL["snapshot_seqs"]).fetchall()])
        try:
            with self._writing:
                self._wal.relieve(tight=self.full)
        except JournalFullError:  # the commit itself is durable in the log; the database grows when there is room
            self._reserve.release()

    def _cover(self, snapshots: list[Any]) -> None:
        """Allow to delete the facts up to the older of two snapshots."""
        if len(snapshots) == 2:
            self._chores.cover(snapshots[1])

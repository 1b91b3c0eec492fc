"""The checks of a backup: every checksum, the recovered state, and that all messages of the state are there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from penstock.broker.facts import Fact
from penstock.broker.state import State
from penstock.errors import DamagedStoreError, PenstockError
from penstock.journal.backup.folder import reading
from penstock.journal.backup.manifest import Manifest, RowFile, Run, read_manifest
from penstock.journal.backup.rows import BytesRead, damaged, read_rows, require_file
from penstock.journal.codec import BATCH_ROW, FACTS_ROW, SNAPSHOT_ROW, Row, check_batch, open_facts, open_snapshot
from penstock.journal.port import Finding


class Recovery:
    """The state that is recovered from rows of snapshots and facts, and its time."""

    def __init__(self) -> None:
        self.state = State()
        self.commit = 0
        self.crc = 0  # of the last facts
        self.at = 0

    def begin(self, snapshot: Row, facts: Sequence[Row]) -> None:
        """Begin with a snapshot. The first of `facts` must be of the snapshot's own commit, which it includes."""
        dump = open_snapshot(snapshot)
        if not facts or facts[0][0] != snapshot[0]:
            raise DamagedStoreError(f"The store is damaged: commit {snapshot[0]} is missing.")
        open_facts(facts[0])
        self.state, self.commit, self.at, self.crc = State.load(dump), snapshot[0], dump.at, facts[0][1]

    def read(self, rows: Iterable[tuple[bytes, Row]]) -> None:
        """Read the rows of one file: facts, and perhaps a snapshot before them."""
        snapshot: Row | None = None
        for kind, row in rows:
            if kind == SNAPSHOT_ROW:
                snapshot = row
            elif kind != FACTS_ROW:
                raise DamagedStoreError("The store is damaged: a row of another kind is among its facts.")
            elif snapshot is not None:
                self.begin(snapshot, [row])
                snapshot = None
            else:
                self.add(row)

    def add(self, facts: Row) -> list[Fact]:
        """Apply the facts of the next commit, and return them."""
        opened = open_facts(facts)
        if facts[0] != self.commit + 1:
            raise DamagedStoreError(f"The store is damaged: commit {self.commit + 1} is missing.")
        for fact in opened:
            self.state.apply(fact)
            self.at = max(self.at, getattr(fact, "at", 0))
        self.commit, self.crc = facts[0], facts[1]
        return opened


class Checked(NamedTuple):
    """A backup that is whole."""

    manifest: Manifest
    recovery: Recovery

    def needed(self, run: Run) -> bool:
        return is_needed(self.recovery.state, run)


def check_backup(
    manifest: Manifest,
    folder: Path,
    *,
    unread: Iterable[str] = (),  # files whose content is not read, because an earlier check did
    progress: BytesRead = lambda size: None,
) -> Checked:
    """Check that a backup can be restored, or raise a DamagedStoreError that names the file."""
    recovery = Recovery()
    skipped = set(unread)
    for file in manifest.files:
        require_file(folder, file)
    for file in manifest.state:
        recover_file(folder, file, recovery, progress)
    for file in manifest.batches:
        if file.name not in skipped:
            _check_batches(folder, file, progress)
    state = recovery.state
    if (state.identity, recovery.commit, recovery.crc) != (manifest.store, manifest.commit, manifest.crc):
        raise DamagedStoreError("The backup is damaged: its files lead to another store or commit than its manifest.")
    require_messages(state, [run for file in manifest.batches for run in file.runs])
    return Checked(manifest, recovery)


def is_needed(state: State, run: Run) -> bool:
    topic = state.topics.get(run.topic)
    return topic is not None and run.until > topic.head


def require_messages(state: State, runs: Iterable[Run]) -> None:
    """Check that the backup has exactly the messages that the state knows."""
    reached = {topic.number: topic.head for topic in state.topics.values()}
    for run in sorted(runs, key=lambda run: (run.topic, run.first)):
        if is_needed(state, run) and run.first <= reached[run.topic]:
            reached[run.topic] = max(reached[run.topic], run.until)
    for topic in state.topics.values():
        if reached[topic.number] != topic.tail:
            raise DamagedStoreError(
                f"The backup is damaged: topic {topic.number} has messages up to offset {reached[topic.number]}, "
                f"not {topic.tail}."
            )


def recover_file(folder: Path, file: RowFile, recovery: Recovery, progress: BytesRead = lambda size: None) -> None:
    """Recover from the rows of one file of state."""
    try:
        recovery.read(read_rows(folder, file, progress))
    except (DamagedStoreError, KeyError) as error:
        raise _name_file(error, file) from error


def _check_batches(folder: Path, file: RowFile, progress: BytesRead) -> None:
    try:
        for kind, row in read_rows(folder, file, progress):
            if kind != BATCH_ROW:
                raise damaged(file)
            check_batch(row)
    except DamagedStoreError as error:
        raise _name_file(error, file) from error


def _name_file(error: Exception, file: RowFile) -> DamagedStoreError:
    """Name the file in an error, because an operator can replace a file but not a row."""
    return error if isinstance(error, DamagedStoreError) and file.name in error.message else damaged(file)


def examine_backup(folder: Path, progress: Callable[[int, int], None]) -> Finding:
    """Check a backup as a restore does."""
    done = 0
    try:
        with reading(folder):
            manifest = read_manifest(folder)
            total = sum(file.bytes for file in manifest.files)

            def report(size: int) -> None:
                nonlocal done
                done += size
                progress(done, total)

            check_backup(manifest, folder, progress=report)
    except PenstockError as error:
        return Finding("backup", "problem", error.message, "Make another one, in a new folder.")
    what = f"Backup {manifest.number} of {manifest.time}, {len(manifest.files):,} files with {total:,} bytes"
    return Finding("backup", "ok", f"{what}: whole, and every checksum matches.")

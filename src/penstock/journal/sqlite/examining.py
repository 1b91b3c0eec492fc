"""The checks of `penstock doctor` on a data folder, in use or not. They change nothing.

Beside a server the checks read as a backup does, in slices, so that they hold nothing up.
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Callable, Iterator
from pathlib import Path

import apsw

from penstock.broker.topic import Topic
from penstock.errors import DamagedStoreError, FailedPreconditionError, PenstockError
from penstock.journal.backup.checking import Recovery
from penstock.journal.codec import check_batch, first_of
from penstock.journal.port import Finding
from penstock.journal.sqlite.connection import require_engine
from penstock.journal.sqlite.folder import UNFINISHED, database_in
from penstock.journal.sqlite.mark import read_mark
from penstock.journal.sqlite.opening import CHECKED_BYTES
from penstock.journal.sqlite.reserve import RESERVE_BYTES
from penstock.journal.sqlite.rows import SqliteRows

RESTORE = "Restore a backup."
WAL_BYTES = 128 << 20  # more than the log has, unless a reader holds its view for long


def holder_of(data: Path) -> int | None:
    """Return the process that has a store open. 0: unknown which."""
    try:
        lock = os.open(data / "lock", os.O_RDONLY)
    except OSError:
        return None
    try:
        fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        text = os.pread(lock, 20, 0).decode(errors="replace").strip()
        return int(text) if text.isdigit() else 0
    finally:
        os.close(lock)
    return None


def examine(data: Path, *, deep: bool, now: int, progress: Callable[[int, int], None]) -> Iterator[Finding]:
    yield _engine()
    database = database_in(data)
    if (data / UNFINISHED).exists():
        yield Finding("restore", "problem", "A restore into this folder was not finished.", "Run it again.")
    if not database.exists():
        yield Finding("store", "note", "There is no store in this folder.", "penstock serve makes one.")
        return
    yield _privacy(data, database)
    try:
        marked = read_mark(data / "mark")  # before the store, which may get more commits meanwhile
        rows = SqliteRows(data)
    except OSError as error:
        yield Finding("store", "problem", f"The store cannot be read: {error.strerror}.", "Look as its owner.")
        return
    except PenstockError as error:
        yield _damage_finding(error)
        return
    try:
        yield from _content(rows, data, marked.seq if marked else None, now, deep, progress)
    except PenstockError as error:
        yield _damage_finding(error)
    finally:
        rows.close()


def _damage_finding(error: PenstockError) -> Finding:
    return Finding("store", "problem", error.message.removesuffix(RESTORE).strip(), RESTORE)


def _engine() -> Finding:
    version = apsw.sqlite_lib_version()
    try:
        require_engine(version)
    except FailedPreconditionError as error:
        return Finding("engine", "problem", error.message, "Install a newer apsw.")
    return Finding("engine", "ok", f"SQLite {version}.")


def _privacy(data: Path, database: Path) -> Finding:
    if data.stat().st_mode & 0o077 and database.stat().st_mode & 0o077:
        return Finding("privacy", "problem", "Others on this machine can read the store.", f"chmod -R go= {data}")
    return Finding("privacy", "ok", "Only its owner can read the store.")


def _content(
    rows: SqliteRows, data: Path, marked: int | None, now: int, deep: bool, progress: Callable[[int, int], None]
) -> Iterator[Finding]:
    yield _structure(rows)
    recovery = _recover(rows)
    state = recovery.state
    messages = sum(topic.tail - topic.head for topic in state.topics.values())
    counts = {"topic": len(state.topics), "subscription": len(state.subscriptions), "message": messages}
    what = ", ".join(f"{count:,} {name}{'s' if count != 1 else ''}" for name, count in counts.items())
    yield Finding("store", "ok", f"{what}; {recovery.commit:,} commits so far.")
    yield _mark(marked, recovery.commit)
    yield _clock(recovery.at, now)
    yield from _sizes(data)
    if deep:
        yield _every_row(rows, recovery, progress)


def _structure(rows: SqliteRows) -> Finding:
    size = rows.size_bytes()
    if size > CHECKED_BYTES:
        return Finding(
            "structure", "ok", f"{size >> 20:,} MiB: too large to look at as a whole; --deep reads each row."
        )
    verdict = rows.quick_check()
    if verdict != "ok":
        return Finding("structure", "problem", f"The database is damaged: {verdict}.", RESTORE)
    return Finding("structure", "ok", "The database is whole.")


def _recover(rows: SqliteRows) -> Recovery:
    recovery = Recovery()
    with rows.view():
        if (snapshot := rows.snapshot()) is not None:
            recovery.begin(snapshot, rows.facts(snapshot[0] - 1))
        while facts := rows.facts(recovery.commit):
            for row in facts:
                recovery.add(row)
    return recovery


def _mark(marked: int | None, commit: int) -> Finding:
    if marked is None:
        advice = "Nothing: the next start writes it again."
        return Finding(
            "mark", "note", "The high-water mark is missing or damaged: lost commits would go unseen.", advice
        )
    if marked > commit:
        found = f"The store ends at commit {commit:,}, and {marked - commit:,} more were answered: they are lost."
        return Finding(
            "mark", "problem", found, f"{RESTORE[:-1]}; or go on without them: penstock serve --accept-loss."
        )
    return Finding("mark", "ok", f"Mark and store agree, up to commit {marked:,}.")


def _clock(at: int, now: int) -> Finding:
    behind = (at - now) // 10**9
    if behind >= 1:
        level = "problem" if behind > 3600 else "note"
        return Finding("clock", level, f"The clock is {behind:,} seconds behind the store.", "Set the clock: NTP.")
    if at and -behind > 366 * 86400:
        found = f"The store was last used {-behind // 86400:,} days ago, by this clock."
        return Finding("clock", "note", found, "Set the clock, if that is not so.")
    return Finding("clock", "ok", "The clock is not behind the store.")


def _sizes(data: Path) -> Iterator[Finding]:
    database = database_in(data)
    log = database.with_name(f"{database.name}-wal")
    size = log.stat().st_size if log.exists() else 0
    if size > WAL_BYTES:
        advice = "Look for a program that holds the database open."
        yield Finding("log", "note", f"The write-ahead log has {size >> 20:,} MiB.", advice)
    reserve = data / "reserve"
    if not reserve.exists() or reserve.stat().st_size < min(RESERVE_BYTES, 1 << 20):
        found = "No space is set aside for a full disk: the disk was full, or no server ran here yet."
        yield Finding("reserve", "note", found, "Make room; a running server takes it back by itself.")


def _every_row(rows: SqliteRows, recovery: Recovery, progress: Callable[[int, int], None]) -> Finding:
    checked = size = 0
    total = rows.size_bytes()
    for topic in recovery.state.topics.values():
        reached = -1  # messages below the head may be there or not
        while batches := rows.batches(topic.number, max(reached, 0)):
            for row in batches:
                check_batch(row)
                start = first_of(row[0])
                if start > (topic.head if reached < 0 else reached):
                    _require_forgotten(rows, topic, max(reached, topic.head), start)
                reached = row[1]
                size += len(row[4])
            checked += len(batches)
            progress(size, max(size, total))
        if reached < topic.tail > topic.head:
            _require_forgotten(rows, topic, max(reached, topic.head), topic.tail)
    return Finding("rows", "ok", f"Every message matches its checksum and none is missing: {checked:,} rows.")


def _require_forgotten(rows: SqliteRows, topic: Topic, first: int, until: int) -> None:
    """Raise DamagedStoreError for missing messages, unless a server has forgotten them since the state was read."""
    now = _recover(rows).state.topics.get(topic.number)
    if now is not None and now.head < until:
        raise DamagedStoreError(
            f"The store is damaged: topic {topic.name} lacks messages from offset {first} to {until}."
        )

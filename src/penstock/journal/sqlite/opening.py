"""The checks when a store is opened.

A store in doubt is refused and left as it was found, including the log that SQLite would cut. Only the operator decides
to continue after a loss.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack

import apsw

from penstock.errors import DamagedStoreError
from penstock.journal.sqlite.connection import SQL, close_untouched, open_writer, require_engine, value
from penstock.journal.sqlite.errors import Translation
from penstock.journal.sqlite.folder import Folder
from penstock.journal.sqlite.mark import Mark
from penstock.wording import counted

# The structure of a database up to this size is checked at the start (about 0.2 s per GiB from memory). A larger one is
# checked as it is read: every row has a checksum, every range is complete or an error.
CHECKED_BYTES = 256 << 20
CHECKED_UNCLEAN_BYTES = 1 << 30  # after a crash


def open_checked(
    folder: Folder, vfs: str | None, accept_loss: bool, log: Callable[[str], None]
) -> tuple[apsw.Connection, Mark, int]:
    """Return the writer, the mark, and the number of the last commit."""
    require_engine(apsw.sqlite_lib_version())
    used = folder.database.exists() and folder.database.stat().st_size > 0
    with Translation(folder.path, writing=False), ExitStack() as undo:
        mark = Mark(folder.mark)
        undo.callback(mark.close)
        writer = open_writer(folder.database, vfs)
        undo.callback(close_untouched, writer)
        seq = _check(folder, writer, mark, used, accept_loss, log)
        undo.pop_all()  # from here on the journal closes them
    return writer, mark, seq


def _check(
    folder: Folder, writer: apsw.Connection, mark: Mark, used: bool, accept_loss: bool, log: Callable[[str], None]
) -> int:
    folder.protect()
    seq: int = value(writer, SQL["last_seq"]) or 0
    reading = mark.read()
    if used and not (reading and reading.whole):
        log(
            f"The high-water mark of {folder.path} was missing or damaged and is written again; the store ends at "
            f"commit {seq}, and whether there were more cannot be told."
        )
    if reading and reading.seq > seq:
        missing = f"its last {counted(reading.seq - seq, 'commit')}: it ends at {seq}, not at {reading.seq}."
        loss = f"The store in {folder.path} has lost {missing}"
        if not accept_loss:
            raise DamagedStoreError(f"{loss} Restore a backup, or go on without them: penstock serve --accept-loss.")
        log(f"{loss} The loss was accepted.")
    most = CHECKED_BYTES if reading and reading.clean else CHECKED_UNCLEAN_BYTES
    small = folder.database.stat().st_size < most
    checks = ["PRAGMA quick_check(1)"] if small else ["PRAGMA quick_check(facts)", "PRAGMA quick_check(snapshots)"]
    for check in checks:
        for (verdict,) in writer.execute(check):
            if verdict != "ok":
                raise DamagedStoreError(f"The store in {folder.path} is damaged: {verdict}. Restore a backup.")
    mark.settle(seq, clean=False)
    return seq

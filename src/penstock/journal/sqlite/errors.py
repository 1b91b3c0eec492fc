"""What went wrong in the engine, said in the broker's words: the one table.

The rule kept here: whoever opens a store is told its place; what happens to an open one may be told to any client, and
names none. A failed write is never explained away. Only "no space" may be tried again; every other failure
to write or sync means that nobody knows what the disk holds, and the journal stops.
"""

from __future__ import annotations

import errno
from pathlib import Path
from types import TracebackType

import apsw

from penstock.errors import DamagedStoreError, PenstockError, UnavailableError
from penstock.journal.port import JournalFailedError, JournalFullError

_NO_SPACE = {apsw.SQLITE_IOERR_SHMSIZE}  # the shared memory beside the log could not grow: the disk is full, too
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.ConstraintError, UnicodeDecodeError)
_CLOSED = (apsw.BusyError, apsw.CantOpenError, apsw.ConnectionClosedError, PermissionError)
_FOREIGN = (apsw.Error, UnicodeDecodeError, OSError)


def translate(error: Exception, place: Path | None, *, writing: bool) -> PenstockError:
    store = "The store" if place is None else f"The store in {place}"
    reason = error.strerror if isinstance(error, OSError) else error  # the text of an OSError names its file
    if _is_full(error):
        return JournalFullError("The disk is full: new messages are refused until space returns.")
    if isinstance(error, _DAMAGE):
        return DamagedStoreError(f"{store} is damaged: {reason}. Nothing was changed; restore a backup.")
    if isinstance(error, _CLOSED):
        return UnavailableError(f"{store} cannot be used now: {reason}.")
    if writing:
        return JournalFailedError(f"{store} could not make a write durable ({reason}); it has stopped.")
    return DamagedStoreError(f"{store} cannot be read: {reason}.")


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in _NO_SPACE


class Translation:
    """A context in which the engine's errors become ours. It holds no state, so one serves every thread."""

    def __init__(self, place: Path | None = None, *, writing: bool) -> None:
        self._place, self._writing = place, writing

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, _FOREIGN):
            raise translate(error, self._place, writing=self._writing) from error

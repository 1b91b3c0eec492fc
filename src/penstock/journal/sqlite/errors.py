"""What went wrong in the engine, said in the broker's words: the one table.

The rule kept here: a failed write is never explained away. Only "no space" may be tried again; every other failure
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


def translate(error: Exception, place: Path, *, writing: bool) -> PenstockError:
    if _is_full(error):
        return JournalFullError(f"The disk of {place} is full: new messages are refused until space returns.")
    if isinstance(error, _DAMAGE):
        return DamagedStoreError(f"The store in {place} is damaged: {error}. Nothing was changed; restore a backup.")
    if isinstance(error, _CLOSED):
        return UnavailableError(f"The store in {place} cannot be used now: {error}.")
    if writing:
        return JournalFailedError(f"The store in {place} could not make a write durable ({error}); it has stopped.")
    return DamagedStoreError(f"The store in {place} cannot be read: {error}.")


def _is_full(error: Exception) -> bool:
    if isinstance(error, OSError):
        return error.errno in (errno.ENOSPC, errno.EDQUOT)
    return isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in _NO_SPACE


class Translation:
    """A context in which the engine's errors become ours. It holds no state, so one serves every thread."""

    def __init__(self, place: Path, *, writing: bool) -> None:
        self._place, self._writing = place, writing

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if isinstance(error, _FOREIGN):
            raise translate(error, self._place, writing=self._writing) from error

"""The table from errors of SQLite to errors of the broker.

An error while opening a store names its folder. An error of an open store may reach any client, so it names none. Only
"no space" may be retried. After any other failure to write or sync, the content of the disk is unknown, and the journal
stops.
"""

from __future__ import annotations

import errno
from collections.abc import Callable
from pathlib import Path
from types import TracebackType

import apsw

from penstock.errors import DamagedStoreError, PenstockError, UnavailableError
from penstock.journal.port import JournalFailedError, JournalFullError, NotStorableError

_NO_SPACE = {apsw.SQLITE_IOERR_SHMSIZE}  # the shared memory beside the log could not grow: the disk is full, too
_DAMAGE = (apsw.CorruptError, apsw.NotADBError, apsw.FormatError, apsw.ConstraintError, UnicodeDecodeError)
_CLOSED = (apsw.BusyError, apsw.CantOpenError, apsw.ConnectionClosedError, PermissionError)
_FOREIGN = (apsw.Error, UnicodeDecodeError, OSError)


def translate(error: Exception, place: Path | None, *, writing: bool) -> PenstockError:
    store = "The store" if place is None else f"The store in {place}"
    reason = error.strerror if isinstance(error, OSError) else error  # the text of an OSError names its file
    no_space = isinstance(error, apsw.FullError) or getattr(error, "extendedresult", 0) in _NO_SPACE
    if no_space or (isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT)):
        return JournalFullError("The disk is full: new messages are refused until space returns.")
    if isinstance(error, apsw.TooBigError):  # refused before anything was written
        return NotStorableError()
    if isinstance(error, _DAMAGE):
        return DamagedStoreError(f"{store} is damaged: {reason}. Nothing was changed; restore a backup.")
    if isinstance(error, _CLOSED):
        return UnavailableError(f"{store} cannot be used now: {reason}.")
    if writing:
        return JournalFailedError(f"{store} could not make a write durable ({reason}); it has stopped.")
    return DamagedStoreError(f"{store} cannot be read: {reason}.")


class Translation:
    """A context that translates the errors of SQLite. It holds no state, so all threads can share one.

    `stop` is called with an error after which the store must not be used.
    """

    def __init__(
        self, place: Path | None = None, *, writing: bool, stop: Callable[[PenstockError], None] | None = None
    ) -> None:
        self._place, self._writing, self._stop = place, writing, stop

    def __enter__(self) -> None:
        return None

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        translated = translate(error, self._place, writing=self._writing) if isinstance(error, _FOREIGN) else error
        if self._stop is not None and isinstance(translated, JournalFailedError | DamagedStoreError):
            self._stop(translated)
        if translated is not None and translated is not error:
            raise translated from error

"""The folder of a backup. One process at a time writes it, and it leaves other files alone."""

from __future__ import annotations

import errno
import fcntl
import os
import re
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from penstock.errors import FailedPreconditionError, NotFoundError, ResourceExhaustedError
from penstock.journal.backup.disk import Disk
from penstock.journal.backup.manifest import NEW_NAME, Manifest, read_manifest
from penstock.journal.backup.rows import require_file

LOCK = "lock"
ROWS = re.compile(r"(?:messages|state)-(\d{6,})\.rows")


@contextmanager
def open_folder(folder: Path, disk: Disk) -> Iterator[Manifest | None]:
    """Yield the manifest of the earlier backup, if any. Files of an interrupted run are removed."""
    is_new, has_lock = not folder.exists(), (folder / LOCK).exists()
    try:
        disk.make_folder(folder)
        lock = os.open(folder / LOCK, os.O_RDWR | os.O_CREAT, 0o600)
        try:
            _hold(lock)
            earlier = _earlier(folder)
            _remove_rest(folder, earlier, disk)
            yield earlier
        except BaseException:
            if not has_lock:
                _remove_lock(folder, is_new)
            raise
        finally:
            os.close(lock)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise _no_room() from error
        raise FailedPreconditionError(f"The backup cannot be written: {error.strerror}.") from error


@contextmanager
def reading(folder: Path) -> Iterator[None]:
    """Keep backups from changing the folder meanwhile."""
    lock = -1
    with suppress(OSError):  # no lock, or a read-only disk: nothing changes it there
        lock = os.open(folder / LOCK, os.O_RDONLY)
    try:
        if lock >= 0:
            fcntl.flock(lock, fcntl.LOCK_SH | fcntl.LOCK_NB)
        yield
    except BlockingIOError as error:
        raise FailedPreconditionError("A backup into this folder is running.") from error
    finally:
        if lock >= 0:
            os.close(lock)


def number_of(name: str) -> int:
    """Return the number of a file of rows, or 0 for another file."""
    match = ROWS.fullmatch(name)
    return int(match[1]) if match else 0


def require_room(folder: Path, disk: Disk) -> None:
    if not disk.has_room(folder):
        raise _no_room()


def _no_room() -> ResourceExhaustedError:
    return ResourceExhaustedError(
        "There is no room for the backup on its disk. An earlier backup in the folder is unchanged."
    )


def _hold(lock: int) -> None:
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise FailedPreconditionError("Another backup into this folder is running.") from error


def _earlier(folder: Path) -> Manifest | None:
    try:
        manifest = read_manifest(folder)
    except NotFoundError:
        if any(not _is_ours(entry) for entry in folder.iterdir()):
            raise FailedPreconditionError(
                "This folder holds other files; name one that is new, or empty, or holds a backup."
            ) from None
        return None
    for file in manifest.files:
        require_file(folder, file)
    return manifest


def _remove_rest(folder: Path, earlier: Manifest | None, disk: Disk) -> None:
    known = {file.name for file in earlier.files} if earlier else set()
    for entry in folder.iterdir():
        if _is_ours(entry) and entry.name != LOCK and entry.name not in known:
            disk.remove(entry)


def _remove_lock(folder: Path, is_new: bool) -> None:
    """Remove the lock of a backup that failed, and its folder if it is new."""
    with suppress(OSError):
        (folder / LOCK).unlink()
        if is_new:
            folder.rmdir()


def _is_ours(entry: Path) -> bool:
    return entry.name in (LOCK, NEW_NAME) or ROWS.fullmatch(entry.name) is not None

"""The data folder: private to its owner, and used by one process at a time.

The holder of the lock is the only writer, and processes that it started may read. The folder itself is locked, because
a lock file can be removed under its holder. The file is locked too, and holds the process id. Only SQLite opens the
database, because closing it by other means in the same process would cancel the locks.
"""

from __future__ import annotations

import fcntl
import os
import shutil
from contextlib import suppress
from pathlib import Path

from penstock.errors import FailedPreconditionError, UnavailableError
from penstock.journal.port import JournalSizes

UNFINISHED = "restoring"  # the folder in which an interrupted restore left its files


class Folder:
    def __init__(self, path: Path, *, unfinished: bool = False) -> None:
        self.path = path.absolute()
        left = self.path / UNFINISHED
        if left.exists() and not unfinished and not database_in(self.path).exists():
            raise FailedPreconditionError(
                f"A restore into {self.path} was not finished: run it again, or remove {left}."
            )
        self.database = database_in(self.path)
        self.mark = self.path / "mark"
        self.reserve = self.path / "reserve"
        self._made = [path for path in (self.path, *self.path.parents) if not path.exists()]
        try:
            self._make()
            self._locks = [os.open(self.path, os.O_RDONLY)]
            self._locks.append(os.open(self.path / "lock", os.O_RDWR | os.O_CREAT, 0o600))
        except OSError as error:
            raise UnavailableError(f"The data folder {self.path} cannot be used: {error.strerror}.") from error
        self._hold()
        self.is_new = not (self.database.exists() or self.mark.exists())
        if not unfinished:
            shutil.rmtree(left, ignore_errors=True)  # of a restore that only had to clean up

    def remove(self) -> None:
        """Remove the files and empty folders that opening a new store created."""
        for file in (*self._database_files(), self.mark, self.reserve, self.path / "lock"):
            file.unlink(missing_ok=True)
        with suppress(OSError):  # it is not empty, or not ours to remove
            for folder in self._made:
                folder.rmdir()

    def release(self) -> None:
        for lock in self._locks:
            os.close(lock)

    def sizes(self) -> JournalSizes:
        """Return the sizes of the files, and the free space on the disk."""
        wal, usage = self.database.with_name(f"{self.database.name}-wal"), os.statvfs(self.path)
        sizes = [file.stat().st_size if file.exists() else 0 for file in (self.database, wal)]
        return JournalSizes(sum(sizes), sizes[1], usage.f_bavail * usage.f_frsize)

    def protect(self) -> None:
        """Make the files private, because SQLite creates them readable for all."""
        for file in self._database_files():
            if file.exists():
                file.chmod(0o600)

    def _database_files(self) -> list[Path]:
        return [self.database.with_name(self.database.name + end) for end in ("", "-wal", "-shm")]

    def _make(self) -> None:
        if not self.path.is_dir():
            self.path.mkdir(mode=0o700, parents=True)
            for folder in (self.path, self.path.parent):  # a folder lost in a power cut takes its files along
                _sync(folder)
        elif self.database.exists() or not any(self.path.iterdir()):  # a folder with other files keeps its mode
            with suppress(PermissionError):  # a mounted volume may belong to another user; the files stay private
                self.path.chmod(0o700)

    def _hold(self) -> None:
        file = self._locks[-1]
        try:
            for lock in self._locks:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            holder = os.pread(file, 20, 0).decode(errors="replace").strip() or "unknown"
            self.release()
            raise FailedPreconditionError(
                f"The data folder {self.path} is in use by process {holder}; a folder serves one process at a time."
            ) from error
        os.ftruncate(file, 0)
        os.pwrite(file, f"{os.getpid()}\n".encode(), 0)


def database_in(folder: Path) -> Path:
    return folder / "penstock.db"


def _sync(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)

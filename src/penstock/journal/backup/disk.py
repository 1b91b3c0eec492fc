"""The disk operations of a backup, in one class, so that a test can cut the power after any of them."""

from __future__ import annotations

import os
from io import FileIO
from pathlib import Path

LEFT_BYTES = 64 << 20  # free space left for others, such as the store


class Disk:
    def create(self, path: Path) -> FileIO:
        """Create a file that is private to its owner."""
        return FileIO(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "wb")

    def write(self, file: FileIO, content: bytes) -> None:
        rest = memoryview(content)
        while rest:
            rest = rest[file.write(rest) :]

    def sync(self, file: FileIO) -> None:
        os.fdatasync(file.fileno())

    def sync_path(self, path: Path) -> None:
        """Sync a file that is already written and closed, or a folder."""
        handle = os.open(path, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)

    def forget_cached(self, file: FileIO) -> None:
        """Drop a file from the page cache, so that checks read the disk and the broker's pages stay in memory."""
        if hasattr(os, "posix_fadvise"):
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)

    def rename(self, source: Path, target: Path) -> None:
        source.replace(target)

    def remove(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def make_folder(self, path: Path) -> None:
        if not path.is_dir():
            path.mkdir(mode=0o700, parents=True)
            self.sync_path(path.parent)

    def has_room(self, path: Path) -> bool:
        """Return whether the disk has enough room left for other writers."""
        usage = os.statvfs(path)
        return usage.f_bavail >= min(LEFT_BYTES // usage.f_frsize, usage.f_blocks // 20)

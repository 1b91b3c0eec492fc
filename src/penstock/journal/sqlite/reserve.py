"""The reserve: a file that is deleted when the disk is full, so that acks and deletes still fit.

Afterwards the journal is full until the disk has room for the reserve and some more. Then the reserve is created again,
before new messages are accepted.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

RESERVE_BYTES = 64 << 20
SLACK_BYTES = 1 << 20  # least room beyond the reserve before publishing goes on
CHECK_SECONDS = 1.0  # time between two looks at the free space, which cost microseconds


class Reserve:
    def __init__(self, path: Path, size: int, *, clock: Callable[[], float], log: Callable[[str], None]) -> None:
        self._path, self._clock, self._log = path, clock, log
        self.size = min(size, _held_bytes(path) + _available(path.parent) // 4)  # a small disk gets a small reserve
        self._slack = max(self.size // 4, SLACK_BYTES)
        self._checked_at = clock()
        self.released = False
        self._take()

    def release(self) -> bool:
        """Give the space up. From now on the journal is full. Return False if there was no space to give."""
        if not self.released:
            self.released = True
            self._checked_at = self._clock()
            self._log(f"The disk of {self._path.parent} is full: new messages are refused until space returns.")
        held = _held_bytes(self._path)
        self._path.unlink(missing_ok=True)
        return held > 0

    def regain(self) -> None:
        """Take the space back if the disk has enough room again."""
        now = self._clock()
        if not self.released or now - self._checked_at < CHECK_SECONDS:
            return
        self._checked_at = now
        if _available(self._path.parent) >= self.size + self._slack and self._take():
            self.released = False
            self._log(f"The disk of {self._path.parent} has space again: new messages are accepted.")

    def _take(self) -> bool:
        """Create the reserve, and return whether all of it is on disk."""
        if _held_bytes(self._path) >= self.size:
            return True
        try:
            with os.fdopen(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600), "rb+") as file:
                os.posix_fallocate(file.fileno(), 0, self.size)
            return True
        except OSError:
            self._path.unlink(missing_ok=True)
            return False


def _held_bytes(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


def _available(folder: Path) -> int:
    """Return the bytes that a process without privileges may still write."""
    usage = os.statvfs(folder)
    return usage.f_bavail * usage.f_frsize

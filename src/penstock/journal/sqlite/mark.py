"""The high-water mark: a small file beside the database with the number of the last commit.

The mark is written after its commit is durable, so it is never ahead of a whole store and needs no fsync. A store that
is behind its mark has lost commits (SQLite drops a damaged log tail without an error). Two slots are written in turn,
so that a torn write leaves the other slot.
"""

from __future__ import annotations

import os
from pathlib import Path
from struct import Struct
from typing import NamedTuple
from zlib import crc32

_MAGIC = b"PENSMARK"
_body = Struct(">8sq?")
_sum = Struct(">I")
_SLOTS = (0, 512)  # in different sectors
_SIZE = _body.size + _sum.size


class Reading(NamedTuple):
    """The content of a high-water mark."""

    seq: int
    clean: bool  # the journal was closed in order
    whole: bool  # both slots are readable


class Mark:
    def __init__(self, path: Path, flags: int = os.O_RDWR | os.O_CREAT) -> None:
        self._file = os.open(path, flags, 0o600)
        self._turn = 0

    def read(self) -> Reading | None:
        """Return the content, or None if it is not readable."""
        slots = [slot for slot in map(self._slot, _SLOTS) if slot]
        if not slots:
            return None
        return Reading(max(seq for seq, _ in slots), all(clean for _, clean in slots), len(slots) == len(_SLOTS))

    def write(self, seq: int) -> None:
        """Record a commit, without waiting for the disk."""
        self._turn = 1 - self._turn
        os.pwrite(self._file, _slot(seq, False), _SLOTS[self._turn])

    def settle(self, seq: int, *, clean: bool) -> None:
        """Write both slots and sync them: at open, at close, and when a loss was accepted."""
        for position in _SLOTS:
            os.pwrite(self._file, _slot(seq, clean), position)
        os.fsync(self._file)

    def close(self) -> None:
        os.close(self._file)

    def _slot(self, position: int) -> tuple[int, bool] | None:
        content = os.pread(self._file, _SIZE, position)
        if len(content) < _SIZE or _sum.unpack(content[_body.size :])[0] != crc32(content[: _body.size]):
            return None
        magic, seq, clean = _body.unpack(content[: _body.size])
        return (seq, clean) if magic == _MAGIC else None


def _slot(seq: int, clean: bool) -> bytes:
    body = _body.pack(_MAGIC, seq, clean)
    return body + _sum.pack(crc32(body))


def read_mark(path: Path) -> Reading | None:
    """Return the content of a mark without opening it for writing."""
    try:
        mark = Mark(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    try:
        return mark.read()
    finally:
        mark.close()

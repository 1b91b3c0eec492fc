"""A failing disk: the n-th read, write, sync or truncation of the engine raises an I/O error or "disk full".

Usage: `with faulty_disk(Fault("sync", apsw.IOError, at=3)) as fault:`, then open a journal with `vfs=fault.vfs`.
`fault.fired` says whether the fault has happened, and `fault.heal()` ends a lasting fault.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path
from typing import Any, TypeVar

import apsw

_names = count()
_Kind = TypeVar("_Kind", bound="Fault")


class Fault:
    def __init__(
        self,
        call: str,
        error: type[apsw.Error],
        *,
        at: int = 1,
        lasting: bool = False,
        while_exists: Path | None = None,
    ) -> None:
        self._call, self._error, self._at, self._lasting = call, error, at, lasting
        self._cause = while_exists  # the fault lasts as long as this file takes up space
        self._seen = 0
        self._healed = False
        self.fired = False
        self.vfs = f"faulty-{next(_names)}"

    def heal(self) -> None:
        self._healed = True

    def meet(self, call: str, growth: int = 0) -> None:
        if call != self._call or self._healed or (self._cause and not self._cause.exists()):
            return
        self._seen += 1
        if self._seen == self._at or (self._lasting and self._seen > self._at):
            self.fired = True
            raise self._error("simulated")


class SmallDisk(Fault):
    """A disk with a limited number of bytes for one folder. `available` is the number that is left."""

    def __init__(self, folder: Path, capacity: int) -> None:
        super().__init__("write", apsw.FullError)
        self._folder, self._capacity = folder, capacity

    @property
    def available(self) -> int:
        return self._capacity - sum(path.stat().st_size for path in self._folder.iterdir())

    def meet(self, call: str, growth: int = 0) -> None:
        if growth and growth > self.available:
            raise apsw.FullError("simulated")


@contextmanager
def faulty_disk(fault: _Kind) -> Iterator[_Kind]:
    file_system = _FaultyFileSystem(fault)
    try:
        yield fault
    finally:
        file_system.unregister()


class _FaultyFileSystem(apsw.VFS):
    def __init__(self, fault: Fault) -> None:
        self._fault = fault
        super().__init__(fault.vfs, "")

    def xOpen(self, name: Any, flags: list[int]) -> _FaultyFile:
        return _FaultyFile(self._fault, name, flags)


class _FaultyFile(apsw.VFSFile):
    def __init__(self, fault: Fault, name: Any, flags: list[int]) -> None:
        self._fault = fault
        super().__init__("", name, flags)

    def xRead(self, amount: int, offset: int) -> bytes:
        self._fault.meet("read")
        return super().xRead(amount, offset)

    def xWrite(self, data: bytes, offset: int) -> None:
        self._fault.meet("write", max(0, offset + len(data) - self.xFileSize()))
        super().xWrite(data, offset)

    def xTruncate(self, newsize: int) -> None:
        self._fault.meet("truncate")
        super().xTruncate(newsize)

    def xSync(self, flags: int) -> None:
        self._fault.meet("sync")
        super().xSync(flags)

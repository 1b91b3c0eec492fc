"""Simulated power cuts: the possible contents of a disk when the power fails during any write.

A workload runs once on a file system of the engine that records every write, truncation, sync and deletion
(`record`). A cut is a place in that list. Everything that was synced before the place is on disk. Of everything that
was written since the last sync of its file, each sector is kept, dropped, torn or garbled, as the seed decides. The
resulting files are put into a fresh folder, without the shared memory, which a power cut never leaves behind.
One recording gives any number of cuts, so a cut costs little more than opening the store again.

Usage, for a journal or for a whole broker:

    def workload(disk: Disk) -> None:
        journal = SqliteJournal(disk.folder, vfs=disk.vfs, reserve_bytes=0)
        ...
        journal.commit(step)
        disk.acknowledge(step)          # as soon as the caller has the answer: from here on it must survive

    def check(folder: Path, acknowledged: list[Any]) -> None:
        ...                             # open `folder` without `vfs`, recover, compare; raise AssertionError

    powercut.run(seed, workload, check, cuts=100)

`acknowledge` may be called from any thread and with any value. `check` gets the values that were acknowledged before
the cut, in order. A failing check names the seed and the place, and `powercut.run(seed, workload, check, only=[place])`
repeats it. The high-water mark is written beside the engine, without sync. After a cut it is as it was at the last
acknowledgement, or as at the first, or torn, or missing.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from threading import Lock
from typing import Any, NamedTuple

import apsw

SECTOR_BYTES = 512
FAST_DISK = Path("/dev/shm")  # the real disk does not matter here, so memory will do
MARK = "mark"

Workload = Callable[["Disk"], None]
Check = Callable[[Path, list[Any]], None]


def run(seed: int, workload: Workload, check: Check, *, cuts: int = 100, only: Sequence[int] = ()) -> int:
    """Record `workload`, cut the power at `cuts` random places, or `only` at these, and call `check` on each result."""
    random = Random(seed)
    trace = record(workload, random.randrange(2**32))
    places = only or sorted(random.randrange(len(trace.steps) + 1) for _ in range(cuts))
    for cut in trace.cuts(places, seed):
        with tempfile.TemporaryDirectory(dir=_fast()) as folder:
            cut.restore(Path(folder))
            try:
                check(Path(folder), cut.acknowledged)
            except BaseException as error:
                error.add_note(f"power cut: seed={seed}, only=[{cut.place}] ({cut.style})")
                raise
    return len(places)


class Step(NamedTuple):
    """A call of the file system, or an acknowledgement."""

    kind: str  # write, truncate, sync, delete, acknowledge
    file: str = ""
    offset: int = 0
    content: Any = b""


class Disk:
    """The disk of a workload: its folder, its source of randomness, and the list of acknowledgements."""

    def __init__(self, folder: Path, vfs: str, random: Random) -> None:
        self.folder, self.vfs, self.random = folder, vfs, random
        self.steps: list[Step] = []
        self._lock = Lock()

    def acknowledge(self, item: object) -> None:
        mark = self.folder / MARK  # read before the step is recorded, so that it cannot be newer than the step
        content = mark.read_bytes() if mark.exists() else b""
        self.note(Step("acknowledge", MARK, 0, (item, content)))

    def note(self, step: Step) -> None:
        with self._lock:
            self.steps.append(step)


def record(workload: Workload, seed: int) -> Trace:
    with tempfile.TemporaryDirectory(dir=_fast()) as folder:
        disk = Disk(Path(folder) / "data", f"powercut-{seed}", Random(seed))
        file_system = _RecordingFileSystem(disk)
        try:
            workload(disk)
        finally:
            file_system.unregister()
    return Trace(disk.steps)


class Trace:
    def __init__(self, steps: list[Step]) -> None:
        self.steps = steps

    def cuts(self, places: Sequence[int], seed: int) -> Iterator[Cut]:
        """Yield the state at each of the places, which must be in order."""
        state, done = _State(), 0
        for place in places:
            for step in self.steps[done:place]:
                state.apply(step)
            done = place
            yield state.cut(place, Random(seed * 1_000_003 + place))


class Cut(NamedTuple):
    place: int
    style: str
    files: dict[str, bytes]
    acknowledged: list[Any]

    def restore(self, folder: Path) -> None:
        for name, content in self.files.items():
            (folder / name).write_bytes(content)


class _State:
    """The contents of the disk while the steps are replayed: synced and unsynced data of each file."""

    def __init__(self) -> None:
        self._safe: dict[str, bytearray] = {}
        self._pending: dict[str, list[Step]] = {}
        self._marks: list[bytes] = [b""]
        self._acknowledged: list[Any] = []

    def apply(self, step: Step) -> None:
        if step.kind == "acknowledge":
            item, mark = step.content
            self._acknowledged.append(item)
            self._marks.append(mark)
        elif step.kind == "sync":
            image = self._safe.setdefault(step.file, bytearray())
            for pending in self._pending.pop(step.file, ()):
                _keep(image, pending)
        elif step.kind == "delete":
            self._safe.pop(step.file, None)
            self._pending.pop(step.file, None)
        else:
            self._pending.setdefault(step.file, []).append(step)

    def cut(self, place: int, random: Random) -> Cut:
        style = random.choice(("kept", "dropped", "mixed", "mixed", "mixed"))
        names = sorted({*self._safe, *self._pending})  # sorted, so that a seed means the same in every process
        files = {name: bytes(self._image(name, style, random)) for name in names}
        if mark := self._mark(random):
            files[MARK] = mark
        return Cut(place, style, files, list(self._acknowledged))

    def _image(self, name: str, style: str, random: Random) -> bytearray:
        image = bytearray(self._safe.get(name, b""))
        for step in self._pending.get(name, ()):
            if style == "kept":
                _keep(image, step)
            elif style == "mixed":
                _damage(image, step, random)
        return image

    def _mark(self, random: Random) -> bytes:
        latest = self._marks[-1]
        fate = random.random()
        if fate < 0.7:
            return latest
        if fate < 0.8:
            return random.choice(self._marks)
        return latest[: random.randrange(len(latest) + 1)] if fate < 0.9 else b""


def _keep(image: bytearray, step: Step) -> None:
    if step.kind == "truncate":
        del image[step.offset :]
        return
    _write(image, step.offset, step.content)


def _damage(image: bytearray, step: Step, random: Random) -> None:
    """Keep, drop, tear or garble each sector of a write."""
    if step.kind == "truncate":
        if random.random() < 0.5:
            _keep(image, step)
        return
    start, content = step.offset, step.content
    while content:
        room = SECTOR_BYTES - start % SECTOR_BYTES
        sector, content = content[:room], content[room:]
        _write(image, start, _fate(sector, random))
        start += room


def _fate(sector: bytes, random: Random) -> bytes:
    fate = random.random()
    if fate < 0.45:
        return sector
    if fate < 0.85:
        return b""
    if fate < 0.95:
        return sector[: random.randrange(len(sector))]
    return random.randbytes(len(sector))


def _write(image: bytearray, offset: int, content: bytes) -> None:
    if content and len(image) < offset:
        image.extend(bytes(offset - len(image)))
    image[offset : offset + len(content)] = content


class _RecordingFileSystem(apsw.VFS):
    def __init__(self, disk: Disk) -> None:
        self._disk = disk
        super().__init__(disk.vfs, "")

    def xOpen(self, name: Any, flags: list[int]) -> _RecordingFile:
        return _RecordingFile(self._disk, name, flags)

    def xDelete(self, filename: str, syncdir: bool) -> None:
        super().xDelete(filename, syncdir)
        self._disk.note(Step("delete", Path(filename).name))


class _RecordingFile(apsw.VFSFile):
    def __init__(self, disk: Disk, name: Any, flags: list[int]) -> None:
        self._disk = disk
        path = name.filename() if isinstance(name, apsw.URIFilename) else name
        self._name = Path(path).name
        super().__init__("", name, flags)

    def xWrite(self, data: bytes, offset: int) -> None:
        super().xWrite(data, offset)
        self._disk.note(Step("write", self._name, offset, bytes(data)))

    def xTruncate(self, newsize: int) -> None:
        super().xTruncate(newsize)
        self._disk.note(Step("truncate", self._name, newsize))

    def xSync(self, flags: int) -> None:
        self._disk.note(Step("sync", self._name))  # the file below is in memory, so there is nothing to wait for


def _fast() -> Path | None:
    return FAST_DISK if FAST_DISK.is_dir() else None

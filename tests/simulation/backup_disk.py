"""A disk for backups that records every operation, and its possible contents after a power cut.

Unsynced content is kept, truncated or garbled, as the seed decides. Names that were created, changed or removed since
the last sync of their folder are as they were after any one of these steps.
"""

from __future__ import annotations

import os
import signal
from io import FileIO
from pathlib import Path
from random import Random
from typing import NamedTuple

from penstock.journal.backup.disk import Disk


class Step(NamedTuple):
    what: str
    name: str
    content: bytes = b""
    target: str = ""


class RecordingDisk(Disk):
    """A recorder of the operations in one folder without subfolders."""

    def __init__(self, folder: Path) -> None:
        self.before = {path.name: path.read_bytes() for path in folder.iterdir()} if folder.is_dir() else {}
        self.steps: list[Step] = []
        self._names: dict[int, str] = {}

    def create(self, path: Path) -> FileIO:
        file = super().create(path)
        self._names[id(file)] = path.name
        self.steps.append(Step("create", path.name))
        return file

    def write(self, file: FileIO, content: bytes) -> None:
        super().write(file, content)
        self.steps.append(Step("write", self._names[id(file)], content))

    def sync(self, file: FileIO) -> None:
        self.steps.append(Step("sync", self._names[id(file)]))

    def sync_path(self, path: Path) -> None:
        self.steps.append(Step("sync_folder", path.name))

    def rename(self, source: Path, target: Path) -> None:
        super().rename(source, target)
        self.steps.append(Step("rename", source.name, target=target.name))

    def remove(self, path: Path) -> None:
        if path.exists():
            super().remove(path)
            self.steps.append(Step("remove", path.name))

    def cut(self, place: int, seed: int, folder: Path) -> None:
        """Write the contents that the disk may have after a power cut at this step into a folder."""
        chance = Random(f"{seed} {place}")
        files = [_File(content, len(content)) for content in self.before.values()]
        names = dict(zip(self.before, files, strict=True))
        durable = [dict(names)]  # the folder may be as it was after any of these
        for step in self.steps[:place]:
            if step.what == "sync_folder":
                durable = [dict(names)]
                continue
            if step.what == "create":
                names[step.name] = _File()
            elif step.what == "rename":
                names[step.target] = names.pop(step.name)
            elif step.what == "remove":
                del names[step.name]
            elif step.what == "write":
                names[step.name].content += step.content
                continue
            else:
                names[step.name].synced = len(names[step.name].content)
                continue
            durable.append(dict(names))
        for name, file in chance.choice(durable).items():
            (folder / name).write_bytes(file.after_cut(chance))


class _File:
    def __init__(self, content: bytes = b"", synced: int = 0) -> None:
        self.content = content
        self.synced = synced

    def after_cut(self, chance: Random) -> bytes:
        loose = self.content[self.synced :]
        kept = loose[: chance.randrange(len(loose) + 1)] if chance.random() < 0.7 else loose
        if kept and chance.random() < 0.5:
            torn = chance.randrange(len(kept))
            kept = kept[:torn] + chance.randbytes(len(kept) - torn)
        return self.content[: self.synced] + kept


class KillingDisk(Disk):
    """A disk that kills its process with SIGKILL after N operations."""

    def __init__(self, after: int) -> None:
        self._left = after

    def _step(self) -> None:
        self._left -= 1
        if self._left < 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def create(self, path: Path) -> FileIO:
        self._step()
        return super().create(path)

    def write(self, file: FileIO, content: bytes) -> None:
        self._step()
        super().write(file, content[: len(content) // 2])
        self._step()
        super().write(file, content[len(content) // 2 :])

    def sync(self, file: FileIO) -> None:
        self._step()
        super().sync(file)

    def sync_path(self, path: Path) -> None:
        self._step()
        super().sync_path(path)

    def rename(self, source: Path, target: Path) -> None:
        self._step()
        super().rename(source, target)

    def remove(self, path: Path) -> None:
        self._step()
        super().remove(path)

"""Files of sealed rows: each row as in a store, with its kind, its key columns and its checksum.

A file is written once and never changed. The manifest has its SHA-256.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator
from pathlib import Path
from struct import Struct
from struct import error as StructError
from typing import TypeAlias

from penstock.errors import DamagedStoreError
from penstock.journal.backup.disk import Disk
from penstock.journal.backup.manifest import RowFile, Run
from penstock.journal.codec import BATCH_ROW, Row, first_of, topic_of

MAGIC = b"PENSROWS\x00\x00\x00\x01"  # with the format
WRITE_BYTES = 1 << 20  # small, because a commit of the broker may have to wait for the write
BytesRead: TypeAlias = Callable[[int], None]  # called with the number of further bytes, now and then
_frame = Struct(">cqqqII")  # kind, key, until, last_at, checksum, length of the body


class RowFileWriter:
    def __init__(self, path: Path, disk: Disk) -> None:
        self._path, self._disk = path, disk
        self._file = disk.create(path)
        self._parts = [MAGIC]
        self._waiting = len(MAGIC)
        self._rows = 0
        self._sha256 = hashlib.sha256()
        self._runs: dict[int, Run] = {}
        self._ended: list[Run] = []  # runs that were followed by a gap
        self.bytes = len(MAGIC)

    def add(self, kind: bytes, row: Row) -> None:
        *key, crc, body = row
        self._parts += [_frame.pack(kind, *key, *[0] * (3 - len(key)), crc, len(body)), body]
        size = _frame.size + len(body)
        self.bytes += size
        self._waiting += size
        self._rows += 1
        if kind == BATCH_ROW:
            self._extend_run(row)
        if self._waiting >= WRITE_BYTES:
            self._write()

    def finish(self) -> RowFile:
        self._write()
        self._disk.forget_cached(self._file)
        self._file.close()
        runs = sorted([*self._ended, *self._runs.values()], key=lambda run: (run.topic, run.first))
        return RowFile(self._path.name, self.bytes, self._sha256.hexdigest(), self._rows, runs)

    def close(self) -> None:
        self._file.close()

    def _extend_run(self, row: Row) -> None:
        key, until, _, crc, _ = row
        topic, first = topic_of(key), first_of(key)
        run = self._runs.get(topic)
        if run is not None and run.until != first:
            self._ended.append(run)
            run = None
        self._runs[topic] = Run(topic, run.first if run else first, until, first, crc)

    def _write(self) -> None:
        content = b"".join(self._parts)
        self._sha256.update(content)
        self._disk.write(self._file, content)
        self._disk.sync(self._file)
        self._parts, self._waiting = [], 0


def read_rows(folder: Path, file: RowFile, progress: BytesRead = lambda size: None) -> Iterator[tuple[bytes, Row]]:
    """Yield the rows of a file. A difference from the manifest is a DamagedStoreError, after the last row at latest."""
    digest = hashlib.sha256()
    rows = reported = 0
    try:
        with (folder / file.name).open("rb", buffering=WRITE_BYTES) as content:
            start = content.read(len(MAGIC))
            digest.update(start)
            if start != MAGIC:
                raise damaged(file)
            while head := content.read(_frame.size):
                digest.update(head)
                kind, key, until, last_at, crc, length = _frame.unpack(head)
                if length > file.bytes:
                    raise damaged(file)
                body = content.read(length)
                digest.update(body)
                rows += 1
                yield kind, (key, until, last_at, crc, body) if kind == BATCH_ROW else (key, crc, body)
                if (read := content.tell()) - reported >= WRITE_BYTES:
                    progress(read - reported)
                    reported = read
    except FileNotFoundError as error:
        raise missing(file) from error
    except StructError as error:  # the file ends within a frame
        raise damaged(file) from error
    if digest.hexdigest() != file.sha256 or rows != file.rows:
        raise damaged(file)
    progress(file.bytes - reported)


def require_file(folder: Path, file: RowFile) -> None:
    """Check that a file exists and has the expected length."""
    try:
        size = (folder / file.name).stat().st_size
    except FileNotFoundError as error:
        raise missing(file) from error
    if size != file.bytes:
        raise damaged(file)


def damaged(file: RowFile) -> DamagedStoreError:
    return DamagedStoreError(f"The backup is damaged: {file.name} does not match its checksum.")


def missing(file: RowFile) -> DamagedStoreError:
    return DamagedStoreError(f"The backup is damaged: {file.name} is missing.")

"""The manifest, which lists the files of a backup.

It has two lines: the record as JSON, and the SHA-256 of that line. It is replaced in one step after all its files are
on disk, so that a folder always holds one whole backup or none.
"""

from __future__ import annotations

import hashlib
from pathlib import Path

import msgspec

from penstock.errors import DamagedStoreError, FailedPreconditionError, NotFoundError
from penstock.journal.backup.disk import Disk
from penstock.journal.port import BackupReport

NAME = "manifest"
NEW_NAME = "manifest.new"
FORMAT = 1


class Run(msgspec.Struct, frozen=True, array_like=True):
    """Consecutive messages of a topic in one file, and the seal of their last batch."""

    topic: int
    first: int
    until: int
    last: int  # the first offset of the last batch
    crc: int  # of that batch


class RowFile(msgspec.Struct, frozen=True):
    name: str
    bytes: int
    sha256: str
    rows: int
    runs: list[Run] = []  # of messages; a file of state has none


class Manifest(msgspec.Struct, frozen=True):
    format: int
    store: str  # its identity
    number: int  # of the backup in this folder, from 1 on
    at: int  # the store's time, in nanoseconds
    time: str  # start of the backup, for people
    commit: int  # the last one in it
    crc: int  # of the facts of that commit
    topics: int
    messages: int
    state: list[RowFile]  # a snapshot and the facts that follow it, or all facts
    batches: list[RowFile]

    @property
    def files(self) -> list[RowFile]:
        return [*self.state, *self.batches]


def report_of(manifest: Manifest, copied_bytes: int) -> BackupReport:
    total = sum(file.bytes for file in manifest.files)
    return BackupReport(
        manifest.number,
        manifest.time,
        manifest.commit,
        manifest.topics,
        manifest.messages,
        len(manifest.files),
        copied_bytes,
        total - copied_bytes,
    )


_decoder = msgspec.json.Decoder(Manifest)


def write_manifest(manifest: Manifest, folder: Path, disk: Disk) -> None:
    line = msgspec.json.encode(manifest)
    disk.remove(folder / NEW_NAME)
    with disk.create(folder / NEW_NAME) as file:
        disk.write(file, b"%b\n%b\n" % (line, hashlib.sha256(line).hexdigest().encode()))
        disk.sync(file)
    disk.rename(folder / NEW_NAME, folder / NAME)
    disk.sync_path(folder)


def is_backup(folder: Path) -> bool:
    return (folder / NAME).is_file()


def read_manifest(folder: Path) -> Manifest:
    try:
        line, _, checksum = (folder / NAME).read_bytes().partition(b"\n")
    except FileNotFoundError as error:
        raise NotFoundError("There is no backup in this folder: it has no manifest.") from error
    if hashlib.sha256(line).hexdigest().encode() != checksum.strip():
        raise DamagedStoreError("The backup is damaged: its manifest does not match its own checksum.")
    version = msgspec.json.decode(line)["format"]
    if version != FORMAT:
        raise FailedPreconditionError(
            f"The backup has format {version}, and this release reads format {FORMAT}: use the release that wrote it."
        )
    return _decoder.decode(line)

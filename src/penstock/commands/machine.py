"""The machine under a store, as `penstock doctor` looks at it: file system, disk, limits of a process."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.journal.port import Finding

SYNCS = 50
HONEST_SECONDS = 20e-6  # no disk is quicker; a journal in memory, or a cache that forgets, is
SLOW_SECONDS = 0.05
LITTLE_BYTES = 1 << 30
RESERVE_BYTES = 64 << 20
OPEN_FILES = 4096

NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "virtiofs"}
IN_MEMORY = {"tmpfs", "ramfs"}


def examine_machine(folder: Path, pid: int | None) -> Iterator[Finding]:
    """Of the disk that a folder is on, and of the process that has it open, if there is one."""
    kind = file_system(folder)
    yield _judged_kind(kind)
    yield _judged_syncs(folder, in_memory=kind in IN_MEMORY)
    yield _judged_space(folder)
    yield _judged_files(pid)


def file_system(folder: Path, mounts: str | None = None) -> str:
    """The kind of the file system, as the system calls it; empty where it does not say."""
    try:
        mounts = mounts if mounts is not None else Path("/proc/self/mountinfo").read_text()
    except OSError:  # not Linux
        return ""
    found, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        place = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), left.split()[4])
        if folder.resolve().is_relative_to(place) and len(place) >= len(found):
            found, kind = place, right.split()[0]
    return kind


def _judged_kind(kind: str) -> Finding:
    if kind in NETWORK:
        advice = "Move the folder to a disk of this machine."
        return Finding(
            "file system", "problem", f"{kind}: over a network, locks and syncs are not to be relied on.", advice
        )
    if kind in IN_MEMORY:
        advice = "Move the folder to a disk, if it is to survive that."
        return Finding("file system", "note", f"{kind}: in memory, and gone when the machine stops.", advice)
    if kind == "overlay":
        found = "overlay: the folder is inside a container, and goes with it."
        return Finding("file system", "note", found, "Mount a volume for it.")
    return Finding("file system", "ok", f"{kind or 'Unknown'}.")


def _judged_syncs(folder: Path, *, in_memory: bool) -> Finding:
    try:
        times = sorted(sync_times(folder))
    except OSError as error:
        advice = "Look as the user that runs the server."
        return Finding("sync", "note", f"Not measured: {error.strerror}.", advice)
    middle, last = times[len(times) // 2], times[-1]
    found = f"A sync takes {_shown(middle)}, the slowest of {len(times)} {_shown(last)}."
    if middle < HONEST_SECONDS and not in_memory:
        return Finding("sync", "note", f"{found} No disk is that quick.", "Check that its cache survives a power cut.")
    if middle > SLOW_SECONDS:
        return Finding("sync", "note", f"{found} Every commit waits for one.", "A quicker disk makes a quicker broker.")
    return Finding("sync", "ok", found)


def sync_times(folder: Path) -> list[float]:
    """How long it takes until a few bytes are on the disk, some times over."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for number in range(SYNCS):
            began = time.perf_counter()
            os.pwrite(file.fileno(), b"penstock", number * 512)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return times


def _shown(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 0.1 else f"{seconds:.1f} s"


def _judged_space(folder: Path) -> Finding:
    usage = os.statvfs(folder)
    free = usage.f_bavail * usage.f_frsize
    found = f"{free / 2**30:,.1f} GiB of the disk are free."
    if free < RESERVE_BYTES:
        return Finding("space", "problem", f"{found} Messages are refused soon, or already.", "Make room.")
    if free < LITTLE_BYTES:
        return Finding("space", "note", found, "Make room before messages are refused.")
    return Finding("space", "ok", found)


def _judged_files(pid: int | None) -> Finding:
    limit = open_files(pid)
    whose = f"process {pid}" if pid else "a process started from here"
    if limit is None:
        return Finding("limits", "ok", "Not known.")
    if 0 <= limit < OPEN_FILES:
        advice = "Raise it: ulimit -n 65536, or LimitNOFILE= of the unit."
        return Finding("limits", "note", f"{limit:,} open files for {whose}: about as many connections.", advice)
    return Finding("limits", "ok", f"{'Any number of' if limit < 0 else f'{limit:,}'} open files for {whose}.")


def open_files(pid: int | None) -> int | None:
    """How many a process may have, after raising its own limit as far as it can; -1: any number."""
    import resource

    if not pid:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return -1 if hard == resource.RLIM_INFINITY else hard
    try:
        found = re.search(r"^Max open files\s+\S+\s+(\S+)", Path(f"/proc/{pid}/limits").read_text(), re.MULTILINE)
    except OSError:
        return None
    if found is None:
        return None
    return int(found[1]) if found[1].isdigit() else -1

"""Checks of the machine below a store, for `penstock doctor`: file system, disk, open files."""

from __future__ import annotations

import os
import re
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from penstock.journal.port import Finding

SYNCS = 50
FASTEST_SYNC_SECONDS = 20e-6  # faster syncs come from memory, or from a cache that a power cut erases
SLOW_SYNC_SECONDS = 0.05
LITTLE_BYTES = 1 << 30
RESERVE_BYTES = 64 << 20
OPEN_FILES = 4096

NETWORK = {"nfs", "nfs4", "cifs", "smb3", "smbfs", "9p", "afs", "ceph", "glusterfs", "lustre", "fuse.sshfs", "virtiofs"}
IN_MEMORY = {"tmpfs", "ramfs"}


def check_host(folder: Path, pid: int | None) -> Iterator[Finding]:
    """Check the disk of a folder, and the process that has the folder open, if there is one."""
    kind = file_system(folder)
    yield _check_kind(kind)
    yield _check_syncs(folder, in_memory=kind in IN_MEMORY)
    yield _check_space(folder)
    yield _check_files(pid)


def file_system(folder: Path, mounts: str | None = None) -> str:
    """Return the system's name of the file system, or "" if it is unknown."""
    try:
        mounts = mounts if mounts is not None else Path("/proc/self/mountinfo").read_text()
    except OSError:  # not Linux
        return ""
    longest, kind = "", ""
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        mount_point = re.sub(r"\\(\d{3})", lambda octal: chr(int(octal[1], 8)), left.split()[4])
        if folder.resolve().is_relative_to(mount_point) and len(mount_point) >= len(longest):
            longest, kind = mount_point, right.split()[0]
    return kind


def _check_kind(kind: str) -> Finding:
    if kind in NETWORK:
        advice = "Move the folder to a disk of this machine."
        return Finding(
            "file system", "problem", f"{kind}: locks and syncs are not reliable on a network file system.", advice
        )
    if kind in IN_MEMORY:
        advice = "Move the folder to a disk to keep the messages."
        return Finding("file system", "note", f"{kind}: in memory, lost when the machine stops.", advice)
    if kind == "overlay":
        sentence = "overlay: the folder is deleted with its container."
        return Finding("file system", "note", sentence, "Mount a volume.")
    return Finding("file system", "ok", f"{kind or 'Unknown'}.")


def _check_syncs(folder: Path, *, in_memory: bool) -> Finding:
    try:
        times = sorted(sync_times(folder))
    except OSError as error:
        advice = "Run this command as the user of the server."
        return Finding("sync", "note", f"Not measured: {error.strerror}.", advice)
    middle, last = times[len(times) // 2], times[-1]
    sentence = f"Median sync {_format_time(middle)}, slowest of {len(times)} {_format_time(last)}."
    if middle < FASTEST_SYNC_SECONDS and not in_memory:
        return Finding(
            "sync", "note", f"{sentence} No disk is that fast.", "Check that the disk's cache survives a power cut."
        )
    if middle > SLOW_SYNC_SECONDS:
        return Finding("sync", "note", f"{sentence} Every commit waits for a sync.", "Use a faster disk.")
    return Finding("sync", "ok", sentence)


def sync_times(folder: Path) -> list[float]:
    """Measure how long a few bytes take to reach the disk, and return each time in seconds."""
    times = []
    with tempfile.TemporaryFile(dir=folder) as file:
        for number in range(SYNCS):
            began = time.perf_counter()
            os.pwrite(file.fileno(), b"penstock", number * 512)
            os.fsync(file.fileno())
            times.append(time.perf_counter() - began)
    return times


def _format_time(seconds: float) -> str:
    return f"{seconds * 1000:.2f} ms" if seconds < 0.1 else f"{seconds:.1f} s"


def _check_space(folder: Path) -> Finding:
    usage = os.statvfs(folder)
    free = usage.f_bavail * usage.f_frsize
    sentence = f"{free / 2**30:,.1f} GiB free."
    if free < RESERVE_BYTES:
        return Finding("space", "problem", f"{sentence} The server refuses messages now or soon.", "Free disk space.")
    if free < LITTLE_BYTES:
        return Finding("space", "note", sentence, "Free disk space before messages are refused.")
    return Finding("space", "ok", sentence)


def _check_files(pid: int | None) -> Finding:
    limit = open_files(pid)
    owner = f"process {pid}" if pid else "a process started here"
    if limit is None:
        return Finding("limits", "ok", "Unknown.")
    if 0 <= limit < OPEN_FILES:
        advice = "Raise the limit: ulimit -n 65536, or LimitNOFILE= in the systemd unit."
        return Finding("limits", "note", f"At most {limit:,} open files for {owner}, which limits connections.", advice)
    return Finding("limits", "ok", f"{'Unlimited' if limit < 0 else f'{limit:,}'} open files for {owner}.")


def open_files(pid: int | None) -> int | None:
    """Return the hard limit of open files of a process. -1 means no limit."""
    import resource

    if not pid:
        hard = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
        return -1 if hard == resource.RLIM_INFINITY else hard
    try:
        match = re.search(r"^Max open files\s+\S+\s+(\S+)", Path(f"/proc/{pid}/limits").read_text(), re.MULTILINE)
    except OSError:
        return None
    if match is None:
        return None
    return int(match[1]) if match[1].isdigit() else -1

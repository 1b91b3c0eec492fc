"""Settings of the operating system: TCP keep-alive, the limit of open files, and Unix socket files."""

from __future__ import annotations

import asyncio
import socket
import stat
from contextlib import suppress
from pathlib import Path

SPARE_DESCRIPTORS = 512  # for the journal, the other doors and other files of the process

# A peer that has disappeared is found within about two minutes.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """T-062: let the system find out when a silent peer has disappeared."""
    raw = transport.get_extra_info("socket")
    if raw is None or raw.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with suppress(OSError):  # closed meanwhile
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE.items():
            if hasattr(socket, name):
                raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def make_room_for(connections: int) -> None:
    """Raise the limit of open files of this process, as far as the system allows."""
    try:
        import resource
    except ImportError:  # Windows has no such limit
        return
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = connections + SPARE_DESCRIPTORS
    if hard != resource.RLIM_INFINITY:
        wanted = min(wanted, hard)
    if soft != resource.RLIM_INFINITY and soft < wanted:
        with suppress(OSError, ValueError):
            resource.setrlimit(resource.RLIMIT_NOFILE, (wanted, hard))


def claim_unix_path(path: str) -> socket.socket:
    """Return a socket bound to a path, for its owner only. Replace a socket file that has no listener."""
    file = Path(path)
    if file.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                file.unlink()
    listener = socket.socket(socket.AF_UNIX)
    try:
        listener.bind(path)
        file.chmod(stat.S_IRUSR | stat.S_IWUSR)
    except OSError:
        listener.close()
        raise
    return listener


def release_unix_path(path: str) -> None:
    with suppress(OSError):
        if Path(path).is_socket():
            Path(path).unlink()

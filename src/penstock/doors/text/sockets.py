"""What the door asks of the operating system: descriptors, keep-alive, a place in the file system."""

from __future__ import annotations

import asyncio
import socket
import stat
from contextlib import suppress
from pathlib import Path

SPARE_DESCRIPTORS = 512  # for the journal, the other doors and whatever else the process opens

# A peer that vanished without a word is found within about two minutes.
_KEEP_ALIVE = {"TCP_KEEPIDLE": 60, "TCP_KEEPINTVL": 15, "TCP_KEEPCNT": 4}


def keep_alive(transport: asyncio.BaseTransport) -> None:
    """T-062: find out when a silent consumer is gone."""
    raw = transport.get_extra_info("socket")
    if raw is None or raw.family not in (socket.AF_INET, socket.AF_INET6):
        return
    with suppress(OSError):  # closed meanwhile
        raw.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEP_ALIVE.items():
            if hasattr(socket, name):
                raw.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


def make_room_for(connections: int) -> None:
    """Raise the number of files this process may open, as far as the system lets it."""
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
    """A socket bound to a path, for its owner only. A socket that has no listener any more is replaced."""
    place = Path(path)
    if place.is_socket():
        with socket.socket(socket.AF_UNIX) as probe:
            try:
                probe.connect(path)
            except ConnectionRefusedError:
                place.unlink()
    listening = socket.socket(socket.AF_UNIX)
    try:
        listening.bind(path)
        place.chmod(stat.S_IRUSR | stat.S_IWUSR)
    except OSError:
        listening.close()
        raise
    return listening


def release_unix_path(path: str) -> None:
    with suppress(OSError):
        if Path(path).is_socket():
            Path(path).unlink()

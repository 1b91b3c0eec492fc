"""The requests of clients, and the reading of frames as requests."""

from __future__ import annotations

import re
from typing import NamedTuple, TypeAlias

from penstock.wire import text_frames as t

DELAY_MAX_MILLISECONDS = 7 * 86_400_000

NEEDED = {t.SEND: (t.QUEUE, t.CONTENT), t.CONSUME: (t.QUEUE, t.COUNT), t.ACKNOWLEDGE: (t.QUEUE, t.ID)}
NEEDED |= {t.RETURN: (t.QUEUE, t.ID), t.UNREAD: (t.QUEUE, t.ID)}
OPTIONAL = {t.RETURN: (t.DELAY,)}
SINCE = {t.RETURN: 2, t.UNREAD: 2}  # the version that introduced a type. 1 if not listed

_FORBIDDEN = re.compile("[\x00-\x1f\x7f-\x9f/]")


class Send(NamedTuple):
    version: int
    queue: bytes
    contents: list[bytes]


class Consume(NamedTuple):
    version: int
    queue: bytes
    limit: int


class Acknowledge(NamedTuple):
    version: int
    queue: bytes
    ids: list[bytes]


class Return(NamedTuple):
    version: int
    queue: bytes
    id: bytes
    delay_seconds: float
    unread: bool = False  # T-043: the message never reached the client's program


class Fault(NamedTuple):
    """An error to report: bytes that are not a request, or a request that was refused."""

    version: int  # 0: no header was readable
    code: str
    sentence: str
    refused: int = 0  # type of the refused message. 0: unknown
    queue: bytes = b""
    id: bytes = b""


Request: TypeAlias = Send | Consume | Acknowledge | Return


def maxima(content_bytes_max: int) -> t.Maxima:
    """Return the longest contents that are read.

    A queue name may be somewhat too long, so that version 02 can answer and go on.
    """
    return {
        t.SEND: {t.QUEUE: t.STRAY_BYTES_MAX, t.CONTENT: content_bytes_max},
        t.CONSUME: {t.QUEUE: t.STRAY_BYTES_MAX, t.COUNT: t.NUMBER_DIGITS_MAX},
        t.ACKNOWLEDGE: {t.QUEUE: t.STRAY_BYTES_MAX, t.ID: t.ID_BYTES},
        t.RETURN: {t.QUEUE: t.STRAY_BYTES_MAX, t.ID: t.ID_BYTES, t.DELAY: t.NUMBER_DIGITS_MAX},
        t.UNREAD: {t.QUEUE: t.STRAY_BYTES_MAX, t.ID: t.ID_BYTES},
    }


def interpret(frame: t.Frame) -> Request | Fault:
    packages = dict(frame.packages)
    fault = _shape_fault(frame, packages) or _content_fault(frame, packages)
    if fault is not None:
        return fault
    version, queue = frame.version, packages[t.QUEUE]
    if frame.type == t.SEND:
        return Send(version, queue, [packages[t.CONTENT]])
    if frame.type == t.CONSUME:
        return Consume(version, queue, int(packages[t.COUNT]))
    if frame.type == t.ACKNOWLEDGE:
        return Acknowledge(version, queue, [packages[t.ID]])
    return Return(version, queue, packages[t.ID], int(packages.get(t.DELAY, b"0")) / 1000, frame.type == t.UNREAD)


def _shape_fault(frame: t.Frame, packages: dict[int, bytes]) -> Fault | None:
    """T-051: check that the message type exists and that its packages are right."""
    version, kind = frame.version, frame.type
    if kind not in NEEDED or version < SINCE.get(kind, 1):
        return Fault(version, "unknown-type", f"No client sends {kind:03} in version {version:02}.", kind)
    needed, optional = NEEDED[kind], OPTIONAL.get(kind, ())
    unknown = next((package for package in packages if package not in needed + optional), None)
    if unknown is not None:
        return Fault(version, "unknown-package", f"There is no package {unknown:02} in {kind:03}.", kind)
    if not len(needed) <= len(frame.packages) <= len(needed + optional) or len(packages) < len(frame.packages):
        return Fault(version, "wrong-count", f"{len(frame.packages):02} packages are not right for {kind:03}.", kind)
    missing = next((package for package in needed if package not in packages), None)
    if missing is not None:
        return Fault(version, "missing-package", f"Package {missing:02} of {kind:03} is missing.", kind)
    return None


def _content_fault(frame: t.Frame, packages: dict[int, bytes]) -> Fault | None:
    version, kind, queue = frame.version, frame.type, packages[t.QUEUE]
    if not is_queue_name(queue):
        sentence = f"A queue name is 1 to {t.NAME_BYTES_MAX} bytes of UTF-8 without control characters and slashes."
        return Fault(version, "invalid-queue", sentence, kind, queue)
    if len(packages.get(t.ID, bytes(t.ID_BYTES))) != t.ID_BYTES:
        return Fault(version, "invalid-id", "A message id is 32 hexadecimal digits.", kind, queue)
    if not packages.get(t.COUNT, b"0").isdigit():
        return Fault(version, "invalid-number", "A count is 1 to 10 digits.", kind, queue)
    delay = packages.get(t.DELAY, b"0")
    if not delay.isdigit() or int(delay) > DELAY_MAX_MILLISECONDS:
        sentence = f"A delay is a number of milliseconds, at most {DELAY_MAX_MILLISECONDS}."
        return Fault(version, "invalid-number", sentence, kind, queue, packages[t.ID])
    return None


def is_queue_name(name: bytes) -> bool:
    """Return whether a queue can have this name (T-011)."""
    try:
        return 0 < len(name) <= t.NAME_BYTES_MAX and not _FORBIDDEN.search(name.decode())
    except UnicodeDecodeError:
        return False

"""A reference reader of the text protocol: the messages that a session should publish, computed in the simplest way.

It is written from docs/text-protocol.md, has the whole session at once, and shares no code with the door. It ends where
a session ends early or the door has to close.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import NamedTuple

NEEDED = {1: {1, 2}, 2: {1, 4}, 4: {1, 3}, 6: {1, 3}, 8: {1, 3}}
HEADER = re.compile(rb"H(01|02)(\d{3})(\d\d)", re.DOTALL)


class Sent(NamedTuple):
    queue: bytes
    content: bytes


class Stored(NamedTuple):
    queue: bytes
    content: bytes
    certain: bool  # whether the message must be stored, or only may be


def sends(session: bytes, content_bytes_max: int) -> list[Sent]:
    """Return the readable sends of a session."""
    return [Sent(contents[1], contents[2]) for _, kind, contents in _messages(session, content_bytes_max) if kind == 1]


def stored(session: bytes, content_bytes_max: int) -> Iterator[Stored]:
    """Return the sends that create their queues, or use queues that earlier sends of a session have created.

    A new queue may not have every readable name (T-011). In version 01 such a name closes the connection, and messages
    that were read together with it may be stored or not (T-053).
    """
    certain = True
    for version, kind, contents in _messages(session, content_bytes_max):
        if kind in (1, 2) and not _may_be_new(contents[1].decode()):
            certain = certain and version == 2
        elif kind == 1:
            yield Stored(contents[1], contents[2], certain)


def _may_be_new(name: str) -> bool:
    return name.isprintable() and name not in (".", "..") and name[0] != " " != name[-1]


def _messages(session: bytes, content_bytes_max: int) -> Iterator[tuple[int, int, dict[int, bytes]]]:
    """Yield version, type and packages of the valid messages, up to the point where the endpoint closes."""
    most = {1: 1024, 2: content_bytes_max, 3: 32, 4: 10, 5: 10}
    at, line = 0, False
    while True:
        header = HEADER.match(session, at)
        if header is None or header[3] == b"00":
            return
        version, kind, count = int(header[1]), int(header[2]), int(header[3])
        if at == 0:
            line = session[8:9] == b"\n"
        package = re.compile(rb"\nP(\d\d)(\d{33})\n" if line else rb"P(\d\d)(\d{33})")
        at, packages = header.end(), []
        for _ in range(count):
            head = package.match(session, at)
            if head is None:
                return
            number, size = int(head[1]), int(head[2])
            known = number in NEEDED.get(kind, ()) or (kind, number) == (6, 5)
            if size > (most[number] if known else 1024) or head.end() + size > len(session):
                return
            packages.append((number, session[head.end() : head.end() + size]))
            at = head.end() + size
        if _is_right(version, kind, packages):
            yield version, kind, dict(packages)
        elif version == 1:
            return
        if line:
            if session[at : at + 1] != b"\n":
                return
            at += 1


def _is_right(version: int, kind: int, packages: list[tuple[int, bytes]]) -> bool:
    contents = dict(packages)
    numbers = set(contents) - ({5} if kind == 6 else set())
    if (
        kind not in NEEDED
        or (kind in (6, 8) and version == 1)
        or numbers != NEEDED[kind]
        or len(contents) < len(packages)
    ):
        return False
    try:
        name = contents[1].decode()
    except UnicodeDecodeError:
        return False
    if not 0 < len(contents[1]) <= 256 or any(ord(each) < 32 or 127 <= ord(each) < 160 or each == "/" for each in name):
        return False
    digits = [contents.get(4, b"0"), contents.get(5, b"0")]
    if not all(each.isdigit() for each in digits) or int(digits[1]) > 604_800_000:
        return False
    return len(contents.get(3, bytes(32))) == 32

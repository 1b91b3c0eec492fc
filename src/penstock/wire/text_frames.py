"""The frames of the text protocol (docs/text-protocol.md), without I/O, for both ends of a connection.

The frames do not depend on the chunks in which bytes arrive. A content that is too long is refused on its header,
before memory is used for it. A content is copied once. After a FrameError the reader cannot be used any more.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple, TypeAlias

from penstock.wire.budget import gather

SEND, CONSUME, DISPATCH, ACKNOWLEDGE, CONFIRM, RETURN, ERROR, UNREAD = range(1, 9)
QUEUE, CONTENT, ID, COUNT, DELAY, CODE, SENTENCE, REFUSED = range(1, 9)

VERSIONS = (1, 2)
HEADER_BYTES = 8
PACKAGE_BYTES = 36
DIGITS = 33  # of a content length
ID_BYTES = 32
NAME_BYTES_MAX = 256
NUMBER_DIGITS_MAX = 10
STRAY_BYTES_MAX = 1024  # of a package that its message type does not define

# The maximum length of a content (T-060), by message type and package type. Other packages are stray.
Maxima: TypeAlias = Mapping[int, Mapping[int, int]]

_LF, _H, _P = b"\nHP"
_HEADER, _FRAMING, _PACKAGE, _CONTENT = range(4)


class Frame(NamedTuple):
    version: int
    type: int
    packages: list[tuple[int, bytes]]


class FrameError(Exception):
    """The input is invalid, and the connection cannot be continued (T-052)."""

    def __init__(self, code: str, sentence: str, version: int, refused: int = 0) -> None:
        super().__init__(sentence)
        self.code = code
        self.sentence = sentence
        self.version = version  # for the error message. 0: no header was readable
        self.refused = refused


class FrameReader:
    """The reader of one direction of a connection."""

    __slots__ = (
        "_count",
        "_due",
        "_held",
        "_held_bytes",
        "_kind",
        "_maxima",
        "_need",
        "_packages",
        "_stage",
        "_total",
        "line",
        "version",
    )

    def __init__(self, maxima: Maxima, line: bool | None = None) -> None:
        self._maxima = maxima
        self.line = line  # T-006: True for line framing, False for compact, None until the byte after the first header
        self.version = 0  # version of the last readable header
        self._stage = _HEADER
        self._need = HEADER_BYTES  # bytes of the next part
        self._held: list[bytes | bytearray] = []  # received bytes of the next part
        self._held_bytes = 0
        self._due = False  # T-007: True if a line feed must come before the next message
        self._kind = self._count = self._total = 0
        self._packages: list[tuple[int, bytes]] = []

    @property
    def between(self) -> bool:
        """Return whether no part of a message has been read."""
        return self._stage == _HEADER and not self._held

    @property
    def held_bytes(self) -> int:
        """Return the bytes that are held of an incomplete message."""
        if self._stage == _HEADER:
            return self._held_bytes
        return self._held_bytes + sum(len(content) for _, content in self._packages)

    def forget(self) -> None:
        """Drop the incomplete message, because reading ends."""
        self._stage, self._need = _HEADER, HEADER_BYTES
        self._held, self._held_bytes, self._packages = [], 0, []

    @property
    def owes_line_feed(self) -> bool:
        return self._due

    @property
    def refused(self) -> int:
        """Return the type of the message that is being read, or 0 if it is unknown."""
        return 0 if self._stage == _HEADER else self._kind

    def read(self, data: bytes, at: int) -> tuple[Frame | None, int]:
        """Return the next frame, if it ends within the data, and the index where reading stopped."""
        if self._due:
            at = self.pass_line_feed(data, at)
        while True:  # exactly the bytes that the stage needs, joined only if they arrived in pieces
            end = at + self._need - self._held_bytes
            if end > len(data):
                if at < len(data):
                    self._hold(data[at:])
                return None, len(data)
            part, at = data[at:end], end
            if self._held:
                part = b"".join((*self._held, part))
                self._held, self._held_bytes = [], 0
            _STEPS[self._stage](self, part)
            if self._stage == _HEADER:
                self._due = bool(self.line)
                return Frame(self.version, self._kind, self._packages), at

    def pass_line_feed(self, data: bytes, at: int) -> int:
        """Skip the line feed that ends a message, if it has arrived."""
        at = self.find_line_feed(data, at)
        if self._due and at < len(data):
            raise self.malformed("A line feed must follow every content.")
        return at

    def find_line_feed(self, data: bytes, at: int) -> int:
        """Skip a line feed if there is one. Otherwise it must come before the next message."""
        self._due = data[at : at + 1] != b"\n"
        return at if self._due else at + 1

    def malformed(self, sentence: str) -> FrameError:
        return FrameError("malformed", sentence, self.version, self.refused)

    def _hold(self, piece: bytes) -> None:
        gather(self._held, piece)
        self._held_bytes += len(piece)

    # Stages.

    def _header(self, part: bytes) -> None:
        if part[0] != _H or not part[1:].isdigit():
            raise self.malformed("A message begins with H and seven digits.")
        version, self._kind, self._count = int(part[1:3]), int(part[3:6]), int(part[6:8])
        if version not in VERSIONS:
            raise FrameError("unknown-version", f"There is no version {version:02}; 01 and 02 are known.", 2)
        self.version = version
        if not self._count:
            raise FrameError("malformed", "A message has at least one package.", version, self._kind)
        self._packages, self._total = [], 0
        self._await_package()

    def _await_package(self) -> None:
        if self.line is None:
            self._stage, self._need = _FRAMING, 1
        else:
            self._stage, self._need = _PACKAGE, PACKAGE_BYTES + 2 * self.line

    def _framing(self, part: bytes) -> None:
        if part not in (b"\n", b"P"):
            sentence = "A line feed or a package must follow the header."
            raise self.malformed(f"{sentence} Lines end with LF, not CR LF." if part == b"\r" else sentence)
        self.line = part == b"\n"
        self._await_package()
        self._hold(part)  # it is the first byte of the next part

    def _package(self, part: bytes) -> None:
        if self.line and not (part[0] == part[-1] == _LF):
            raise self.malformed("A line feed must stand before and after every package header.")
        header = part[1:-1] if self.line else part
        if header[0] != _P or not header[1:].isdigit():
            raise self.malformed("A package begins with P and thirty-five digits.")
        kind, size = int(header[1:3]), int(header[3:])
        sizes = self._maxima.get(self._kind, {})
        most = sizes.get(kind, STRAY_BYTES_MAX)
        self._total += size
        if size > most or self._total > sum(sizes.values()) + 99 * STRAY_BYTES_MAX:
            sentence = f"Package {kind:02} of a message {self._kind:03} may have at most {most} bytes."
            raise FrameError("too-large", sentence, self.version, self._kind)
        self._packages.append((kind, b""))
        self._stage, self._need = _CONTENT, size

    def _content(self, part: bytes) -> None:
        packages = self._packages
        packages[-1] = (packages[-1][0], part)
        if len(packages) < self._count:
            self._await_package()
        else:
            self._stage, self._need = _HEADER, HEADER_BYTES


_STEPS = (FrameReader._header, FrameReader._framing, FrameReader._package, FrameReader._content)


def package_header(kind: int, size: int) -> bytes:
    return b"P%02d%033d" % (kind, size)


def encode(version: int, kind: int, packages: Sequence[tuple[int, bytes]], *, line: bool) -> bytes:
    """Encode a message in the framing of its connection."""
    parts = [b"H%02d%03d%02d" % (version, kind, len(packages))]
    for package, content in packages:
        parts += [package_header(package, len(content)), content]
    return b"\n".join([*parts, b""]) if line else b"".join(parts)


def encode_opening(version: int, kind: int, queue: bytes, count: int, following: int, *, line: bool) -> bytes:
    """Encode a message up to the length of its second package, for messages that differ only after that."""
    gap = b"\n" if line else b""
    parts = (b"H%02d%03d%02d" % (version, kind, count), package_header(QUEUE, len(queue)), queue, b"P%02d" % following)
    return gap.join(parts)

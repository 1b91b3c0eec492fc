"""A header block, whole or in pieces: HEADERS and the CONTINUATION frames that follow it."""

from __future__ import annotations

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import END_HEADERS, END_STREAM, PADDED, WITH_PRIORITY, Http2ConnectionError

_PARTS_MAX = 64


class Block:
    __slots__ = ("content", "depends_on_itself", "ends", "number")

    def __init__(self, number: int, ends: bool, depends_on_itself: bool, content: bytes) -> None:
        self.number = number
        self.ends = ends  # the stream, which sends nothing after it
        self.depends_on_itself = depends_on_itself
        self.content = content


class Blocks:
    def __init__(self, bytes_max: int) -> None:
        self.pending_bytes = 0
        self._max = bytes_max
        self.first: Block | None = None  # of a block that is not whole
        self._parts: list[bytes] = []

    def begin(self, flags: int, number: int, payload: bytes) -> Block | None:
        """A HEADERS frame; the block, if it is whole."""
        if not number & 1:
            raise Http2ConnectionError(frames.PROTOCOL_ERROR, "a stream that is not a client's")
        content, itself = payload, False
        if flags & (PADDED | WITH_PRIORITY):
            content = frames.without_padding(flags, payload)
            start = 1 if flags & PADDED else 0
            itself = bool(flags & WITH_PRIORITY) and frames.read_number(payload[start : start + 4]) == number
        block = Block(number, bool(flags & END_STREAM), itself, content)
        if len(content) > self._max:
            raise _too_large()
        if flags & END_HEADERS:
            return block
        self.first, self._parts, self.pending_bytes = block, [content], len(content)
        return None

    def go_on(self, flags: int, number: int, payload: bytes) -> Block | None:
        """A CONTINUATION frame; the block, if it is whole now."""
        first = self.first
        if first is None or first.number != number:
            raise Http2ConnectionError(frames.PROTOCOL_ERROR, "a continuation of nothing")
        self._parts.append(payload)
        self.pending_bytes += len(payload)
        if self.pending_bytes > self._max or len(self._parts) > _PARTS_MAX:
            raise _too_large()
        if not flags & END_HEADERS:
            return None
        first.content = b"".join(self._parts)
        self.clear()
        return first

    def clear(self) -> None:
        self.first, self._parts, self.pending_bytes = None, [], 0


def _too_large() -> Http2ConnectionError:
    return Http2ConnectionError(frames.ENHANCE_YOUR_CALM, "the headers are too large", "headers_too_large")

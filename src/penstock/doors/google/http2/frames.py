"""The frames of HTTP/2 (RFC 9113) as bytes: how they are cut out of what arrives, and how ours are written.

The rule kept here: no I/O and no state but the bytes not yet complete; a frame longer than was allowed is refused
before it is collected.
"""

from __future__ import annotations

from collections.abc import Iterator
from struct import Struct

PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"

DATA, HEADERS, PRIORITY, RST_STREAM, SETTINGS, PUSH_PROMISE, PING, GOAWAY, WINDOW_UPDATE, CONTINUATION = range(10)

END_STREAM = 0x1
ACK = 0x1
END_HEADERS = 0x4
PADDED = 0x8
WITH_PRIORITY = 0x20

SETTING_INITIAL_WINDOW = 0x4
SETTING_FRAME_BYTES = 0x5

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x2, 0x3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, CANCEL, COMPRESSION_ERROR = 0x5, 0x6, 0x7, 0x8, 0x9
ENHANCE_YOUR_CALM = 0xB

HEAD_BYTES = 9
WINDOW_MAX = 2**31 - 1
DEFAULT_WINDOW = 65535
DEFAULT_FRAME_BYTES = 16384

_HEAD = Struct(">HBBBL")  # the 24-bit length in two parts, type, flags, stream
_SETTING = Struct(">HL")
_NUMBER = Struct(">L")


class Http2Error(Exception):
    """The peer broke the protocol; the connection ends with this code."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class FrameReader:
    """Feed it bytes; it yields (type, flags, stream, payload) of every complete frame."""

    def __init__(self, frame_bytes_max: int) -> None:
        self._max = frame_bytes_max
        self._parts: list[bytes] = []  # of a frame that is not complete, joined once it is
        self._missing = 0

    def feed(self, data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        if self._parts:
            self._parts.append(data)
            self._missing -= len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts = []
        at, end = 0, len(data)
        until = HEAD_BYTES
        while until <= end:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            length = high << 8 | low
            if length > self._max:
                raise Http2Error(FRAME_SIZE_ERROR, "a frame is too long")
            until += length
            if until > end:
                break
            yield kind, flags, stream & WINDOW_MAX, data[at + HEAD_BYTES : until]
            at = until
            until += HEAD_BYTES
        if at < end:
            self._parts = [data[at:] if at else data]
            self._missing = until - end


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    length = len(payload)
    return _HEAD.pack(length >> 8, length & 0xFF, kind, flags, stream) + payload


def settings(values: dict[int, int]) -> bytes:
    return frame(SETTINGS, 0, 0, b"".join(_SETTING.pack(key, value) for key, value in values.items()))


def window_update(stream: int, increment: int) -> bytes:
    return frame(WINDOW_UPDATE, 0, stream, _NUMBER.pack(increment))


def rst_stream(stream: int, code: int) -> bytes:
    return frame(RST_STREAM, 0, stream, _NUMBER.pack(code))


def goaway(last_stream: int, code: int) -> bytes:
    return frame(GOAWAY, 0, 0, _NUMBER.pack(last_stream) + _NUMBER.pack(code))


def read_number(payload: bytes) -> int:
    """The 31 bits of a payload that is one number."""
    if len(payload) != 4:
        raise Http2Error(FRAME_SIZE_ERROR, "a frame of the wrong length")
    number: int = _NUMBER.unpack(payload)[0]
    return number & WINDOW_MAX


def read_settings(payload: bytes) -> dict[int, int]:
    if len(payload) % _SETTING.size:
        raise Http2Error(FRAME_SIZE_ERROR, "settings of the wrong length")
    values = dict(_SETTING.iter_unpack(payload))
    if values.get(SETTING_INITIAL_WINDOW, 0) > WINDOW_MAX:
        raise Http2Error(FLOW_CONTROL_ERROR, "a window beyond its limit")
    if not DEFAULT_FRAME_BYTES <= values.get(SETTING_FRAME_BYTES, DEFAULT_FRAME_BYTES) < 1 << 24:
        raise Http2Error(PROTOCOL_ERROR, "a frame size out of range")
    return values


def without_padding(flags: int, payload: bytes) -> bytes:
    """The content of a DATA or HEADERS frame."""
    start, end = 0, len(payload)
    if flags & PADDED:
        start, end = 1, end - (payload[0] if payload else 1)
    if flags & WITH_PRIORITY:
        start += 5
    if start > end:
        raise Http2Error(PROTOCOL_ERROR, "more padding than frame")
    return payload[start:end]

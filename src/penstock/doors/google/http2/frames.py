"""The frames of HTTP/2 (RFC 9113): reading them from bytes, and writing them."""

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

SETTING_TABLE_BYTES, SETTING_ENABLE_PUSH, SETTING_STREAMS_MAX = 0x1, 0x2, 0x3
SETTING_INITIAL_WINDOW, SETTING_FRAME_BYTES, SETTING_HEADERS_BYTES = 0x4, 0x5, 0x6

NO_ERROR, PROTOCOL_ERROR, INTERNAL_ERROR, FLOW_CONTROL_ERROR = 0x0, 0x1, 0x2, 0x3
STREAM_CLOSED, FRAME_SIZE_ERROR, REFUSED_STREAM, COMPRESSION_ERROR = 0x5, 0x6, 0x7, 0x9
ENHANCE_YOUR_CALM = 0xB

HEAD_BYTES = 9
WINDOW_MAX = 2**31 - 1
DEFAULT_WINDOW = 65535
DEFAULT_FRAME_BYTES = 16384

_HEAD = Struct(">HBBBL")  # the 24-bit length in two parts, type, flags, stream
_SETTING = Struct(">HL")
_NUMBER = Struct(">L")


# Frame types by the stream that they may name, and the lengths of fixed-length frames (sections 6.3 to 6.10).
_OF_A_STREAM = frozenset({PRIORITY, RST_STREAM, CONTINUATION})
_OF_THE_CONNECTION = frozenset({SETTINGS, PING, GOAWAY})
_LENGTHS = {RST_STREAM: 4, PING: 8, WINDOW_UPDATE: 4}
_GOAWAY_BYTES_MIN = 8
_PRIORITY_BYTES = 5


class Http2Error(Exception):
    """The peer broke the protocol."""

    def __init__(self, code: int, reason: str) -> None:
        super().__init__(reason)
        self.code = code


class Http2ConnectionError(Http2Error):
    """The connection ends with this code (RFC 9113, 5.4.1)."""

    def __init__(self, code: int, text: str, event: str = "protocol_error") -> None:
        """`event`: the name of the counter."""
        super().__init__(code, text)
        self.event = event


class Http2StreamError(Http2Error):
    """One stream ends with this code (5.4.2). The other streams are not affected."""


class FrameReader:
    """A reader of frames. It is fed bytes and yields (type, flags, stream, payload) of every complete frame."""

    def __init__(self, frame_bytes_max: int, *, preface: bytes = b"") -> None:
        """`preface`: bytes that must come before the first frame."""
        self._max = frame_bytes_max
        self._preface = preface  # the part that has not arrived
        self._parts: list[bytes] = []  # of an incomplete frame
        self._missing = 0
        self.pending_bytes = 0  # in those parts
        self.begun = 0  # number of frames that arrived in parts

    def feed(self, data: bytes) -> Iterator[tuple[int, int, int, bytes]]:
        if self._preface:
            begin = data[: len(self._preface)]
            if not self._preface.startswith(begin):
                raise Http2ConnectionError(PROTOCOL_ERROR, "this is not HTTP/2")
            self._preface, data = self._preface[len(begin) :], data[len(begin) :]
        if self._parts:
            self._parts.append(data)
            self._missing -= len(data)
            self.pending_bytes += len(data)
            if self._missing > 0:
                return
            data = b"".join(self._parts)
            self._parts = []
            self.pending_bytes = 0
        at, end = 0, len(data)
        until = HEAD_BYTES
        while until <= end:
            high, low, kind, flags, stream = _HEAD.unpack_from(data, at)
            length = high << 8 | low
            if length > self._max:
                raise Http2ConnectionError(FRAME_SIZE_ERROR, "a frame is too long")
            until += length
            if until > end:
                break
            yield kind, flags, stream & WINDOW_MAX, data[at + HEAD_BYTES : until]
            at = until
            until += HEAD_BYTES
        if at < end:
            self._parts = [data[at:] if at else data]
            self._missing = until - end
            self.pending_bytes = end - at
            self.begun += 1


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


def check_control(kind: int, flags: int, stream: int, payload: bytes) -> None:
    """Refuse a frame, other than DATA and HEADERS, of the wrong length or for the wrong stream."""
    size = len(payload)
    if (kind in _OF_A_STREAM and not stream) or (kind in _OF_THE_CONNECTION and stream):
        raise Http2ConnectionError(PROTOCOL_ERROR, "a frame on the wrong stream")
    if (
        _LENGTHS.get(kind, size) != size
        or (kind == GOAWAY and size < _GOAWAY_BYTES_MIN)
        or (kind == SETTINGS and (size % _SETTING.size or (flags & ACK and size)))
    ):
        raise Http2ConnectionError(FRAME_SIZE_ERROR, "a frame of the wrong length")


def check_priority(stream: int, payload: bytes) -> None:
    if len(payload) != _PRIORITY_BYTES:
        raise Http2StreamError(FRAME_SIZE_ERROR, "a priority of the wrong length")
    if read_number(payload[:4]) == stream:
        raise Http2StreamError(PROTOCOL_ERROR, "a stream that depends on itself")


def read_number(payload: bytes) -> int:
    """Return the 31-bit number in a payload."""
    number: int = _NUMBER.unpack(payload)[0]
    return number & WINDOW_MAX


def read_settings(payload: bytes) -> dict[int, int]:
    values: dict[int, int] = {}
    for key, value in _SETTING.iter_unpack(payload):  # all are checked. The last value of a repeated setting counts
        if key == SETTING_ENABLE_PUSH and value > 1:
            raise Http2ConnectionError(PROTOCOL_ERROR, "push is neither on nor off")
        if key == SETTING_INITIAL_WINDOW and value > WINDOW_MAX:
            raise Http2ConnectionError(FLOW_CONTROL_ERROR, "a window beyond its limit")
        if key == SETTING_FRAME_BYTES and not DEFAULT_FRAME_BYTES <= value < 1 << 24:
            raise Http2ConnectionError(PROTOCOL_ERROR, "a frame size out of range")
        values[key] = value
    return values


def without_padding(flags: int, payload: bytes) -> bytes:
    """Return the content of a DATA or HEADERS frame without its padding and priority."""
    padded, priority = flags & PADDED, flags & WITH_PRIORITY
    start, end = (1 if padded else 0) + (_PRIORITY_BYTES if priority else 0), len(payload)
    if start > end:
        raise Http2ConnectionError(FRAME_SIZE_ERROR, "a frame is too short for its flags")
    if padded:
        end -= payload[0]
    if start > end:
        raise Http2ConnectionError(PROTOCOL_ERROR, "more padding than frame")
    return payload[start:end]

"""RFC 9113 and RFC 7541 as rows: the bytes of a client, and the required reaction of a server.

A row holds the bytes after the connection preface and the first SETTINGS (a row of section 3.4 all bytes), and one of
    Closes(code)          a connection error: GOAWAY with this code
    Resets(code, stream)  a stream error: RST_STREAM with this code, and the connection stays open
    Answers(status)       stream 1 is answered with this gRPC status, and the connection stays open
    Goes()                no error
`Until()` among the bytes waits for the answer of stream 1.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from penstock.doors.google import messages as m
from penstock.doors.google.framing import frame_message
from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack

NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR = h2.NO_ERROR, h2.PROTOCOL_ERROR, h2.FLOW_CONTROL_ERROR
STREAM_CLOSED, FRAME_SIZE_ERROR, COMPRESSION_ERROR = h2.STREAM_CLOSED, h2.FRAME_SIZE_ERROR, h2.COMPRESSION_ERROR
REFUSED_STREAM = h2.REFUSED_STREAM

FRAME_BYTES_MAX = 1 << 20  # the limit in the server's SETTINGS
GET_TOPIC = "/google.pubsub.v1.Publisher/GetTopic"
STREAMING_PULL = "/google.pubsub.v1.Subscriber/StreamingPull"
NOT_FOUND = "5"
MESSAGE = frame_message(
    m.message("google.pubsub.v1.GetTopicRequest")(topic="projects/p/topics/missing").SerializeToString()
)
LENGTH = str(len(MESSAGE))
METHOD, SCHEME, PATH = (":method", "POST"), (":scheme", "http"), (":path", GET_TOPIC)
AUTHORITY = (":authority", "localhost")
GRPC = ("content-type", "application/grpc")
PSEUDO = [METHOD, SCHEME, PATH, AUTHORITY]
HEADERS = [*PSEUDO, GRPC, ("te", "trailers")]


@dataclass(frozen=True)
class Closes:
    code: int


@dataclass(frozen=True)
class Resets:
    code: int
    stream: int = 1


@dataclass(frozen=True)
class Answers:
    status: str = NOT_FOUND


@dataclass(frozen=True)
class Goes:
    pass


@dataclass(frozen=True)
class Until:
    pass


@dataclass(frozen=True)
class Row:
    section: str
    case: str
    sent: tuple[bytes | Until, ...]
    expected: Closes | Resets | Answers | Goes


def head(headers: list[tuple[str, str]], stream: int = 1, *, flags: int = h2.END_HEADERS) -> bytes:
    return h2.frame(h2.HEADERS, flags, stream, hpack.encode(headers))


def request(*more: tuple[str, str], stream: int = 1) -> bytes:
    """Return the HEADERS frame of a call without its body."""
    return head([*HEADERS, *more], stream)


def data(content: bytes = MESSAGE, stream: int = 1, *, end: bool = True) -> bytes:
    return h2.frame(h2.DATA, h2.END_STREAM if end else 0, stream, content)


def call(headers: list[tuple[str, str]]) -> tuple[bytes, bytes]:
    return head(headers), data()


def raw(kind: int, flags: int = 0, stream: int = 0, payload: bytes = b"") -> bytes:
    return h2.frame(kind, flags, stream, payload)


def long_frame(kind: int, stream: int) -> bytes:
    """Return the header of a frame that is longer than allowed."""
    length = FRAME_BYTES_MAX + 1
    return struct.pack(">HBBBL", length >> 8, length & 0xFF, kind, 0, stream)


def settings(*values: tuple[int, int]) -> bytes:
    return h2.frame(h2.SETTINGS, 0, 0, b"".join(struct.pack(">HL", *each) for each in values))


OPEN = head([METHOD, SCHEME, (":path", STREAMING_PULL), AUTHORITY, GRPC])  # a stream that stays open
WHOLE = (request(), data())
OVER = (*WHOLE, Until())  # a stream that both sides have ended
TRAILERS = h2.END_HEADERS | h2.END_STREAM
PRIORITY_OF_1 = b"\0\0\0\x01\0"  # depends on stream 1
WINDOW, FRAME, PUSH, TABLE = 4, 5, 2, 1

FRAMES = [
    Row("3.4", "the preface, SETTINGS, a call", (h2.PREFACE, settings(), *WHOLE), Answers()),
    Row("3.4", "the first frame is a PING", (h2.PREFACE, raw(h2.PING, payload=b"x" * 8)), Closes(PROTOCOL_ERROR)),
    Row("3.4", "the first frame is a request", (h2.PREFACE, *WHOLE), Closes(PROTOCOL_ERROR)),
    Row("3.4", "the first frame is SETTINGS with ACK", (h2.PREFACE, raw(h2.SETTINGS, h2.ACK)), Closes(PROTOCOL_ERROR)),
    Row("3.4", "the first frame is of no known type", (h2.PREFACE, raw(0xEE)), Closes(PROTOCOL_ERROR)),
    Row("4.1", "a frame of no known type", (raw(0xEE, 0xFF, 0, b"?"), *WHOLE), Answers()),
    Row("4.1", "flags of no known meaning", (raw(h2.PING, 0xF6, 0, b"x" * 8), *WHOLE), Answers()),
    Row("4.1", "the reserved bit of the stream", (raw(h2.PING, 0, 1 << 31, b"x" * 8), *WHOLE), Answers()),
    Row("4.2", "DATA of the largest size", (request(), data(b"x" * FRAME_BYTES_MAX)), Answers("8")),
    Row("4.2", "DATA beyond the largest size", (request(), long_frame(h2.DATA, 1)), Closes(FRAME_SIZE_ERROR)),
    Row("4.2", "HEADERS beyond the largest size", (long_frame(h2.HEADERS, 1),), Closes(FRAME_SIZE_ERROR)),
    Row("4.2", "an unknown frame beyond it", (long_frame(0xEE, 0),), Closes(FRAME_SIZE_ERROR)),
    Row("4.3", "an invalid header block", (raw(h2.HEADERS, 4, 1, b"\x80"),), Closes(COMPRESSION_ERROR)),
    Row("4.3", "trailers that are none", (OPEN, raw(h2.HEADERS, 5, 1, b"\x80")), Closes(COMPRESSION_ERROR)),
    Row(
        "4.3",
        "PRIORITY within a header block",
        (head(HEADERS, flags=0), raw(h2.PRIORITY, 0, 1, b"\0" * 5)),
        Closes(PROTOCOL_ERROR),
    ),
    Row(
        "4.3",
        "HEADERS of another stream within it",
        (head(HEADERS, flags=0), request(stream=3)),
        Closes(PROTOCOL_ERROR),
    ),
    Row("5.5", "an unknown frame within it", (head(HEADERS, flags=0), raw(0xEE, 0, 1)), Closes(PROTOCOL_ERROR)),
    Row("6.1", "DATA on stream 0", (data(stream=0),), Closes(PROTOCOL_ERROR)),
    Row("6.1", "padding", (request(), raw(h2.DATA, 9, 1, b"\x03" + MESSAGE + b"\0" * 3)), Answers()),
    Row("6.1", "nothing but padding", (OPEN, raw(h2.DATA, 8, 1, b"\x03\0\0\0")), Goes()),
    Row("6.1", "padding as long as the frame", (request(), raw(h2.DATA, 9, 1, b"\x01")), Closes(PROTOCOL_ERROR)),
    Row("6.1", "padding longer than it", (request(), raw(h2.DATA, 9, 1, b"\xffxyz")), Closes(PROTOCOL_ERROR)),
    Row("6.1", "padded, and no length", (request(), raw(h2.DATA, 9, 1)), Closes(FRAME_SIZE_ERROR)),
    Row("6.2", "HEADERS on stream 0", (head(HEADERS, 0),), Closes(PROTOCOL_ERROR)),
    Row("6.2", "padding", (raw(h2.HEADERS, 12, 1, b"\x02" + hpack.encode(HEADERS) + b"\0\0"), data()), Answers()),
    Row("6.2", "padding as long as the frame", (raw(h2.HEADERS, 12, 1, b"\x01"),), Closes(PROTOCOL_ERROR)),
    Row("6.2", "padding longer than it", (raw(h2.HEADERS, 13, 1, b"\x09x"),), Closes(PROTOCOL_ERROR)),
    Row("6.2", "padded, and no length", (raw(h2.HEADERS, 12, 1),), Closes(FRAME_SIZE_ERROR)),
    Row("6.2", "with priority, and too short for it", (raw(h2.HEADERS, 0x24, 1, b"\0" * 4),), Closes(FRAME_SIZE_ERROR)),
    Row("6.2", "with a priority", (raw(h2.HEADERS, 0x24, 1, b"\0" * 5 + hpack.encode(HEADERS)), data()), Answers()),
    Row("6.3", "PRIORITY on stream 0", (raw(h2.PRIORITY, 0, 0, b"\0" * 5),), Closes(PROTOCOL_ERROR)),
    Row("6.3", "PRIORITY of an idle stream", (raw(h2.PRIORITY, 0, 1, b"\0" * 5), *WHOLE), Answers()),
    Row("6.3", "PRIORITY of a closed one", (*OVER, raw(h2.PRIORITY, 0, 1, b"\0" * 5)), Goes()),
    Row("6.3", "PRIORITY too short", (OPEN, raw(h2.PRIORITY, 0, 1, b"\0" * 4)), Resets(FRAME_SIZE_ERROR)),
    Row("6.3", "PRIORITY too long, idle", (raw(h2.PRIORITY, 0, 1, b"\0" * 6),), Closes(FRAME_SIZE_ERROR)),
    Row(
        "5.3", "a stream that depends on itself", (OPEN, raw(h2.PRIORITY, 0, 1, PRIORITY_OF_1)), Resets(PROTOCOL_ERROR)
    ),
    Row("5.3", "the same while idle", (raw(h2.PRIORITY, 0, 1, PRIORITY_OF_1),), Closes(PROTOCOL_ERROR)),
    Row(
        "5.3",
        "the same in HEADERS",
        (raw(h2.HEADERS, 0x24, 1, PRIORITY_OF_1 + hpack.encode(HEADERS)),),
        Resets(PROTOCOL_ERROR),
    ),
    Row("6.4", "RST_STREAM on stream 0", (h2.rst_stream(0, 8),), Closes(PROTOCOL_ERROR)),
    Row("6.4", "RST_STREAM of an idle stream", (h2.rst_stream(9, 8),), Closes(PROTOCOL_ERROR)),
    Row("6.4", "RST_STREAM of a server's stream", (*OVER, h2.rst_stream(2, 8)), Closes(PROTOCOL_ERROR)),
    Row("6.4", "RST_STREAM too short", (OPEN, raw(h2.RST_STREAM, 0, 1, b"\0" * 3)), Closes(FRAME_SIZE_ERROR)),
    Row("6.4", "RST_STREAM twice", (OPEN, h2.rst_stream(1, 8), h2.rst_stream(1, 8)), Goes()),
    Row("6.5", "SETTINGS on a stream", (raw(h2.SETTINGS, 0, 1),), Closes(PROTOCOL_ERROR)),
    Row("6.5", "SETTINGS of a wrong length", (raw(h2.SETTINGS, 0, 0, b"\0" * 5),), Closes(FRAME_SIZE_ERROR)),
    Row("6.5", "an ACK with content", (raw(h2.SETTINGS, 1, 0, b"\0\x03\0\0\0\x64"),), Closes(FRAME_SIZE_ERROR)),
    Row("6.5", "an ACK for nothing", (raw(h2.SETTINGS, h2.ACK), *WHOLE), Answers()),
    Row("6.5.2", "ENABLE_PUSH 0 and 1", (settings((PUSH, 0), (PUSH, 1)), *WHOLE), Answers()),
    Row("6.5.2", "ENABLE_PUSH 2", (settings((PUSH, 2)),), Closes(PROTOCOL_ERROR)),
    Row("6.5.2", "a window beyond 2^31-1", (settings((WINDOW, 1 << 31)),), Closes(FLOW_CONTROL_ERROR)),
    Row(
        "6.5.2",
        "the same, and then a good one",
        (settings((WINDOW, 1 << 31), (WINDOW, 9)),),
        Closes(FLOW_CONTROL_ERROR),
    ),
    Row("6.5.2", "frames smaller than 2^14", (settings((FRAME, (1 << 14) - 1)),), Closes(PROTOCOL_ERROR)),
    Row("6.5.2", "the same, and then good ones", (settings((FRAME, 1), (FRAME, 1 << 15)),), Closes(PROTOCOL_ERROR)),
    Row("6.5.2", "frames larger than 2^24-1", (settings((FRAME, 1 << 24)),), Closes(PROTOCOL_ERROR)),
    Row("6.5.2", "the largest frames", (settings((FRAME, (1 << 24) - 1)), *WHOLE), Answers()),
    Row("6.5.2", "an unknown setting", (settings((0xEE, 1 << 31)), *WHOLE), Answers()),
    Row("6.6", "PUSH_PROMISE of a client", (OPEN, raw(h2.PUSH_PROMISE, 4, 1, b"\0\0\0\x02")), Closes(PROTOCOL_ERROR)),
    Row("6.7", "PING on a stream", (raw(h2.PING, 0, 1, b"x" * 8),), Closes(PROTOCOL_ERROR)),
    Row("6.7", "PING too short", (raw(h2.PING, 0, 0, b"x" * 7),), Closes(FRAME_SIZE_ERROR)),
    Row("6.7", "PING too long", (raw(h2.PING, 0, 0, b"x" * 9),), Closes(FRAME_SIZE_ERROR)),
    Row("6.7", "an unexpected PING with ACK", (raw(h2.PING, h2.ACK, 0, b"x" * 8), *WHOLE), Answers()),
    Row("6.8", "GOAWAY on a stream", (raw(h2.GOAWAY, 0, 1, b"\0" * 8),), Closes(PROTOCOL_ERROR)),
    Row("6.8", "GOAWAY too short", (raw(h2.GOAWAY, 0, 0, b"\0" * 7),), Closes(FRAME_SIZE_ERROR)),
    Row("6.8", "GOAWAY, and calls go on", (request(), raw(h2.GOAWAY, 0, 0, b"\0" * 8 + b"bye"), data()), Answers()),
    Row("6.9", "WINDOW_UPDATE too short", (raw(h2.WINDOW_UPDATE, 0, 0, b"\0" * 3),), Closes(FRAME_SIZE_ERROR)),
    Row("6.9", "WINDOW_UPDATE too long", (OPEN, raw(h2.WINDOW_UPDATE, 0, 1, b"\0" * 5)), Closes(FRAME_SIZE_ERROR)),
    Row("6.9", "no increment, connection", (h2.window_update(0, 0),), Closes(PROTOCOL_ERROR)),
    Row("6.9", "no increment, stream", (OPEN, h2.window_update(1, 0)), Resets(PROTOCOL_ERROR)),
    Row("6.9", "an idle stream", (h2.window_update(5, 1),), Closes(PROTOCOL_ERROR)),
    Row("6.9", "a stream of the server's", (*OVER, h2.window_update(2, 1)), Closes(PROTOCOL_ERROR)),
    Row("6.9", "a closed stream", (*OVER, h2.window_update(1, 1)), Goes()),
    Row(
        "6.9",
        "a closed stream, as much as would overflow a connection",
        (h2.window_update(0, h2.WINDOW_MAX - h2.DEFAULT_WINDOW), *OVER, h2.window_update(1, h2.WINDOW_MAX)),
        Goes(),
    ),
    Row("6.9", "a closed stream, no increment", (*OVER, h2.window_update(1, 0)), Goes()),
    Row("6.9.1", "overflow, connection", (h2.window_update(0, h2.WINDOW_MAX),), Closes(FLOW_CONTROL_ERROR)),
    Row("6.9.1", "overflow, stream", (OPEN, h2.window_update(1, h2.WINDOW_MAX)), Resets(FLOW_CONTROL_ERROR)),
    Row(
        "6.9.2",
        "overflow of a stream by SETTINGS",
        (OPEN, h2.window_update(1, h2.WINDOW_MAX - h2.DEFAULT_WINDOW), settings((WINDOW, h2.DEFAULT_WINDOW + 1))),
        Closes(FLOW_CONTROL_ERROR),
    ),
    Row("6.9.2", "a window below zero, and above", (settings((WINDOW, 0), (WINDOW, 9999)), *WHOLE), Answers()),
    Row("6.10", "CONTINUATION on stream 0", (raw(h2.CONTINUATION, 4, 0),), Closes(PROTOCOL_ERROR)),
    Row("6.10", "of nothing", (raw(h2.CONTINUATION, 4, 1),), Closes(PROTOCOL_ERROR)),
    Row("6.10", "after END_HEADERS", (OPEN, raw(h2.CONTINUATION, 4, 1)), Closes(PROTOCOL_ERROR)),
    Row("6.10", "after DATA", (OPEN, data(b"", end=False), raw(h2.CONTINUATION, 4, 1)), Closes(PROTOCOL_ERROR)),
    Row("6.10", "of another stream", (head(HEADERS, flags=0), raw(h2.CONTINUATION, 4, 3)), Closes(PROTOCOL_ERROR)),
    Row(
        "6.10",
        "one after the other, one empty",
        (
            head(PSEUDO, flags=0),
            raw(h2.CONTINUATION, 0, 1),
            raw(h2.CONTINUATION, 4, 1, hpack.encode([GRPC])),
            data(),
        ),
        Answers(),
    ),
]

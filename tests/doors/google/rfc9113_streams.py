"""Rows for RFC 9113, sections 5 and 8, and RFC 7541: the life of a stream, valid requests, and header compression."""

from __future__ import annotations

from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack
from tests.doors.google.rfc9113 import (
    AUTHORITY,
    COMPRESSION_ERROR,
    GRPC,
    HEADERS,
    LENGTH,
    MESSAGE,
    METHOD,
    OPEN,
    OVER,
    PATH,
    PROTOCOL_ERROR,
    PSEUDO,
    SCHEME,
    STREAM_CLOSED,
    TRAILERS,
    WHOLE,
    Answers,
    Closes,
    Goes,
    Resets,
    Row,
    Until,
    call,
    data,
    head,
    raw,
    request,
)

RESET = (OPEN, h2.rst_stream(1, 8))  # closed by the client
# answered and closed before the request was complete
REFUSED = (head([*PSEUDO[:2], (":path", "/no/such"), GRPC]), Until())
ENDED = (head([METHOD, SCHEME, (":path", "/google.pubsub.v1.Subscriber/StreamingPull"), GRPC], flags=TRAILERS),)

STREAMS = [
    Row("5.1", "idle: DATA", (data(),), Closes(PROTOCOL_ERROR)),
    Row("5.1", "idle, above an open one: DATA", (OPEN, data(stream=7)), Closes(PROTOCOL_ERROR)),
    Row("5.1", "half closed: DATA", (request(), data(end=True), data()), Resets(STREAM_CLOSED)),
    Row("5.1", "half closed: HEADERS", (*WHOLE, head([("a", "b")], flags=TRAILERS)), Resets(STREAM_CLOSED)),
    Row("5.1", "half closed: HEADERS that would be a request", (*WHOLE, request()), Resets(STREAM_CLOSED)),
    Row(
        "5.1",
        "half closed: WINDOW_UPDATE, PRIORITY",
        (*WHOLE, h2.window_update(1, 9), raw(2, 0, 1, b"\0" * 5)),
        Answers(),
    ),
    Row("5.1", "half closed: RST_STREAM", (*ENDED, h2.rst_stream(1, 8)), Goes()),
    Row("5.1", "closed by the client: DATA", (*RESET, data()), Resets(STREAM_CLOSED)),
    Row("5.1", "closed by the client: HEADERS", (*RESET, request()), Resets(STREAM_CLOSED)),
    Row("5.1", "closed by the client: WINDOW_UPDATE", (*RESET, h2.window_update(1, 1)), Goes()),
    Row("5.1", "closed by the client: PRIORITY", (*RESET, raw(h2.PRIORITY, 0, 1, b"\0" * 5)), Goes()),
    Row("5.1", "closed by the server: DATA on its way", (*REFUSED, data(), data()), Goes()),
    Row("5.1", "closed by the server: trailers", (*REFUSED, head([("a", "b")], flags=TRAILERS)), Goes()),
    Row("5.1", "closed by the server: RST_STREAM", (*REFUSED, h2.rst_stream(1, 8), h2.window_update(1, 1)), Goes()),
    Row("5.1", "closed by both: DATA", (*OVER, data()), Closes(STREAM_CLOSED)),
    Row("5.1", "closed by both: HEADERS", (*OVER, request()), Closes(STREAM_CLOSED)),
    Row("5.1", "closed by both: RST_STREAM", (*OVER, h2.rst_stream(1, 8)), Goes()),
    Row("5.1.1", "an even stream", (head(HEADERS, 2),), Closes(PROTOCOL_ERROR)),
    Row("5.1.1", "a lower stream than before", (request(stream=5), request(stream=3)), Closes(PROTOCOL_ERROR)),
    Row("5.1.1", "streams left out", (request(stream=9), data(stream=9)), Goes()),
    Row("5.4.2", "after a stream error others go on", (OPEN, h2.window_update(1, 0), request(stream=3)), Resets(1)),
]

REQUESTS = [
    Row("8.1", "HEADERS, DATA", WHOLE, Answers()),
    Row("8.1", "trailers", (request(), data(end=False), head([("a", "b")], flags=TRAILERS)), Answers()),
    Row("8.1", "empty DATA ends it", (request(), data(end=False), data(b"")), Answers()),
    Row("8.1", "HEADERS in the middle", (request(), data(end=False), head([("a", "b")])), Resets(PROTOCOL_ERROR)),
    Row("8.1", "a pseudo header in trailers", (request(), head([METHOD], flags=TRAILERS)), Resets(PROTOCOL_ERROR)),
    Row(
        "8.1", "an upper case name in trailers", (request(), head([("A", "b")], flags=TRAILERS)), Resets(PROTOCOL_ERROR)
    ),
    Row(
        "8.1",
        "trailers too early for the length",
        (request(("content-length", "9")), head([("a", "b")], flags=TRAILERS)),
        Resets(PROTOCOL_ERROR),
    ),
    Row("8.1.1", "the right content-length", (request(("content-length", LENGTH)), data()), Answers()),
    Row("8.1.1", "less than content-length", (request(("content-length", "9999")), data()), Resets(PROTOCOL_ERROR)),
    Row("8.1.1", "more than content-length", (request(("content-length", "1")), data()), Resets(PROTOCOL_ERROR)),
    Row(
        "8.1.1",
        "more, and not the end yet",
        (request(("content-length", "1")), data(end=False)),
        Resets(PROTOCOL_ERROR),
    ),
    Row(
        "8.1.1",
        "in several frames, more",
        (request(("content-length", LENGTH)), data(end=False), data(b"x")),
        Resets(PROTOCOL_ERROR),
    ),
    Row(
        "8.1.1",
        "padding does not count",
        (request(("content-length", LENGTH)), raw(0, 9, 1, b"\2" + MESSAGE + b"\0\0")),
        Answers(),
    ),
    Row(
        "8.1.1",
        "a length without DATA",
        (head([*HEADERS, ("content-length", "1")], flags=TRAILERS),),
        Resets(PROTOCOL_ERROR),
    ),
    Row("8.1.1", "a length that is no number", (request(("content-length", "x")),), Resets(PROTOCOL_ERROR)),
    Row("8.1.1", "a length with a sign", (request(("content-length", "+1")),), Resets(PROTOCOL_ERROR)),
    Row(
        "8.1.1", "two lengths", (request(("content-length", LENGTH), ("content-length", "1")),), Resets(PROTOCOL_ERROR)
    ),
    Row(
        "8.1.1",
        "the same length twice",
        (request(("content-length", LENGTH), ("content-length", LENGTH)), data()),
        Answers(),
    ),
    *[
        Row("8.2.1", f"a name with {name!r}", call([*PSEUDO, GRPC, (name, "x")]), Resets(PROTOCOL_ERROR))
        for name in ("Te", "X", "a b", "a\0", "a\n", "a\x7f", "\xe4", "a:b", "")
    ],
    *[
        Row("8.2.1", f"a value {value!r}", call([*HEADERS, ("a", value)]), Resets(PROTOCOL_ERROR))
        for value in ("x\ny", "x\ry", "x\r\ny: z", "x\0", " x", "x ", "\tx", "x\t")
    ],
    Row("8.2.1", "CR LF in a path", call([METHOD, SCHEME, (":path", "/a\r\nb"), GRPC]), Resets(PROTOCOL_ERROR)),
    Row("8.2.1", "any other value", call([*HEADERS, ("a", "x\x01 \xff\ty"), ("b", "")]), Answers()),
    *[
        Row("8.2.2", f"{name}: {value}", call([*HEADERS, (name, value)]), Resets(PROTOCOL_ERROR))
        for name, value in (
            ("connection", "keep-alive"),
            ("keep-alive", "5"),
            ("proxy-connection", "keep-alive"),
            ("transfer-encoding", "chunked"),
            ("upgrade", "h2c"),
            ("te", "gzip"),
            ("te", "trailers, deflate"),
        )
    ],
    Row("8.2.2", "te: trailers", call([*PSEUDO, GRPC, ("te", "trailers")]), Answers()),
    Row("8.2.3", "cookies in pieces", call([*HEADERS, ("cookie", "a=b"), ("cookie", "c=d")]), Answers()),
    Row("8.3", "an unknown pseudo header", call([*PSEUDO, (":what", "x"), GRPC]), Resets(PROTOCOL_ERROR)),
    Row("8.3", "one of an answer", call([*PSEUDO, (":status", "200"), GRPC]), Resets(PROTOCOL_ERROR)),
    Row("8.3", "one after a header", call([*PSEUDO[:3], GRPC, AUTHORITY]), Resets(PROTOCOL_ERROR)),
    *[
        Row("8.3.1", f"{name} twice", call([*PSEUDO, (name, value), GRPC]), Resets(PROTOCOL_ERROR))
        for name, value in PSEUDO
    ],
    *[
        Row("8.3.1", f"no {left_out[0]}", call([each for each in HEADERS if each != left_out]), Resets(PROTOCOL_ERROR))
        for left_out in (METHOD, SCHEME, PATH)
    ],
    Row("8.3.1", "no headers at all", (head([]),), Resets(PROTOCOL_ERROR)),
    Row("8.3.1", "no pseudo headers at all", (head([GRPC]),), Resets(PROTOCOL_ERROR)),
    Row("8.3.1", "no :authority", call([METHOD, SCHEME, PATH, GRPC]), Answers()),
    Row("8.3.1", "an empty :path", call([METHOD, SCHEME, (":path", ""), GRPC]), Resets(PROTOCOL_ERROR)),
    Row("8.3.1", "a :path without its slash", call([METHOD, SCHEME, (":path", "x"), GRPC]), Resets(PROTOCOL_ERROR)),
    Row("8.3.1", "a star that is not OPTIONS", call([METHOD, SCHEME, (":path", "*"), GRPC]), Resets(PROTOCOL_ERROR)),
    Row("8.3.1", "an empty :method", call([(":method", ""), SCHEME, PATH, GRPC]), Resets(PROTOCOL_ERROR)),
    Row(
        "8.3.1",
        "a user in :authority",
        call([METHOD, SCHEME, PATH, (":authority", "a@b"), GRPC]),
        Resets(PROTOCOL_ERROR),
    ),
    Row("8.3.1", "the same host", call([*PSEUDO, ("host", "LOCALHOST"), GRPC]), Answers()),
    Row("8.3.1", "another host", call([*PSEUDO, ("host", "example.com"), GRPC]), Resets(PROTOCOL_ERROR)),
    Row("8.5", "CONNECT with :path and :scheme", call([(":method", "CONNECT"), *PSEUDO[1:]]), Resets(PROTOCOL_ERROR)),
    Row("8.5", "CONNECT without :authority", call([(":method", "CONNECT")]), Resets(PROTOCOL_ERROR)),
]

ENTRY = b"\x40\x01a\x01b"  # stored in the table as entry 62


def block(content: bytes) -> tuple[bytes, bytes]:
    return raw(h2.HEADERS, h2.END_HEADERS, 1, content), data()


PLAIN = hpack.encode(HEADERS)

COMPRESSION = [
    Row("7541 2.3.3", "an entry that is not there", block(PLAIN + b"\xbe"), Closes(COMPRESSION_ERROR)),
    Row("7541 2.3.3", "a name that is not there", block(PLAIN + b"\x7e\x01b"), Closes(COMPRESSION_ERROR)),
    Row("7541 2.3.3", "an entry that is there", block(PLAIN + ENTRY + b"\xbe"), Answers()),
    Row("7541 4.2", "a table size at the start", block(b"\x20" + PLAIN), Answers()),
    Row("7541 4.2", "two of them", block(b"\x20\x3f\xe1\x1f" + PLAIN + ENTRY + b"\xbe"), Answers()),
    Row("7541 4.2", "one after a header", block(PLAIN + b"\x20"), Closes(COMPRESSION_ERROR)),
    Row(
        "7541 4.3",
        "what a smaller table lost",
        (*block(PLAIN + ENTRY), Until(), raw(1, 5, 3, b"\x20\x3f\xe1\x1f\xbe")),
        Closes(COMPRESSION_ERROR),
    ),
    Row("7541 4.4", "an entry larger than the table", block(PLAIN + b"\x40\x01a\x7f\x81\x1f" + b"x" * 4096), Answers()),
    Row("7541 5.1", "an integer without end", block(PLAIN + b"\xff" + b"\xff" * 9), Closes(COMPRESSION_ERROR)),
    Row("7541 5.1", "an integer cut off", block(PLAIN + b"\xff"), Closes(COMPRESSION_ERROR)),
    Row("7541 5.2", "a string cut off", block(PLAIN + b"\x00\x05ab"), Closes(COMPRESSION_ERROR)),
    Row("7541 5.2", "Huffman padding of a byte", block(PLAIN + b"\x00\x82\x1f\xff\x00"), Closes(COMPRESSION_ERROR)),
    Row("7541 5.2", "Huffman padding of zeros", block(PLAIN + b"\x00\x81\x18\x00"), Closes(COMPRESSION_ERROR)),
    Row(
        "7541 5.2",
        "the end of string within",
        block(PLAIN + b"\x00\x84\xff\xff\xff\xff\x00"),
        Closes(COMPRESSION_ERROR),
    ),
    Row("7541 5.2", "Huffman code", block(PLAIN + b"\x00\x81\x1f\x00"), Answers()),
    Row("7541 6.1", "entry 0", block(PLAIN + b"\x80"), Closes(COMPRESSION_ERROR)),
    Row("7541 6.3", "a larger table than allowed", block(b"\x3f\xe2\x1f" + PLAIN), Closes(COMPRESSION_ERROR)),
    Row("7541 6.2.3", "never indexed", block(PLAIN + b"\x10\x01a\x01b"), Answers()),
]

"""The parser of one HTTP/1.1 connection, without I/O: bytes in, requests out.

    WAITING -> HEAD -> BODY -> WAITING ...         any stage -> CLOSED (refused, or the peer's last request)

A limit is checked before data is stored. Input leads to turns (a request to answer, or a refusal that ends the
connection), never to an exception. Request bodies are not decompressed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum, auto
from functools import lru_cache
from typing import NamedTuple, NoReturn, TypeAlias

import httptools

from penstock.wire.budget import gather
from penstock.wire.http1_message import Request


@dataclass(frozen=True, slots=True)
class HttpLimits:
    """The limits of a peer of an HTTP/1.1 server. Beyond a limit the connection ends."""

    body_bytes_max: int = 1 << 20
    large_bodies: tuple[bytes, int] = (b"", 0)  # path prefix, and bytes of a body below it. 0: no such paths
    head_bytes_max: int = 64 << 10  # also the limit of chunk extensions or trailers without progress
    headers_max: int = 256
    connections_max: int = 4096
    connections_per_address_max: int = 1024
    reserved_paths: tuple[str, ...] = ()  # answered even if there are too many connections
    reserve: int = 0  # connections over the limits that may request a reserved path
    pipeline_max: int = 16  # waiting requests of one connection
    pipeline_bytes_max: int = 256 << 10  # bytes of their bodies before reading pauses
    head_seconds: float = 10  # from the first byte (or from the connect) to the end of the headers
    body_seconds: float = 30  # from the end of the headers to the end of the body
    idle_seconds: float = 60  # between requests
    write_seconds: float = 30  # how long a peer may leave our data unread
    linger_seconds: float = 2  # after a refusal, discarding input so that the refusal arrives
    sweep_seconds: float = 1  # how often deadlines are checked, by one timer per server


class Stage(Enum):
    WAITING = auto()  # between requests
    HEAD = auto()
    BODY = auto()
    CLOSED = auto()  # nothing more is read


class Arrival(NamedTuple):
    """A complete request, to be answered in its turn."""

    request: Request
    keep_alive: bool
    old_version: bool  # HTTP/1.0: keeping the connection must be announced


class Refusal(NamedTuple):
    """The connection ends with this status, in its turn."""

    status: int


Turn: TypeAlias = Arrival | Refusal


def restrict(turn: Turn, limits: HttpLimits) -> Turn:
    """Return the turn of a connection over the limits, which may ask once, and only for a reserved path."""
    if isinstance(turn, Arrival) and turn.request.path in limits.reserved_paths:
        return turn._replace(keep_alive=False)
    return Refusal(503) if isinstance(turn, Arrival) else turn


class _RefusedError(Exception):
    """An exception that leaves the parser from within one of its callbacks."""


class RequestReader:
    """A parser that is fed bytes and appends to `turns`. `steps` counts changes of stage, for deadlines."""

    # The request being read; `_clear` starts the next one.
    _headers: list[tuple[str, str]]
    _spelled: list[bytes]
    _index: dict[str, str]
    _chunks: list[bytes | bytearray]

    def __init__(self, limits: HttpLimits, peer: str) -> None:
        self.turns: list[Turn] = []
        self.stage = Stage.WAITING
        self.steps = 0
        self.continue_owed = False  # the peer waits for "100 Continue" before it sends its body
        self._limits = limits
        self._peer = peer
        self._parser = httptools.HttpRequestParser(self)
        self._quiet_bytes = 0  # fed since the last progress, not counting the feed with the progress
        self._fed = 0  # bytes of the current feed
        self._uncounted = 0  # bytes of the feed in which the last message ended, which may include part of this head
        self._refusal = 400
        self._body_follows = False  # the body belongs to a head that another parser has read
        self._clear()

    def feed(self, data: bytes | memoryview) -> None:
        rest: bytes | memoryview = data
        while rest and self.stage is not Stage.CLOSED:
            rest = self._feed_parser(rest)

    def refuse(self, status: int) -> None:
        """End the connection with this status, after the turns that came before."""
        if self.stage is not Stage.CLOSED:
            self.turns.append(Refusal(status))
            self._clear()
            self._enter(Stage.CLOSED)

    def forget(self) -> None:
        """Drop the incomplete request, because reading ends."""
        self._clear()

    def close(self) -> None:
        """Drop the parser, so that the reference cycle with it ends and both are freed at once."""
        self.stage = Stage.CLOSED
        del self._parser

    def _feed_parser(self, data: bytes | memoryview) -> bytes | memoryview:
        """Feed the parser once. Return the rest, which belongs to the next message."""
        self._fed = len(data)
        self._quiet_bytes += self._fed
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade as upgrade:
            return self._decline_upgrade(data[upgrade.args[0] :])
        except httptools.HttpParserError:
            self.refuse(self._refusal)
        if self._quiet_bytes > self._limits.head_bytes_max:
            self.refuse(431)
        return b""

    def _decline_upgrade(self, rest: bytes | memoryview) -> bytes | memoryview:
        """Continue in HTTP/1.1 without the upgrade that a client offers, as Java's client does in its first request.

        The parser skips the body of such a request, so a new parser gets a head that announces the same body.
        """
        self._parser = httptools.HttpRequestParser(self)
        self._quiet_bytes = 0
        if self.stage is Stage.BODY:
            self._body_follows = True
            framing = f"Content-Length: {self._length}" if self._length else "Transfer-Encoding: chunked"
            self._parser.feed_data(f"POST / HTTP/1.1\r\n{framing}\r\n\r\n".encode())
        return rest

    # Called by the parser.

    def on_message_begin(self) -> None:
        if not self._body_follows:
            self._enter(Stage.HEAD)

    def on_url(self, url: bytes) -> None:
        if not self._body_follows:
            self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        if self.stage is not Stage.HEAD:
            return  # a trailer, or the head for a declined upgrade, which do not change the request
        if len(self._headers) >= self._limits.headers_max:
            self._fail(431)
        self._spelled.append(name)
        self._headers.append((_lower(name), value.decode("latin-1")))

    def on_headers_complete(self) -> None:
        if self._quiet_bytes + self._uncounted > self._limits.head_bytes_max:
            self._check_head_bytes()
        self._quiet_bytes = 0
        if self._body_follows:
            self._body_follows = False
            return
        self._index = dict(self._headers)
        self._check_head()
        self._enter(Stage.BODY)

    def on_body(self, body: bytes) -> None:
        self._quiet_bytes = 0
        self.continue_owed = False
        self.body_bytes += len(body)
        if self.body_bytes > self._body_bytes_max:
            self._fail(413)
        if self._chunks:
            gather(self._chunks, body)
        else:
            self._chunks.append(body)  # most bodies come in one piece, which is not copied

    def on_message_complete(self) -> None:
        self._quiet_bytes = 0
        self._uncounted = self._fed
        if self._has_body and not self._chunks and self._parser.should_upgrade():
            return  # see _decline_upgrade: the body is still to come
        self.continue_owed = False
        keep_alive = self._keep_alive and self._parser.should_keep_alive()
        self.turns.append(Arrival(self._request(), keep_alive, self._old_version))
        self._clear()
        self._enter(Stage.WAITING if keep_alive else Stage.CLOSED)

    # Checks before a byte of the body is stored.

    def _check_head_bytes(self) -> None:
        """Check the size of a head that may have arrived in one feed with other data."""
        size = len(self._parser.get_method()) + len(self._target) + len("  HTTP/1.1\r\n\r\n")
        size += sum(len(name) + len(value) + len(": \r\n") for name, value in self._headers)
        if size > self._limits.head_bytes_max:
            self._fail(431)

    def _check_head(self) -> None:
        index, version = self._index, self._parser.get_http_version()
        if version not in ("1.1", "1.0"):
            self._fail(505)
        self._old_version = version == "1.0"
        if "host" not in index and not self._old_version:
            self._fail(400)
        if len(index) != len(self._headers):  # readers would disagree about two hosts or two lengths
            names = [name for name, _ in self._headers]
            if any(names.count(name) > 1 for name in ("host", "content-length", "transfer-encoding")):
                self._fail(400)
        self._method = self._parser.get_method()
        if self._method == b"CONNECT":
            self._fail(501)
        if index.get("content-encoding", "identity").lower() != "identity":
            self._fail(415)
        # Repeated here, because the parser of a declined upgrade has not seen these headers.
        connection = index.get("connection", "").lower()
        self._keep_alive = "keep-alive" in connection if self._old_version else connection != "close"
        coding = index.get("transfer-encoding")
        if coding is not None and (self._old_version or coding.lower() != "chunked"):
            self._fail(501)
        self._length = int(index.get("content-length") or 0)  # the parser has checked its digits
        prefix, most = self._limits.large_bodies
        if most and _origin_form(self._target).startswith(prefix):
            self._body_bytes_max = most
        if self._length > self._body_bytes_max:
            self._fail(413)
        self._has_body = coding is not None or self._length > 0
        if "expect" in index:
            if index["expect"].lower() != "100-continue":
                self._fail(417)
            self.continue_owed = self._has_body and not self._old_version

    def _fail(self, status: int) -> NoReturn:
        self._refusal = status
        raise _RefusedError

    def _request(self) -> Request:
        path, _, query = _origin_form(self._target).decode("latin-1").partition("?")
        method = self._method.decode("latin-1")
        body = _join(self._chunks)
        return Request(method, path, query, self._headers, body, self._peer, self._index, self._spelled)

    def _clear(self) -> None:
        self._method = b""
        self._target = b""
        self._headers = []
        self._spelled = []
        self._index = {}
        self._chunks = []
        self.body_bytes = 0
        self._body_bytes_max = self._limits.body_bytes_max
        self._length = 0
        self._has_body = False
        self._keep_alive = True
        self._old_version = False

    def _enter(self, stage: Stage) -> None:
        self.stage = stage
        self.steps += 1


@lru_cache(maxsize=512)  # clients repeat the same few names
def _lower(name: bytes) -> str:
    return name.decode("latin-1").lower()


def _join(chunks: Sequence[bytes | bytearray]) -> bytes:
    return bytes(chunks[0]) if len(chunks) == 1 else b"".join(chunks)  # one piece is bytes already and not copied


def _origin_form(target: bytes) -> bytes:
    """Return the path and query of a target, without the scheme and host that proxies add."""
    if target[:1] == b"/" or b"://" not in target:
        return target
    rest = target.split(b"://", 1)[1]
    slash = rest.find(b"/")
    return rest[slash:] if slash >= 0 else b"/"

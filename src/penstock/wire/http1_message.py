"""HTTP/1.1 requests and responses as plain records, and the encoding of responses."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass, field
from http import HTTPStatus

_STATUS_LINES = {status.value: f"HTTP/1.1 {status.value} {status.phrase}\r\n" for status in HTTPStatus}
_BODILESS = frozenset({204, 304})  # RFC 9110: no body, and 204 not even a length

CONTINUE = b"HTTP/1.1 100 Continue\r\n\r\n"
LAST_CHUNK = b"0\r\n\r\n"


@dataclass(slots=True)
class Request:
    """A complete request. Path and query are as sent, percent escapes included; bytes above 127 are Latin-1."""

    method: str
    path: str
    query: str
    headers: list[tuple[str, str]]  # names in lower case, in the order sent
    body: bytes
    peer: str  # the address of the other side, without its port
    index: dict[str, str] = field(repr=False)  # headers by name. The last of several counts
    spelled: Sequence[bytes] = ()  # the names of the headers as sent, in the same order
    on_left: Callable[[], object] | None = None  # set by an answer that waits. Called when the peer closes its side

    def header(self, name: str, default: str = "") -> str:
        """Return the value of a header by its lower-case name. The last of several counts."""
        return self.index.get(name, default)


@dataclass(slots=True)
class Response:
    """A response without Date, Content-Length and Connection, which the server adds."""

    status: int
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    parts: AsyncGenerator[bytes, None] | None = None  # instead of a body: small parts, sent as they are produced


def plain_refusal(status: int) -> Response:
    """Return a refusal whose body is the reason phrase."""
    return Response(status, (("Content-Type", "text/plain; charset=utf-8"),), f"{phrase(status)}\n".encode())


def phrase(status: int) -> str:
    return _status_line(status)[13:-2]


def encode(
    response: Response, *, date: str, connection: str = "", head_only: bool = False, chunked: bool = True
) -> bytes:
    """Return the bytes of a response, or the head of one in parts. Raise ValueError for an invalid header.

    `connection`: the Connection header, if one is needed. `chunked`: False if the end of the connection ends the parts.
    """
    status, body = response.status, response.body
    lines = [f"{name}: {value}\r\n" for name, value in response.headers]
    lines.append(f"Date: {date}\r\n")
    if response.parts is not None:
        lines += ["Transfer-Encoding: chunked\r\n"] if chunked else []
    elif status not in _BODILESS:
        lines.append(f"Content-Length: {len(body)}\r\n")
    if connection:
        lines.append(f"Connection: {connection}\r\n")
    head = "".join(lines)
    if head.count("\n") != len(lines) or head.count("\r") != len(lines) or "\0" in head:
        raise ValueError("a response header has a line break")  # it could inject a header or a whole response
    encoded = f"{_status_line(status)}{head}\r\n".encode("latin-1")
    return encoded if head_only or status in _BODILESS else encoded + body


def chunk(part: bytes) -> bytes:
    """Encode a part of an answer. An empty part is left out, because an empty chunk would end the answer."""
    return b"%x\r\n%b\r\n" % (len(part), part) if part else b""


def _status_line(status: int) -> str:
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Unknown\r\n"

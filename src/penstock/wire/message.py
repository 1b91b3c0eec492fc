"""HTTP/1.1 requests and responses as plain records, and how a response becomes bytes."""

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
    index: dict[str, str] = field(repr=False)  # the headers by name; the last of several
    spelled: Sequence[bytes] = ()  # the names of the headers as sent, in the same order
    on_left: Callable[[], object] | None = None  # set by an answer that waits: called once the peer sends no more

    def header(self, name: str, default: str = "") -> str:
        """The value of a header, by its lower-case name; of several, the last."""
        return self.index.get(name, default)


@dataclass(slots=True)
class Response:
    """An answer. The server adds Date, Content-Length and Connection; give it none of these."""

    status: int
    headers: Sequence[tuple[str, str]] = ()
    body: bytes = b""
    parts: AsyncGenerator[bytes, None] | None = None  # instead of a body: sent as they come, none of them large


def plain_refusal(status: int) -> Response:
    """The answer to a request that no door has seen: its reason phrase, and nothing about the cause."""
    return Response(status, (("Content-Type", "text/plain; charset=utf-8"),), f"{phrase(status)}\n".encode())


def phrase(status: int) -> str:
    return _status_line(status)[13:-2]


def encode(
    response: Response, *, date: str, connection: str = "", head_only: bool = False, chunked: bool = True
) -> bytes:
    """The bytes of a response; of one in parts, its head. `connection`: the Connection header, if one is needed.
    Not `chunked`: the end of the connection is the end of an answer in parts. ValueError: a header is unfit.
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
        raise ValueError("a response header holds a line break")  # it could smuggle a header or a whole response
    encoded = f"{_status_line(status)}{head}\r\n".encode("latin-1")
    return encoded if head_only or status in _BODILESS else encoded + body


def chunk(part: bytes) -> bytes:
    """A part of an answer as it is sent; one without bytes would end it."""
    return b"%x\r\n%b\r\n" % (len(part), part) if part else b""


def _status_line(status: int) -> str:
    return _STATUS_LINES.get(status) or f"HTTP/1.1 {status} Unknown\r\n"

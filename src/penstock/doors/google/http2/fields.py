"""Header blocks: joined from frames, decoded, checked as requests (RFC 9113, section 8) and cached."""

from __future__ import annotations

from typing import TypeAlias

from penstock.doors.google.http2 import frames
from penstock.doors.google.http2.frames import (
    END_HEADERS,
    END_STREAM,
    PADDED,
    WITH_PRIORITY,
    Http2ConnectionError,
    Http2StreamError,
)
from penstock.doors.google.http2.hpack import Decoder, Header, HeaderError

Fields: TypeAlias = dict[str, str]

_PARTS_MAX = 64  # frames of one block
BLOCKS_BYTES_MAX = 64 << 10  # bytes of the cached blocks of a connection
_BLOCK_BYTES_MAX = 4 << 10  # bytes of one cached block. Longer blocks are decoded every time
_VALID_MAX, _VALID_BYTES_MAX = 64, 256  # number and length of cached valid headers
_FIELD_BYTES = 200  # memory of a header besides its text

_PSEUDO = (
    frozenset({":method", ":scheme", ":path"}),
    frozenset({":method", ":scheme", ":path", ":authority"}),
)
_PSEUDO_HEADERS = _PSEUDO[1]
_PSEUDO_OF_CONNECT = frozenset({":method", ":authority"})
_OF_A_CONNECTION = frozenset({"connection", "proxy-connection", "keep-alive", "transfer-encoding", "upgrade"})

# Values are checked together, joined and enclosed by line feeds, which no value may contain.
_BAD_IN_VALUES = ("\0", "\r", "\n ", " \n", "\n\t", "\t\n")


class Block:
    """The header block of a HEADERS frame and its CONTINUATION frames."""

    __slots__ = ("content", "depends_on_itself", "ends", "number")

    def __init__(self, number: int, ends: bool, depends_on_itself: bool, content: bytes) -> None:
        self.number = number
        self.ends = ends  # whether the stream ends with this block
        self.depends_on_itself = depends_on_itself
        self.content = content


class Blocks:
    def __init__(self, bytes_max: int) -> None:
        self.pending_bytes = 0
        self._max = bytes_max
        self.first: Block | None = None  # the incomplete block
        self._parts: list[bytes] = []

    def begin(self, flags: int, number: int, payload: bytes) -> Block | None:
        """Take a HEADERS frame. Return the block if it is complete."""
        if not number & 1:
            raise Http2ConnectionError(frames.PROTOCOL_ERROR, "not a client's stream")
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

    def append(self, flags: int, number: int, payload: bytes) -> Block | None:
        """Take a CONTINUATION frame. Return the block if it is complete."""
        first = self.first
        if first is None or first.number != number:
            raise Http2ConnectionError(frames.PROTOCOL_ERROR, "CONTINUATION without HEADERS")
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


class Head:
    """The headers of a request."""

    __slots__ = ("content_length", "fault", "fields", "size")

    def __init__(self, headers: list[Header], fault: str) -> None:
        self.fields: Fields = dict(headers)
        self.size = sum(map(len, self.fields.values())) + len(headers) * _FIELD_BYTES
        self.content_length = -1  # -1: not announced
        self.fault = fault or _fault_of_request(headers, self.fields)  # why the request is malformed, or empty
        if not self.fault and "content-length" in self.fields:
            text = self.fields["content-length"]
            same = all(value == text for name, value in headers if name == "content-length")
            if same and text.isascii() and text.isdigit() and len(text) <= 18:
                self.content_length = int(text)
            else:
                self.fault = "invalid content-length"


class Heads:
    """The decoder of a connection. It caches valid headers, and whole blocks that do not change its table."""

    def __init__(self) -> None:
        self._decoder = Decoder()
        self._blocks: dict[bytes, Head] = {}
        self._blocks_bytes = 0
        self._valid: set[Header] = set()

    @property
    def held_bytes(self) -> int:
        valid_bytes = len(self._valid) * (_VALID_BYTES_MAX + _FIELD_BYTES)
        return self._blocks_bytes + valid_bytes + self._decoder.table_bytes

    def request(self, block: bytes) -> Head:
        """Decode a block. The headers may be malformed."""
        cached = self._blocks.get(block)
        if cached is not None:
            return cached
        changes = self._decoder.changes
        headers = self._decode(block)
        head = Head(headers, self._fault(headers))
        size = len(block) + head.size
        fits = size <= _BLOCK_BYTES_MAX and self._blocks_bytes + size <= BLOCKS_BYTES_MAX
        if changes == self._decoder.changes and fits:
            self._blocks[block] = head
            self._blocks_bytes += size
        return head

    def trailers(self, block: bytes) -> None:
        headers = self._decode(block)
        if self._fault(headers) or any(name[:1] == ":" for name, _ in headers):
            raise Http2StreamError(frames.PROTOCOL_ERROR, "malformed trailers")

    def _decode(self, block: bytes) -> list[Header]:
        changes = self._decoder.changes
        try:
            headers = self._decoder.decode(block)
        except HeaderError as error:
            raise Http2ConnectionError(frames.COMPRESSION_ERROR, str(error)) from None
        if changes != self._decoder.changes:  # cached blocks may mean something else now
            self._blocks.clear()
            self._blocks_bytes = 0
        return headers

    def _fault(self, headers: list[Header]) -> str:
        """Return what is wrong with single headers, or an empty string."""
        valid = self._valid
        fresh = [header for header in headers if header not in valid]
        fault = _fault_of_headers(fresh) if fresh else ""
        if not fault and len(valid) < _VALID_MAX:
            valid.update(header for header in fresh[:_VALID_MAX] if len(header[0]) + len(header[1]) <= _VALID_BYTES_MAX)
        return fault


def _fault_of_headers(headers: list[Header]) -> str:
    names = [name for name, _ in headers if name not in _PSEUDO_HEADERS]
    joined = "".join(names)
    if "" in names or ":" in joined or " " in joined or not (joined.isascii() and joined.isprintable()):
        return "invalid character in a header name"
    if joined.lower() != joined:
        return "a header name in upper case"
    values = "\n" + "\n".join([value for _, value in headers]) + "\n"
    if values.count("\n") > len(headers) + 1 or any(bad in values for bad in _BAD_IN_VALUES):
        return "invalid character in a header value"
    if not _OF_A_CONNECTION.isdisjoint(names):
        return "a connection header of HTTP/1.1"
    if "te" in names and any(name == "te" and value != "trailers" for name, value in headers):
        return "invalid te"
    return ""


def _fault_of_request(headers: list[Header], fields: Fields) -> str:
    """Return what is wrong with the headers as a request, or an empty string."""
    pseudo = [name for name, _ in headers if name[0] == ":"]
    names = frozenset(pseudo)
    method, path, authority = fields.get(":method"), fields.get(":path", ""), fields.get(":authority", "")
    connects = method == "CONNECT"
    if not pseudo or len(names) != len(pseudo) or headers[len(pseudo) - 1][0][0] != ":":
        return "missing, repeated or late pseudo headers"
    if not method or (names != _PSEUDO_OF_CONNECT if connects else names not in _PSEUDO):
        return "unknown or missing pseudo headers"
    if not (connects or path[:1] == "/" or (path == "*" and method == "OPTIONS")):
        return "invalid path"
    if "@" in authority or (authority and fields.get("host", authority).lower() != authority.lower()):
        return "invalid authority, or different from the host"
    return ""

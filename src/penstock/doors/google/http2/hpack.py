"""Header compression (RFC 7541): decoding in full, encoding as plain literals."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable
from typing import TypeAlias

from penstock.doors.google.http2 import huffman

Header: TypeAlias = tuple[str, str]

TABLE_BYTES = 4096  # the default of both sides. We never announce another size
LIST_BYTES_MAX = 64 << 10
_OVERHEAD = 32  # bytes that RFC 7541 adds for each entry
_MEMORY_OVERHEAD = 150  # bytes that Python needs in addition

_STATIC_TEXT = """\
:authority|:method GET|:method POST|:path /|:path /index.html|:scheme http|:scheme https|:status 200|:status 204
:status 206|:status 304|:status 400|:status 404|:status 500|accept-charset|accept-encoding gzip, deflate
accept-language|accept-ranges|accept|access-control-allow-origin|age|allow|authorization|cache-control
content-disposition|content-encoding|content-language|content-length|content-location|content-range|content-type
cookie|date|etag|expect|expires|from|host|if-match|if-modified-since|if-none-match|if-range|if-unmodified-since
last-modified|link|location|max-forwards|proxy-authenticate|proxy-authorization|range|referer|refresh|retry-after
server|set-cookie|strict-transport-security|transfer-encoding|user-agent|vary|via|www-authenticate"""
STATIC: list[Header] = [
    (name, value) for name, _, value in (entry.partition(" ") for entry in _STATIC_TEXT.replace("\n", "|").split("|"))
]


class HeaderError(Exception):
    """The block is not HPACK, or too large."""


class Decoder:
    """One direction of one connection."""

    def __init__(self) -> None:
        self._dynamic: deque[Header] = deque()
        self._size = 0
        self._size_max = TABLE_BYTES
        self.changes = 0  # number of changes of the table

    @property
    def table_bytes(self) -> int:
        """Return the approximate memory of the table."""
        return self._size + len(self._dynamic) * _MEMORY_OVERHEAD

    def decode(self, block: bytes) -> list[Header]:
        headers: list[Header] = []
        at, end, size = 0, len(block), 0
        try:
            while at < end:
                header, at = self._field(block, at, bool(headers))
                if header is not None:
                    size += len(header[0]) + len(header[1]) + _OVERHEAD
                    headers.append(header)
                if size > LIST_BYTES_MAX:
                    raise HeaderError("the headers are too large")
        except (IndexError, ValueError):
            raise HeaderError("not a header block") from None
        return headers

    def _field(self, block: bytes, at: int, begun: bool) -> tuple[Header | None, int]:
        """Decode one field. Return the header (None for a change of size) and the index of the next field."""
        first = block[at]
        if first & 0x80:
            index, at = _integer(block, at, 7)
            return self._entry(index), at
        if first & 0xE0 == 0x20:
            size, at = _integer(block, at, 5)
            if size > TABLE_BYTES or begun:
                raise ValueError("a change of the table size in the wrong place")
            self._size_max = size
            self.changes += 1
            self._evict()
            return None, at
        keeps = bool(first & 0x40)
        index, at = _integer(block, at, 6 if keeps else 4)
        name, at = (self._entry(index)[0], at) if index else _string(block, at)
        value, at = _string(block, at)
        header = name, value
        if keeps:
            self.changes += 1
            self._dynamic.appendleft(header)
            self._size += _entry_bytes(header)
            self._evict()
        return header, at

    def _entry(self, index: int) -> Header:
        if not index:
            raise ValueError("there is no entry 0")
        return STATIC[index - 1] if index <= len(STATIC) else self._dynamic[index - len(STATIC) - 1]

    def _evict(self) -> None:
        while self._size > self._size_max:
            self._size -= _entry_bytes(self._dynamic.pop())


def _entry_bytes(header: Header) -> int:
    return len(header[0]) + len(header[1]) + _OVERHEAD


def _integer(block: bytes, at: int, bits: int) -> tuple[int, int]:
    limit = (1 << bits) - 1
    value = block[at] & limit
    at += 1
    if value < limit:
        return value, at
    shift = 0
    while True:
        byte = block[at]
        at += 1
        value += (byte & 0x7F) << shift
        shift += 7
        if not byte & 0x80:
            return value, at
        if shift > 28:
            raise ValueError("an integer is too large")


def _string(block: bytes, at: int) -> tuple[str, int]:
    coded = block[at] & 0x80
    length, at = _integer(block, at, 7)
    until = at + length
    if until > len(block):
        raise ValueError("a string exceeds its block")
    text = block[at:until]
    return (huffman.decode(text) if coded else text).decode("latin-1"), until


# ---------------------------------------------------------------------- encoding

_STATIC_NAMES = {name: index for index, (name, _) in reversed(list(enumerate(STATIC, 1)))}
_STATIC_PAIRS = {header: index for index, header in enumerate(STATIC, 1)}


def encode(headers: Iterable[Header]) -> bytes:
    """Encode a block that changes no table. Names must be in lower case. Raise ValueError for text beyond Latin-1."""
    return b"".join(_encode_field(name, value) for name, value in headers)


def _encode_field(name: str, value: str) -> bytes:
    pair = _STATIC_PAIRS.get((name, value))
    if pair is not None:
        return _encode_integer(pair, 7, 0x80)
    index = _STATIC_NAMES.get(name, 0)
    head = _encode_integer(index, 4, 0) if index else b"\0" + _encode_string(name)
    return head + _encode_string(value)


def _encode_string(text: str) -> bytes:
    data = text.encode("latin-1")
    return _encode_integer(len(data), 7, 0) + data


def _encode_integer(value: int, bits: int, flags: int) -> bytes:
    limit = (1 << bits) - 1
    if value < limit:
        return bytes([flags | value])
    encoded, value = bytearray([flags | limit]), value - limit
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)

"""The framing of gRPC messages: prefix, compression, headers and trailers. Pure."""

from __future__ import annotations

import base64
import zlib
from typing import Any
from urllib.parse import quote

from google.protobuf.message import DecodeError

from penstock.doors.google.errors import CallError, Code, invalid
from penstock.doors.google.http2 import hpack

MESSAGE_BYTES_MAX = 12 << 20  # more than the 10 MB limit of a publish, so that a publisher gets the error of that limit
PREFIX_BYTES = 5
OUT_OF_MEMORY = "The server's memory for requests and answers is in use."

HEAD = hpack.encode(
    [(":status", "200"), ("content-type", "application/grpc"), ("grpc-accept-encoding", "identity,deflate,gzip")]
)
OK = hpack.encode([("grpc-status", "0")])
_WINDOW_BITS = {"gzip": 31, "deflate": 15}
_PLAIN = " !\"#$&'()*+,-./:;<=>?@[\\]^_`{|}~"


def frame_message(message: bytes) -> bytes:
    return b"\0" + len(message).to_bytes(4, "big") + message


def message_bytes(data: bytes | bytearray) -> int:
    """Return the length that a prefix announces. Raise CallError if it is too large."""
    size = int.from_bytes(data[1:PREFIX_BYTES], "big")
    if size > MESSAGE_BYTES_MAX:
        raise too_large(size)
    return size


def whole_message(data: bytes | bytearray, headers: dict[str, str]) -> bytes:
    """Return the one message in a request body, decompressed if necessary."""
    if len(data) < PREFIX_BYTES or len(data) != PREFIX_BYTES + message_bytes(data):
        raise invalid("The request does not hold exactly one message.")
    message = data[PREFIX_BYTES:] if type(data) is bytes else bytes(memoryview(data)[PREFIX_BYTES:])
    if not data[0]:
        return message
    coding = headers.get("grpc-encoding", "identity")
    if coding not in _WINDOW_BITS:
        raise CallError(Code.UNIMPLEMENTED, f"Compression is not supported: {coding[:32]}")
    unpacker = zlib.decompressobj(_WINDOW_BITS[coding])
    try:
        message = unpacker.decompress(message, MESSAGE_BYTES_MAX + 1)
    except zlib.error:
        raise invalid("The request is not compressed as it says.") from None
    if len(message) > MESSAGE_BYTES_MAX:
        raise too_large(len(message))
    if not unpacker.eof:
        raise invalid("The request is not compressed as it says.")
    return message


def decode(kind: Any, data: bytes) -> Any:
    try:
        return kind.FromString(data)
    except DecodeError:
        raise invalid("The request is not a valid message.") from None


def too_large(size: int) -> CallError:
    return CallError(Code.RESOURCE_EXHAUSTED, f"Received message larger than max ({size} vs. {MESSAGE_BYTES_MAX})")


def out_of_memory() -> CallError:
    return CallError(Code.RESOURCE_EXHAUSTED, f"{OUT_OF_MEMORY} Try again later.")


def overdue() -> CallError:
    return CallError(Code.DEADLINE_EXCEEDED, "Deadline exceeded.")


def trailers_only(error: CallError) -> bytes:
    return HEAD + trailers(error)


def trailers(error: CallError) -> bytes:
    headers = [("grpc-status", str(int(error.code))), ("grpc-message", quote(error.message[:500], safe=_PLAIN))]
    details = error.status()
    if details:
        headers.append(("grpc-status-details-bin", base64.b64encode(details).decode().rstrip("=")))
    return hpack.encode(headers)

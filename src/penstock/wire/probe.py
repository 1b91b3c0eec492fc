"""Probes of an address at the start of the server: whether a program listens there, and whether it is a Penstock."""

from __future__ import annotations

import asyncio
from contextlib import suppress

ANSWER_SECONDS = 1.0
ANSWER_BYTES = 4096

_WEB = (b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"penstock")
# By door: the request, and text that only our answer has, in lower case. An unknown version of the text protocol is
# refused with a text. The answers of Arrow Flight do not tell the server.
_QUESTIONS = {"http": _WEB, "pubsub": _WEB, "azure": _WEB, "text": (b"H0300101", b"there is no version 03")}
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - connected to, not bound


async def listens(address: str) -> bool:
    """Return whether a program accepts connections at HOST:PORT."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    with suppress(OSError, TimeoutError, ValueError, OverflowError):
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(_ANY.get(host, host), int(port))
            writer.close()
            return True
    return False


async def is_penstock(door: str, host: str, port: int) -> bool:
    """Return whether the program at this address is a Penstock with this door."""
    if door not in _QUESTIONS:
        return False
    question, ours = _QUESTIONS[door]
    answer = b""
    with suppress(OSError, TimeoutError):
        async with asyncio.timeout(ANSWER_SECONDS):
            reader, writer = await asyncio.open_connection(_ANY.get(host, host), port)
            try:
                writer.write(question)
                while len(answer) < ANSWER_BYTES and (piece := await reader.read(ANSWER_BYTES)):
                    answer += piece
            finally:
                writer.close()
    return ours in answer.lower()

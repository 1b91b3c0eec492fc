"""Whether somebody listens at an address, and whether it is a Penstock: asked at a start, to say who is in the way."""

from __future__ import annotations

import asyncio
from contextlib import suppress

ANSWER_SECONDS = 1.0
ANSWER_BYTES = 4096

_WEB = (b"GET / HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n", b"penstock")
# Door -> what to send, and what only our answer has in it, in lower case. A version that no text client speaks is
# refused in words; Arrow Flight names nobody.
_QUESTIONS = {"http": _WEB, "pubsub": _WEB, "azure": _WEB, "text": (b"H0300101", b"there is no version 03")}
_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}  # noqa: S104 - connected to, not bound


async def listens(address: str) -> bool:
    """Whether somebody takes connections at HOST:PORT."""
    host, _, port = address.rpartition(":")
    host = host.removeprefix("[").removesuffix("]")
    with suppress(OSError, TimeoutError, ValueError, OverflowError):
        async with asyncio.timeout(ANSWER_SECONDS):
            _, writer = await asyncio.open_connection(_ANY.get(host, host), int(port))
            writer.close()
            return True
    return False


async def is_penstock(door: str, host: str, port: int) -> bool:
    """Whether the program at this address answers as this door of ours does."""
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

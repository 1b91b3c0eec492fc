"""A client with little overhead: raw HTTP/1.1 over kept connections, one account SAS, no SDK and no XML parser.

It does the same as a consumer (receive 32, delete each), so that servers can be compared.
"""

from __future__ import annotations

import asyncio
import base64
import hmac
import os
import re
from collections.abc import Sequence
from typing import cast
from urllib.parse import quote

ACCOUNT = "devstoreaccount1"
KEY = base64.b64decode("Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw==")
VERSION, EXPIRY, PERMISSIONS = "2021-08-06", "2099-01-01T00:00:00Z", "rwdlacup"

_LENGTH = re.compile(rb"content-length: *(\d+)", re.IGNORECASE)
_ITEM = re.compile(rb"<MessageId>(.*?)</MessageId>.*?<PopReceipt>(.*?)</PopReceipt>", re.DOTALL)


def sas() -> str:
    text = f"{ACCOUNT}\n{PERMISSIONS}\nq\nsco\n\n{EXPIRY}\n\n\n{VERSION}\n\n"
    signature = base64.b64encode(hmac.digest(KEY, text.encode(), "sha256")).decode()
    fields = {"sv": VERSION, "ss": "q", "srt": "sco", "sp": PERMISSIONS, "se": EXPIRY, "sig": signature}
    return "&".join(f"{name}={quote(value, safe='')}" for name, value in fields.items())


class Connection(asyncio.Protocol):
    """A connection that sends one request at a time and reads the whole answer."""

    _transport: asyncio.Transport

    def __init__(self) -> None:
        self._input = b""
        self._answer: asyncio.Future[tuple[int, bytes]] | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = cast(asyncio.Transport, transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._answer is not None and not self._answer.done():
            self._answer.set_exception(exc or ConnectionError("the server closed"))

    def ask(self, request: bytes) -> asyncio.Future[tuple[int, bytes]]:
        self._answer = asyncio.get_running_loop().create_future()
        self._transport.write(request)
        return self._answer

    def data_received(self, data: bytes) -> None:
        self._input += data
        head, found, rest = self._input.partition(b"\r\n\r\n")
        if found and self._answer is not None:
            body = _body(head, rest)
            if body is not None:
                self._input = b""
                self._answer.set_result((int(head[9:12]), body))

    def close(self) -> None:
        self._transport.close()


def _body(head: bytes, rest: bytes) -> bytes | None:
    length = _LENGTH.search(head)
    if length is not None:
        return rest if len(rest) >= int(length[1]) else None
    if b"chunked" in head.lower():
        return rest if rest.endswith(b"0\r\n\r\n") else None
    return rest


async def connect(address: str) -> Connection:
    host, _, port = address.rpartition(":")
    return (await asyncio.get_running_loop().create_connection(Connection, host, int(port)))[1]


class Load:
    def __init__(self, address: str, queue: str, size: int) -> None:
        self._address = address
        self._queue = queue
        self._sas = sas()
        text = base64.b64encode(os.urandom(size * 3 // 4))
        body = b"<QueueMessage><MessageText>" + text + b"</MessageText></QueueMessage>"
        self._put = self._request("POST", f"{queue}/messages", body=body)
        self._get = self._request("GET", f"{queue}/messages", "numofmessages=32&visibilitytimeout=600&")

    def _request(self, method: str, path: str, query: str = "", body: bytes = b"") -> bytes:
        return (
            f"{method} /{ACCOUNT}/{path}?{query}{self._sas} HTTP/1.1\r\nHost: {self._address}\r\n"
            f"x-ms-version: {VERSION}\r\nContent-Type: application/xml\r\nContent-Length: {len(body)}\r\n\r\n"
        ).encode() + body

    async def create(self, connection: Connection) -> None:
        status, body = await connection.ask(self._request("PUT", self._queue))
        assert status in (201, 204), body

    async def puts(self, connections: Sequence[Connection], count: int) -> int:
        left = iter(range(count))

        async def put(connection: Connection) -> None:
            for _ in left:
                status, body = await connection.ask(self._put)
                assert status == 201, body

        await asyncio.gather(*map(put, connections))
        return count

    async def takes(self, connections: Sequence[Connection], count: int) -> int:
        """Receive and delete at least `count` messages, or all if there are fewer. Return the number."""
        done = 0

        async def take(connection: Connection) -> None:
            nonlocal done
            while done < count:
                status, body = await connection.ask(self._get)
                assert status == 200, body
                items = _ITEM.findall(body)
                for message, receipt in items:
                    query = f"popreceipt={quote(receipt.decode(), safe='')}&"
                    path = f"{self._queue}/messages/{message.decode()}"
                    status, body = await connection.ask(self._request("DELETE", path, query))
                    assert status == 204, body
                    done += 1
                if not items:
                    return

        await asyncio.gather(*map(take, connections))
        return done

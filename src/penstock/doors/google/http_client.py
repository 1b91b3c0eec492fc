"""A client that sends one POST to a push endpoint: connect to a checked address, send, read the status.

It follows no redirects, uses no proxies and does not look up the name a second time. It reads the answer up to the end
of the headers, within a limit, and one deadline covers everything.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Sequence

from penstock.doors.google.endpoints import DeniedError, Endpoints, Target
from penstock.doors.google.push_request import PushRequest

CONNECT_SECONDS = 10.0
ANSWER_BYTES_MAX = 64 << 10


class HttpClient:
    def __init__(self, endpoints: Endpoints, trust: ssl.SSLContext | None = None) -> None:
        self._endpoints = endpoints
        self._trust = trust

    async def post(self, target: Target, request: PushRequest, *, authorization: str, seconds: float) -> int:
        """Send a request. Return the status, or raise OSError, TimeoutError or DeniedError if there is no answer."""
        async with asyncio.timeout(seconds):
            reader, writer = await self._connect(target)
            try:
                writer.write(_head(target, request, authorization) + request.body)
                await writer.drain()
                version, _, status = (await reader.readuntil(b"\r\n\r\n")).partition(b" ")
                if not version.startswith(b"HTTP/1."):
                    raise ValueError("not HTTP")
                return int(status[:3])
            except (asyncio.IncompleteReadError, asyncio.LimitOverrunError, ValueError) as error:
                raise ConnectionError("the endpoint gave no HTTP answer") from error
            finally:
                writer.transport.abort()

    async def _connect(self, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        addresses = await self._endpoints.addresses(target)
        failure: OSError = ConnectionError("the endpoint's name has no address")
        for address in addresses:
            try:
                async with asyncio.timeout(CONNECT_SECONDS):
                    return await self._open(address, target)
            except OSError as error:
                failure = error
        raise failure

    async def _open(self, address: str, target: Target) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        context, name = (self._context(), target.host) if target.secure else (None, None)
        reader, writer = await asyncio.open_connection(
            address, target.port, ssl=context, server_hostname=name, limit=ANSWER_BYTES_MAX
        )
        peer: Sequence[object] = writer.get_extra_info("peername") or ()
        if not peer or str(peer[0]).partition("%")[0] != address.partition("%")[0]:
            writer.transport.abort()
            raise DeniedError("the connection went to another address than the allowed one")
        return reader, writer

    def _context(self) -> ssl.SSLContext:
        if self._trust is None:
            self._trust = ssl.create_default_context()
            self._trust.minimum_version = ssl.TLSVersion.TLSv1_2
        return self._trust


def _head(target: Target, request: PushRequest, authorization: str) -> bytes:
    headers = [("Host", target.authority), ("User-Agent", "Penstock-Push")]
    headers += [("Connection", "close"), ("Content-Length", str(len(request.body))), *request.headers]
    if authorization:
        headers.append(("Authorization", authorization))
    lines = "".join(f"{name}: {value}\r\n" for name, value in headers)
    return f"POST {target.path} HTTP/1.1\r\n{lines}\r\n".encode("latin-1")

"""AsyncClient: the text protocol for programs with an event loop. Any number of tasks may use one client.

Requests of one turn of the event loop are sent in one write. The client reconnects in the background.
"""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import AsyncIterator, Iterable
from contextlib import suppress
from typing import Self, cast

from penstock.errors import PenstockError, UnavailableError
from penstock.text.address import DEFAULT, Address, parse_address
from penstock.text.session import Message, Pending, Session, Stream

_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0


class _Link(asyncio.Protocol):
    """One connection of a client."""

    def __init__(self, session: Session) -> None:
        self._session = session
        self.lost: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = cast(asyncio.Transport, transport)

    def data_received(self, data: bytes) -> None:
        try:
            self._session.receive(data)
        except UnavailableError:
            assert self.transport is not None, "it brought the data"
            self.transport.abort()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.lost.done():
            self.lost.set_result(None)


class AsyncClient:
    def __init__(self, address: str = DEFAULT, *, timeout_seconds: float = 30, tls: ssl.SSLContext | None = None):
        """`timeout_seconds` is how long a send waits for its confirmation, including reconnections."""
        self._address: Address = parse_address(address)
        self._timeout_seconds = timeout_seconds
        self._tls = tls
        self._session = Session(self._flush_soon)
        self._link: _Link | None = None
        self._keeper: asyncio.Task[None] | None = None
        self._flushing = False

    async def __aenter__(self) -> Self:
        await self.connect()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def connect(self) -> None:
        """Connect now, or raise UnavailableError. Without this call, the first request connects."""
        if self._keeper is None:
            try:
                async with asyncio.timeout(self._timeout_seconds):
                    await self._dial()
            except (OSError, TimeoutError) as error:
                raise UnavailableError(f"No connection to the endpoint: {error.strerror or error}") from error
            self._keeper = asyncio.get_running_loop().create_task(self._keep_connected())

    async def close(self) -> None:
        """Close the client, and wait until the endpoint has carried out all requests (T-040).

        If the connection is lost already, there is nothing to wait for.
        """
        self._session.cancel_all()
        keeper, self._keeper = self._keeper, None
        if keeper is not None:
            keeper.cancel()
            with suppress(asyncio.CancelledError):
                await keeper
        link, self._link = self._link, None
        if link is not None and link.transport is not None:
            if self._session.outgoing:
                link.transport.write(bytes(self._session.outgoing))
            if link.transport.can_write_eof() and self._tls is None:
                link.transport.write_eof()
                with suppress(TimeoutError):
                    await asyncio.wait_for(link.lost, self._timeout_seconds)
            link.transport.close()
        self._session.lost()
        self._session.give_up(UnavailableError("The client is closed"))

    # ------------------------------------------------------------------ messages

    async def send(self, queue: str, content: bytes) -> str:
        """Send a message. Return its id once the message is durable."""
        return (await self.send_many(queue, [content]))[0]

    async def send_many(self, queue: str, contents: Iterable[bytes]) -> list[str]:
        await self.connect()
        answered: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_done(pending: Pending) -> None:
            if pending is sends[-1] and not answered.done():
                answered.set_result(None)

        sends = self._session.send(queue, contents, on_done)
        try:
            if sends:
                await asyncio.wait_for(answered, self._timeout_seconds)
        except TimeoutError as error:
            sentence = f"No answer within {self._timeout_seconds:g} seconds: the messages may or may not be stored"
            raise UnavailableError(sentence) from error
        for pending in sends:
            if pending.error is not None:
                raise pending.error
        return [pending.id for pending in sends]

    async def consume(
        self,
        queue: str,
        *,
        window: int = 100,
        wait_seconds: float | None = None,
        away_seconds: float | None = None,
    ) -> AsyncIterator[Message]:
        """Yield messages as they arrive, until none has arrived for `wait_seconds`. Ack or give back each message.

        Time without a connection does not count. The client reconnects. UnavailableError: the endpoint was away for
        `away_seconds`. None means no limit.
        """
        await self.connect()
        changed = asyncio.Event()
        stream = self._session.consume(queue, window, changed.set)
        try:
            while await self._wait_for_more(stream, changed, wait_seconds, away_seconds):
                if stream.error is not None:
                    raise stream.error
                yield stream.arrived.popleft()
        finally:
            if self._session.streams.get(queue) is stream:
                self._session.cancel(queue)

    async def _wait_for_more(
        self, stream: Stream, changed: asyncio.Event, wait_seconds: float | None, away_seconds: float | None
    ) -> bool:
        while not stream.arrived and stream.error is None:
            changed.clear()
            was_connected = self._session.is_connected
            try:
                await asyncio.wait_for(changed.wait(), wait_seconds if was_connected else away_seconds)
            except TimeoutError:
                if not was_connected and not self._session.is_connected:
                    raise UnavailableError("No connection to the endpoint") from None
                if was_connected and self._session.is_connected:
                    return False
        return True

    # ------------------------------------------------------------------ the connection

    async def _dial(self) -> None:
        loop, (host, port, path) = asyncio.get_running_loop(), self._address
        if path:
            _, link = await loop.create_unix_connection(lambda: _Link(self._session), path)
        else:
            name = host if self._tls is not None else None
            _, link = await loop.create_connection(
                lambda: _Link(self._session), host, port, ssl=self._tls, server_hostname=name
            )
        self._link = link
        self._session.connected()

    async def _keep_connected(self) -> None:
        while True:
            assert self._link is not None, "connected"
            await asyncio.shield(self._link.lost)
            self._session.lost()
            pause = _FIRST_PAUSE_SECONDS
            while True:
                try:
                    await self._dial()
                    break
                except (OSError, PenstockError):
                    await asyncio.sleep(pause)
                    pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _flush_soon(self) -> None:
        if not self._flushing:
            self._flushing = True
            asyncio.get_running_loop().call_soon(self._flush)

    def _flush(self) -> None:
        self._flushing = False
        link = self._link
        if link is not None and link.transport is not None and self._session.outgoing:
            data, self._session.outgoing = bytes(self._session.outgoing), bytearray()
            if not link.transport.is_closing():
                link.transport.write(data)

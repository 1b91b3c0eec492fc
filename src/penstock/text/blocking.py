"""Client: the text protocol for programs and scripts that block. One thread at a time may use a client.

A send returns when the message is durable. After a lost connection the client reconnects and repeats unanswered sends,
so a message may be stored twice.
"""

from __future__ import annotations

import socket
import ssl
import time
from collections.abc import Generator, Iterable
from contextlib import suppress
from itertools import islice
from threading import Event
from typing import Self

from penstock.errors import UnavailableError
from penstock.text.address import DEFAULT, parse_address
from penstock.text.session import Message, Pending, Session

_READ_BYTES = 256 << 10
_AT_ONCE, _UNANSWERED_MAX = 200, 1000
_FIRST_PAUSE_SECONDS, _LONGEST_PAUSE_SECONDS = 0.05, 2.0


class Client:
    def __init__(self, address: str = DEFAULT, *, timeout_seconds: float = 30, tls: ssl.SSLContext | None = None):
        """Connect with the first call. `timeout_seconds` is how long a call tries before it fails."""
        self._address = parse_address(address)
        self._timeout_seconds = timeout_seconds
        self._tls = tls
        self._socket: socket.socket | None = None
        self._session = Session(self._flush)
        self._never = Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the client, and wait until the endpoint has carried out all requests (T-040).

        If the connection is lost already, there is nothing to wait for.
        """
        if self._socket is not None:
            self._session.cancel_all()
        connection, self._socket = self._socket, None
        if connection is None:
            return
        with connection, suppress(OSError):
            connection.settimeout(self._timeout_seconds)
            connection.shutdown(socket.SHUT_WR)
            while connection.recv(_READ_BYTES):
                pass
        self._session.lost()

    # ------------------------------------------------------------------ messages

    def send(self, queue: str, content: bytes) -> str:
        """Send a message. Return its id once the message is durable."""
        return self.send_many(queue, [content])[0]

    def send_many(self, queue: str, contents: Iterable[bytes]) -> list[str]:
        until = time.monotonic() + self._timeout_seconds
        self._connect(until)
        sends: list[Pending] = []
        rest = iter(contents)
        while chunk := list(islice(rest, _AT_ONCE)):
            sends += self._session.send(queue, chunk)
            self._read_answers(until, _UNANSWERED_MAX)  # if both ends only wrote, both would block
        self._read_answers(until, 0)
        for pending in sends:
            if pending.error is not None:
                raise pending.error
        return [pending.id for pending in sends]

    def _read_answers(self, until: float, unanswered_max: int) -> None:
        while self._session.unanswered > unanswered_max:
            if not self._read(until):
                self._drop()
                sentence = f"No answer within {self._timeout_seconds:g} seconds: the messages may or may not be stored"
                self._session.give_up(UnavailableError(sentence))

    def consume(
        self,
        queue: str,
        *,
        window: int = 100,
        wait_seconds: float | None = None,
        away_seconds: float | None = None,
    ) -> Generator[Message, None, None]:
        """Yield messages as they arrive, until none has arrived for `wait_seconds`. Ack or give back each message.

        Time without a connection does not count. The client reconnects. UnavailableError: the endpoint was away for
        `away_seconds`. None means no limit.
        """
        self._connect(time.monotonic() + self._timeout_seconds)
        stream = self._session.consume(queue, window)
        try:
            while True:
                until = None if wait_seconds is None else time.monotonic() + wait_seconds
                while not stream.arrived and stream.error is None:
                    if self._socket is None:
                        self._connect(None if away_seconds is None else time.monotonic() + away_seconds)
                        until = None if wait_seconds is None else time.monotonic() + wait_seconds
                    if not self._read(until):
                        return
                if stream.error is not None:
                    raise stream.error
                yield stream.arrived.popleft()
        finally:
            if self._session.streams.get(queue) is stream:
                self._session.cancel(queue)

    # ------------------------------------------------------------------ the connection

    def _connect(self, until: float | None) -> None:
        """Connect. Raise UnavailableError if that is not possible before `until`. None means no limit."""
        pause = _FIRST_PAUSE_SECONDS
        while self._socket is None:
            try:
                self._socket = self._dial(
                    self._timeout_seconds if until is None else max(0.01, until - time.monotonic())
                )
                self._session.connected()
            except OSError as error:
                self._drop()
                if until is not None and time.monotonic() + pause >= until:
                    raise UnavailableError(f"No connection to the endpoint: {error.strerror or error}") from error
                self._never.wait(pause)
                pause = min(2 * pause, _LONGEST_PAUSE_SECONDS)

    def _dial(self, seconds: float) -> socket.socket:
        host, port, path = self._address
        if path:
            connection = socket.socket(socket.AF_UNIX)
            connection.settimeout(seconds)
            connection.connect(path)
            return connection
        connection = socket.create_connection((host, port), seconds)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        return connection if self._tls is None else self._tls.wrap_socket(connection, server_hostname=host)

    def _flush(self) -> None:
        data = self._session.outgoing
        if self._socket is None or not data:
            return
        try:
            self._socket.settimeout(self._timeout_seconds)
            self._socket.sendall(data)
            data.clear()
        except OSError:
            self._drop()  # the next read reconnects

    def _read(self, until: float | None) -> bool:
        """Read once, and reconnect if the connection is lost. Return False if nothing arrived before `until`."""
        left = None if until is None else until - time.monotonic()
        if left is not None and left <= 0:
            return False
        try:
            if self._socket is None:
                self._connect(time.monotonic() + self._timeout_seconds if until is None else until)
            assert self._socket is not None, "just connected"
            self._socket.settimeout(left)
            data = self._socket.recv(_READ_BYTES)
            if data:
                self._session.receive(data)
            else:
                self._drop()
        except TimeoutError:
            return False
        except OSError:
            self._drop()
        except UnavailableError:
            self._drop()
            raise
        return True

    def _drop(self) -> None:
        connection, self._socket = self._socket, None
        if connection is not None:
            connection.close()
        self._session.lost()

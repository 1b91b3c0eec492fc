"""Client: the text protocol for programs and scripts that block. One thread at a time may use it.

A send returns when the message is durable; a lost connection is made anew, and what it left unanswered is sent again,
so that a message may arrive twice.
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
        """Connects with the first call. `timeout_seconds` is how long a call tries before it gives up."""
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
        """T-040: until the endpoint has carried out all that was asked, unless the connection is lost already."""
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
        """The id of the message, once it is durable."""
        return self.send_many(queue, [content])[0]

    def send_many(self, queue: str, contents: Iterable[bytes]) -> list[str]:
        until = time.monotonic() + self._timeout_seconds
        self._connect(until)
        sends: list[Pending] = []
        rest = iter(contents)
        while some := list(islice(rest, _AT_ONCE)):
            sends += self._session.send(queue, some)
            self._read_answers(until, _UNANSWERED_MAX)  # if both ends only wrote, both would wait for ever
        self._read_answers(until, 0)
        for each in sends:
            if each.error is not None:
                raise each.error
        return [each.id for each in sends]

    def _read_answers(self, until: float, unanswered_max: int) -> None:
        while self._session.unanswered > unanswered_max:
            if not self._read(until):
                self._drop()
                sentence = f"No answer within {self._timeout_seconds:g} seconds: whether all was sent is not known"
                self._session.give_up(UnavailableError(sentence))

    def consume(
        self, queue: str, *, window: int = 100, wait_seconds: float | None = None
    ) -> Generator[Message, None, None]:
        """Yield messages as they come, until none has come for `wait_seconds`. Ack each one or give it back.

        Time without a connection does not count: the client reconnects, however long the endpoint is away.
        """
        self._connect(time.monotonic() + self._timeout_seconds)
        stream = self._session.consume(queue, window)
        try:
            while True:
                until = None if wait_seconds is None else time.monotonic() + wait_seconds
                while not stream.arrived and stream.error is None:
                    if self._socket is None:
                        self._connect(None)
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
        """Connect, or raise UnavailableError if that is not possible before `until`. None means no limit."""
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
            self._drop()  # the next read connects again

    def _read(self, until: float | None) -> bool:
        """Read what the endpoint sends next, through as many connections as it takes; False when the time is over."""
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

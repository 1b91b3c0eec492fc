"""Raw clients of the text door, beanstalkd and Redis Streams: the same work on each, without a library.

A client sends windows of 100 messages of 256 bytes and waits for all their answers. Then it consumes and acknowledges
as many, half a window at a time if the protocol allows it. It checks the received messages. The clock stops when every
acknowledgement is durable. beanstalkd and Redis answer each window of acknowledgements, and the text door does not.
"""

from __future__ import annotations

import re
import socket
from typing import Protocol

WINDOW = 100
BODY = b"x" * 256


class LoadClient(Protocol):
    def send(self, messages: int) -> None: ...

    def take(self, messages: int) -> None: ...


class Line:
    """A socket that is read in large pieces."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), 60)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.rest = b""

    def more(self) -> bytes:
        data = self.socket.recv(1 << 20)
        assert data, "the server closed the connection"
        self.rest += data
        return self.rest


class TextClient:
    """A client of the text door: version 02, compact framing, one queue of its own."""

    def __init__(self, port: int, name: str) -> None:
        self._line = Line(port)
        self._queue = name.encode()
        queue = b"P01%033d" % len(self._queue) + self._queue
        self._send = b"H0200102" + queue + b"P02%033d" % len(BODY) + BODY
        self._confirm = b"H0200502" + queue + b"P03%033d" % 32
        self._dispatch = b"H0200303" + queue + b"P02%033d" % len(BODY) + BODY + b"P03%033d" % 32
        self._ack = b"H0200402" + queue + b"P03%033d" % 32
        self._consume = b"H0200202" + queue + b"P04%033d%d" % (len(str(WINDOW)), WINDOW)

    def send(self, messages: int) -> None:
        for _ in range(messages // WINDOW):
            self._line.socket.sendall(self._send * WINDOW)
            left = WINDOW
            while left:
                left -= len(self._ids(self._line.more(), self._confirm))

    def close(self) -> None:
        self._line.socket.close()

    def take(self, messages: int) -> None:
        self._line.socket.sendall(self._consume)
        seen: set[bytes] = set()
        acks: list[bytes] = []
        while len(seen) < messages:
            for message_id in self._ids(self._line.more(), self._dispatch):
                seen.add(message_id)
                acks += (self._ack, message_id)
                if len(acks) == WINDOW:  # half a window; each ack has two parts
                    self._line.socket.sendall(b"".join(acks))
                    acks.clear()
        self._line.socket.sendall(b"".join(acks))
        self._make_certain()

    def _make_certain(self) -> None:
        """T-042: send a message behind the last ack and wait for its confirmation, which makes the acks durable.

        The peers answer their acks when these are durable.
        """
        queue = b"P01%033d" % len(b"certain") + b"certain"
        self._line.socket.sendall(b"H0200102" + queue + b"P02%033d" % 0)
        wanted = b"H0200502" + queue
        while wanted not in self._line.more():
            pass
        self._line.rest = b""

    def _ids(self, data: bytes, opening: bytes) -> list[bytes]:
        """Return the ids of complete messages that begin alike, and keep the remaining bytes for the next call."""
        size, at, ids = len(opening) + 32, 0, []
        while len(data) - at >= size:
            assert data.startswith(opening, at), data[at : at + size]
            ids.append(data[at + len(opening) : at + size])
            at += size
        self._line.rest = data[at:]
        return ids


class BeanstalkClient:
    """A client of beanstalkd with a tube of its own."""

    RESERVED = re.compile(rb"RESERVED (\d+) 256\r\n")

    def __init__(self, port: int, name: str) -> None:
        self._line = Line(port)
        self._line.socket.sendall(f"use {name}\r\nwatch {name}\r\nignore default\r\n".encode())
        self._lines(3)

    def send(self, messages: int) -> None:
        put = b"put 0 0 60 %d\r\n%s\r\n" % (len(BODY), BODY)
        for _ in range(messages // WINDOW):
            self._line.socket.sendall(put * WINDOW)
            assert self._lines(WINDOW).count(b"INSERTED") == WINDOW

    def take(self, messages: int) -> None:
        for _ in range(messages // WINDOW):
            self._line.socket.sendall(b"reserve\r\n" * WINDOW)
            ids = self.RESERVED.findall(self._lines(2 * WINDOW))
            self._line.socket.sendall(b"".join(b"delete %s\r\n" % each for each in ids))
            assert self._lines(WINDOW).count(b"DELETED") == WINDOW

    def _lines(self, count: int) -> bytes:
        while self._line.rest.count(b"\r\n") < count:
            self._line.more()
        data, self._line.rest = self._line.rest, b""
        return data


class RedisClient:
    """A client of Redis with a stream of its own, one group and one consumer."""

    ENTRY = re.compile(rb"\$\d+\r\n(\d+-\d+)\r\n")

    def __init__(self, port: int, name: str) -> None:
        self._line = Line(port)
        self._name = name.encode()
        self._ask(b"XGROUP", b"CREATE", self._name, b"g", b"$", b"MKSTREAM")
        while not self._line.rest.endswith(b"\r\n"):
            self._line.more()
        self._line.rest = b""

    def send(self, messages: int) -> None:
        add = _command(b"XADD", self._name, b"*", b"d", BODY)
        for _ in range(messages // WINDOW):
            self._line.socket.sendall(add * WINDOW)
            self._read(WINDOW)

    def take(self, messages: int) -> None:
        taken = 0
        while taken < messages:
            self._ask(b"XREADGROUP", b"GROUP", b"g", b"c", b"COUNT", b"%d" % WINDOW, b"STREAMS", self._name, b">")
            ids = self._read(WINDOW)
            taken += len(ids)
            self._ask(b"XACK", self._name, b"g", *ids)
            self._ask(b"XDEL", self._name, *ids)
            while self._line.rest.count(b":") < 2:
                self._line.more()
            self._line.rest = b""

    def _read(self, count: int) -> list[bytes]:
        """Return the ids of a reply once `count` of them have arrived, with the end of the line."""
        while len(ids := self.ENTRY.findall(self._line.rest)) < count or not self._line.rest.endswith(b"\r\n"):
            self._line.more()
        self._line.rest = b""
        return ids

    def _ask(self, *words: bytes) -> None:
        self._line.socket.sendall(_command(*words))


def _command(*words: bytes) -> bytes:
    return b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(word), word) for word in words)

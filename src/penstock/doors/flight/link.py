"""The connection between the server and its reader process: frames over a socket pair, many requests outstanding.

    length of the body, number, length of the word | word | body

A request is a number, a verb and a body. Its answer has the same number, and a word that is empty or names an error.
A frame with the number 0 is a notice of the server, not an answer.
"""

from __future__ import annotations

import asyncio
import itertools
import socket
import struct
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import Future
from typing import NamedTuple

from penstock import errors
from penstock.errors import InternalError, PenstockError, UnavailableError

HEADER = struct.Struct(">IQB")
NOTICE = 0


class Frame(NamedTuple):
    number: int
    word: str
    body: bytes


def head(number: int, word: str, length: int) -> bytes:
    encoded = word.encode()
    return HEADER.pack(length, number, len(encoded)) + encoded


ERRORS: dict[str, type[PenstockError]] = {
    name: kind for name, kind in vars(errors).items() if isinstance(kind, type) and issubclass(kind, PenstockError)
}


def error_word(error: PenstockError) -> str:
    """Return the name of the public class of an error."""
    return next(kind.__name__ for kind in type(error).__mro__ if ERRORS.get(kind.__name__) is kind)


class ServerEnd:
    """The server's end of the link. It reads requests in the event loop and sends answers in any order."""

    def __init__(self, answer: Callable[[Frame], Awaitable[bytes | None]]) -> None:
        self._answer = answer
        self._tasks: set[asyncio.Task[None]] = set()
        self._writer: asyncio.StreamWriter | None = None

    async def run(self, own: socket.socket) -> None:
        """Serve one reader process until the link ends."""
        reader, self._writer = await asyncio.open_unix_connection(sock=own, limit=1 << 20)
        try:
            while True:
                length, number, word = HEADER.unpack(await reader.readexactly(HEADER.size))
                name = (await reader.readexactly(word)).decode()
                body = await reader.readexactly(length)
                # Tasks begin in the order of their frames, so publishes of one stream keep theirs.
                task = asyncio.create_task(self._serve(Frame(number, name, body)))
                self._tasks.add(task)
                task.add_done_callback(self._tasks.discard)
                del body
                await asyncio.sleep(0)  # let other tasks run between two frames
        except (asyncio.IncompleteReadError, ConnectionError):
            pass
        finally:
            for task in self._tasks:
                task.cancel()
            self._writer.close()

    def notify(self, word: str, body: bytes = b"") -> None:
        self._send(NOTICE, word, body)

    async def _serve(self, frame: Frame) -> None:
        try:
            word, body = "", await self._answer(frame)
            if body is None:  # only the last frame of a request is answered
                return
        except PenstockError as error:
            word, body = error_word(error), error.message.encode()
        self._send(frame.number, word, body)

    def _send(self, number: int, word: str, body: bytes) -> None:
        if self._writer is not None and not self._writer.is_closing():
            self._writer.write(head(number, word, len(body)))
            if body:
                self._writer.write(body)


class ReaderEnd:
    """The reader process's end of the link. Any thread may send, and a separate thread reads the answers."""

    def __init__(self, own: socket.socket, *, on_notice: Callable[[Frame], None], on_end: Callable[[], None]) -> None:
        self._socket = own
        self._on_notice = on_notice
        self._on_end = on_end
        self._numbers = itertools.count(1)
        self._waiting: dict[int, Future[bytes]] = {}
        self._sending = threading.Lock()
        threading.Thread(target=self._listen, name="penstock-link", daemon=True).start()

    def number(self) -> int:
        return next(self._numbers)

    def call(self, verb: str, body: bytes = b"") -> bytes:
        """Send a request and return its answer."""
        return self.request(verb, body).result()

    def request(self, verb: str, body: bytes, number: int = 0) -> Future[bytes]:
        """Send a request and return a future of its answer. A `number` continues frames sent under that number."""
        number = number or self.number()
        answer: Future[bytes] = Future()
        self._waiting[number] = answer
        self.send(verb, body, number)
        return answer

    def send(self, word: str, body: bytes, number: int) -> None:
        """Send a frame that is not answered."""
        try:
            with self._sending:
                self._socket.sendall(head(number, word, len(body)))
                self._socket.sendall(body)
        except OSError:
            raise UnavailableError("The server is stopping") from None

    def _listen(self) -> None:
        """Read answers until the link ends.

        Without this thread every caller would wait without end, so the link ends with the thread.
        """
        try:
            with self._socket.makefile("rb", buffering=1 << 20) as stream:
                while (frame := _next_frame(stream.read)) is not None:
                    self._receive(frame)
        finally:
            self._on_end()

    def _receive(self, frame: Frame) -> None:
        if frame.number == NOTICE:
            self._on_notice(frame)
            return
        answer = self._waiting.pop(frame.number)
        if not frame.word:
            answer.set_result(frame.body)
        else:
            answer.set_exception(ERRORS.get(frame.word, InternalError)(frame.body.decode()))


def _next_frame(read: Callable[[int], bytes]) -> Frame | None:
    """Return the next frame, or None at the end."""
    try:
        header = read(HEADER.size)
        if len(header) < HEADER.size:
            return None
        length, number, word = HEADER.unpack(header)
        name, body = read(word), read(length)
    except OSError:
        return None
    return Frame(number, name.decode(), body) if len(body) == length else None

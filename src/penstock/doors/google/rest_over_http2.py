"""REST requests over HTTP/2."""

from __future__ import annotations

import asyncio

from penstock.doors.google.calls import Calls
from penstock.doors.google.errors import CallError, Code, call_error
from penstock.doors.google.http2 import frames, hpack
from penstock.doors.google.http2.body import Body
from penstock.doors.google.http2.stream import Stream
from penstock.doors.google.rest import BODY_BYTES_MAX, Rest, error_response
from penstock.errors import LostReplyError, where
from penstock.wire.http1 import Request, Response


class RestCall:
    __slots__ = ("__weakref__", "_answering", "_body", "_calls", "_headers", "_request", "_rest", "_stream")

    def __init__(self, rest: Rest, calls: Calls, stream: Stream, headers: dict[str, str]) -> None:
        self._rest = rest
        self._calls = calls
        self._stream = stream
        self._headers = headers
        self._body = Body(calls.budget)
        self._answering = False
        self._request: Request | None = None  # being answered
        try:
            calls.admit(headers, headers.get(":path", ""))
        except CallError:  # answered without its body: a public page, or the refusal
            self.finish()

    def receive(self, data: bytes) -> None:
        if self._answering:
            return
        if not self._body.add(data, self._give_up):
            self._give_up()
        elif self._body.size > BODY_BYTES_MAX:
            self._refuse(413)

    def finish(self) -> None:
        if not self._answering and not self._stream.local_ended:
            self._answering = True
            self._calls.run(self._run(), self._on_done)

    def expire(self) -> None:
        self._refuse(408)

    def abandon(self) -> None:
        if not self._answering:
            self._body.close()
        elif self._request is not None and self._request.on_left is not None:
            self._request.on_left()

    async def _run(self) -> None:
        headers = self._headers
        path, _, query = headers.get(":path", "/").partition("?")
        index = {**headers, "host": headers.get(":authority", headers.get("host", ""))}
        body = bytes(self._body.take())
        request = Request(headers.get(":method", ""), path, query, list(index.items()), body, "", index)
        self._request = request
        try:
            response = await self._rest.answer(request)
        except LostReplyError:
            return self._stream.cut_off()
        except Exception as error:  # noqa: BLE001 - the outer edge
            self._calls.log.error("failed to answer %s %s: %s", request.method, path, where(error))
            mapped = call_error(error)
            response = error_response(mapped or CallError(Code.INTERNAL, "Internal error."))
        self._send(response)

    def _on_done(self, task: asyncio.Task[None]) -> None:
        self._calls.tasks.discard(task)
        self._request = None
        self._body.close()

    def _give_up(self) -> None:
        self._refuse(503)

    def _refuse(self, status: int) -> None:
        if not self._answering:
            self._answering = True  # further input is discarded
            self._body.close()
            self._calls.log.debug("refused %s: %d", self._headers.get(":path", "").partition("?")[0], status)
            self._send(self._rest.refusal(status))

    def _send(self, response: Response) -> None:
        headers = [(":status", str(response.status)), *((name.lower(), value) for name, value in response.headers)]
        self._stream.send_headers(hpack.encode(headers), end=not response.body)
        if response.body:
            if not self._stream.send(response.body):
                self._stream.reset(frames.ENHANCE_YOUR_CALM)
            self._stream.end()

"""REST over the same methods: JSON in and out, by the paths of the public API."""

from __future__ import annotations

from penstock.doors.google.calls import Calls
from penstock.doors.google.http2.stream import Stream
from penstock.wire.http1 import Request, Response


class Rest:
    def __init__(self, calls: Calls) -> None:
        self._calls = calls

    async def answer(self, request: Request) -> Response:
        return Response(200, (), b"Ok\n")

    def refusal(self, status: int) -> Response:
        return Response(status)


class RestCall:
    def __init__(self, rest: Rest, calls: Calls, stream: Stream, headers: dict[str, str]) -> None:
        stream.reset(1)

    def receive(self, data: bytes) -> None: ...

    def finish(self) -> None: ...

    def abandon(self) -> None: ...

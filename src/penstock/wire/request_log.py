"""The request log: one line for each request of a door (setting `log_requests`).

A line has the door, the verb, the resource, the result and the duration in microseconds. It has no body, key, token or
query. A door without a RequestLog has no overhead.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple, TypeAlias

from penstock.wire.http1_message import Request, Response

LOGGER = "penstock.requests"
BEGUN = "begun"  # the result in the first line of a stream. A second line follows at its end
NAMELESS = "-"
RESOURCE_CHARACTERS_MAX = 1024

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
Describe: TypeAlias = Callable[[Request], tuple[str, str]]  # verb and resource of a request


class RequestLine(NamedTuple):
    """A log message that is formatted as text, or as an object by the JSON formatter."""

    door: str
    verb: str
    resource: str
    result: str
    microseconds: int
    counts: Mapping[str, Any] = {}

    def __str__(self) -> str:
        words = [self.door, _word(self.verb), _word(self.resource), self.result, f"{self.microseconds}us"]
        return " ".join([*words, *(f"{name}={value}" for name, value in self.counts.items())])

    def fields(self) -> dict[str, Any]:
        fields: dict[str, Any] = self._asdict()
        fields.update(fields.pop("counts"))
        return fields


class RequestLog:
    def __init__(self, door: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._door = door
        self._log = logging.getLogger(LOGGER)

    def write(self, verb: str, resource: str, result: object, since: float | None = None, **counts: Any) -> None:
        """Write a line. `since`: the time of the request by the clock. None if it was refused before it was read."""
        spent = 0 if since is None else round((self.clock() - since) * 1e6)
        name = resource[:RESOURCE_CHARACTERS_MAX] or NAMELESS
        self._log.info(RequestLine(self._door, verb or NAMELESS, name, str(result), spent, counts))

    def answers(
        self,
        answer: Answer,
        describe: Describe = lambda request: (request.method, request.path),
        notes: Callable[[Response], dict[str, Any]] = lambda response: {},
    ) -> Answer:
        """Wrap `answer` so that each answer is logged. `notes`: more fields for the line of a response."""

        async def logged(request: Request) -> Response:
            since = self.clock()
            result: object = 500  # unless there is an answer
            notable: dict[str, Any] = {}
            verb, resource = describe(request)
            try:
                response = await answer(request)
                result, notable = response.status, notes(response)
                if response.parts is not None:
                    result = BEGUN
                    response.parts = self._count_parts(response.parts, verb, resource, response.status, since)
                return response
            finally:
                self.write(verb, resource, result, since, **notable)

        return logged

    async def _count_parts(
        self, parts: AsyncGenerator[bytes, None], verb: str, resource: str, result: int, since: float
    ) -> AsyncGenerator[bytes, None]:
        sent = 0
        try:
            async with aclosing(parts):
                async for part in parts:
                    sent += len(part)
                    yield part
        finally:
            self.write(verb, resource, result, since, bytes=sent)


def _word(text: str) -> str:
    return text if text.isprintable() and not any(sign in text for sign in ' "=') else json.dumps(text)

"""The request log: a line for each request of a door, for those who ask for it (`log_requests`).

A line names the door, the verb, the resource, the result and the microseconds; never a body, a key, a token or a query.
A door that is given no RequestLog runs the code it would run if there were none.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Mapping
from contextlib import aclosing
from typing import Any, NamedTuple, TypeAlias

from penstock.wire.message import Request, Response

LOGGER = "penstock.requests"
BEGUN = "begun"  # the result of a stream at its begin; at its end it has another line
NAMELESS = "-"
RESOURCE_CHARACTERS_MAX = 1024

Answer: TypeAlias = Callable[[Request], Awaitable[Response]]
Describe: TypeAlias = Callable[[Request], tuple[str, str]]  # its verb, its resource


class RequestLine(NamedTuple):
    """What is logged as a message: text as it stands, or an object by the formatter of JSON."""

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
        known: dict[str, Any] = self._asdict()
        known.update(known.pop("counts"))
        return known


class RequestLog:
    def __init__(self, door: str, clock: Callable[[], float] = time.perf_counter) -> None:
        self.clock = clock
        self._door = door
        self._log = logging.getLogger(LOGGER)

    def write(self, verb: str, resource: str, result: object, since: float | None = None, **counts: Any) -> None:
        """`since`, by the clock: when the request was there; None if it was refused before that."""
        spent = 0 if since is None else round((self.clock() - since) * 1e6)
        named = resource[:RESOURCE_CHARACTERS_MAX] or NAMELESS
        self._log.info(RequestLine(self._door, verb or NAMELESS, named, str(result), spent, counts))

    def answers(
        self,
        answer: Answer,
        describe: Describe = lambda request: (request.method, request.path),
        notes: Callable[[Response], dict[str, Any]] = lambda response: {},
    ) -> Answer:
        """The same answers, with a line for each. `notes`: what to tell of a response besides its status."""

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
                    response.parts = self._counted(response.parts, verb, resource, response.status, since)
                return response
            finally:
                self.write(verb, resource, result, since, **notable)

        return logged

    async def _counted(
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
    """One word of a line, whatever the text."""
    return text if text.isprintable() and not any(sign in text for sign in ' "=') else json.dumps(text)

"""The Azure API without a socket: request objects in, response objects out, thousands of times a second."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from xml.etree import ElementTree

from penstock.assembly import SERVER_LIMITS
from penstock.doors.azure.accounts import read_accounts
from penstock.doors.azure.options import AzureOptions
from penstock.doors.azure.server import AzureDoor
from penstock.doors.google import dead_letters
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.services.moves.registry import Moves
from penstock.wire.http1_message import Request, Response
from tests.doors.azure.signing import ACCOUNT, account_sas
from tests.doors.clocks import clock_at

STANDARD, DIALECT = f"/{ACCOUNT}", "/queue/myaccount"


class Direct:
    def __init__(self, runner: asyncio.Runner, door: AzureDoor) -> None:
        self._runner = runner
        self._door = door
        self._sas = account_sas()

    def answer(self, request: Request) -> Response:
        return self._runner.run(self._door._answer(request))

    def ask(
        self,
        method: str,
        target: str,
        body: bytes = b"",
        *,
        headers: Sequence[tuple[str, str]] = (),
        signed: bool = True,
    ) -> Response:
        """Send a request for a path and query, with an account SAS unless it has other credentials."""
        path, _, query = target.partition("?")
        query = "&".join(part for part in (query, self._sas if signed else "") if part)
        sent = [("host", "127.0.0.1"), ("x-ms-version", "2021-08-06"), *headers]
        spelled = [name.encode() for name, _ in sent]
        return self.answer(Request(method, path, query, sent, body, "127.0.0.1", dict(sent), spelled))


@contextmanager
def opened_directly(options: AzureOptions | None = None, *, now: int | None = None) -> Iterator[Direct]:
    with asyncio.Runner() as runner:
        clock = clock_at(now)
        queue = AsyncMessageQueue(MemoryJournal(), limits=SERVER_LIMITS, clock=clock)
        runner.run(queue.start())
        door = AzureDoor(
            host="127.0.0.1",
            port=0,
            queue=queue,
            accounts=read_accounts(None),
            moves=Moves(queue, dead_letters),
            log=logging.getLogger("test.fuzz"),
            options=options or AzureOptions(),
        )
        yield Direct(runner, door)
        runner.run(queue.close())


def code_of(response: Response) -> str:
    return dict(response.headers).get("x-ms-error-code", "")


def texts(response: Response, name: str) -> list[str]:
    return [element.text or "" for element in ElementTree.fromstring(response.body).iter(name)]

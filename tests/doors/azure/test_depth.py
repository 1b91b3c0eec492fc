"""The cost of a receive and a delete does not depend on the depth of the queue. It is counted in function calls."""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import Awaitable, Callable
from types import FrameType
from typing import Any

from penstock.assembly import SERVER_LIMITS
from penstock.broker.model import Draft
from penstock.doors.azure.accounts import read_accounts
from penstock.doors.azure.server import AzureDoor
from penstock.doors.google import dead_letters
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.engine.clock import ManualClock
from penstock.journal.memory import MemoryJournal
from penstock.services.moves.registry import Moves
from penstock.wire.http1_message import Request, Response
from tests.doors.azure.signing import ACCOUNT, account_sas

TOPIC = f"projects/{ACCOUNT}/topics/orders"
DEPTHS = (10, 100, 20_000)


def request(method: str, path: str, query: str = "", body: bytes = b"") -> Request:
    joined = f"{query}&{account_sas()}" if query else account_sas()
    headers = [("host", "127.0.0.1"), ("x-ms-version", "2021-08-06")]
    return Request(method, f"/{ACCOUNT}/{path}", joined, headers, body, "127.0.0.1", dict(headers), [b"", b""])


async def counted(work: Callable[[], Awaitable[Response]]) -> tuple[Response, int]:
    """Return the answer and the number of Python functions that were called for it."""
    calls = 0

    def count(frame: FrameType, event: str, argument: Any) -> None:
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        answer = await work()
    finally:
        sys.setprofile(None)
    return answer, calls


async def costs(depth: int) -> list[int]:
    queue = AsyncMessageQueue(MemoryJournal(), limits=SERVER_LIMITS, clock=ManualClock())
    await queue.start()
    door = AzureDoor(
        host="127.0.0.1",
        port=0,
        queue=queue,
        accounts=read_accounts(None),
        moves=Moves(queue, dead_letters),
        log=logging.getLogger("test.depth"),
    )
    answer = door._answer
    assert (await answer(request("PUT", "orders"))).status == 201
    await queue.publish(TOPIC, [Draft(b"x" * 64, ttl_seconds=604800)] * depth)
    body = b"<QueueMessage><MessageText>x</MessageText></QueueMessage>"
    found = []
    for _ in range(4):  # the first round fills caches of dates and parameters
        put, puts = await counted(lambda: answer(request("POST", "orders/messages", body=body)))
        got, gets = await counted(lambda: answer(request("GET", "orders/messages")))
        _, peeks = await counted(lambda: answer(request("GET", "orders/messages", "peekonly=true")))
        fields = [
            got.body.partition(f"<{name}>".encode())[2].partition(b"<")[0] for name in ("MessageId", "PopReceipt")
        ]
        place, receipt = (field.decode() for field in fields)
        update, updates = await counted(
            lambda p=place, r=receipt: answer(  # type: ignore[misc]
                request("PUT", f"orders/messages/{p}", f"popreceipt={r}&visibilitytimeout=30")
            )
        )
        receipt = dict(update.headers)["x-ms-popreceipt"]
        deleted, deletes = await counted(
            lambda p=place, r=receipt: answer(  # type: ignore[misc]
                request("DELETE", f"orders/messages/{p}", f"popreceipt={r}")
            )
        )
        assert [each.status for each in (put, got, update, deleted)] == [201, 200, 204, 204]
        found.append([puts, gets, peeks, updates, deletes])
    await queue.close()
    # a tick of the queue, which runs every second, may fall into one measurement
    return [min(each) for each in zip(*found, strict=True)]


def test_no_operation_costs_more_on_a_deep_queue() -> None:
    shallow, middle, deep = (asyncio.run(costs(depth)) for depth in DEPTHS)
    for few, some, many in zip(shallow, middle, deep, strict=True):
        assert max(some, many) <= few + 10, (shallow, middle, deep)

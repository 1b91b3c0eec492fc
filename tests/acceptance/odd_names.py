"""A store with names that new queues cannot have. Earlier versions of the server accepted them."""

from __future__ import annotations

import asyncio
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from penstock import Draft
from penstock.assembly import SERVER_LIMITS, open_journal
from penstock.doors.resources import QUEUE_OPTIONS
from penstock.engine.async_queue import AsyncMessageQueue

TOPIC, SUBSCRIPTION = "projects/penstock/topics/", "projects/penstock/subscriptions/"
INVISIBLE = ["no\u00a0break", "zero\u200dwidth", " led by a space", "..", "x" * 300]  # refused for new queues
UNUSUAL = ["no good!", "goog-x", "ü", "a,b", "50%25?#"]  # refused by Pub/Sub clients, and accepted by the text protocol
ODD = [*INVISIBLE, *UNUSUAL]


def make_store(folder: Path) -> None:
    async def main() -> None:
        queue = AsyncMessageQueue(open_journal(folder), limits=SERVER_LIMITS)
        await queue.start()
        for name in ODD:
            await queue.send(TOPIC + name, SUBSCRIPTION + name, QUEUE_OPTIONS, [Draft(b"old")])
        await queue.close()

    with ThreadPoolExecutor() as pool:  # the caller's thread may already run an event loop
        pool.submit(asyncio.run, main()).result()

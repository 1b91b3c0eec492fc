"""Push tokens use the wall clock, as their receivers do, even if the clock of a project was moved."""

from __future__ import annotations

import asyncio
import base64
import json

from penstock.broker.model import SECOND
from penstock.doors.google.tokens import LIFE_SECONDS, Tokens
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from tests.doors.clocks import clock_at


def life_of(authorization: str) -> tuple[int, int]:
    body = authorization.split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))
    return claims["iat"], claims["exp"]


def test_tokens_use_the_wall_clock_and_are_renewed_when_it_is_set() -> None:
    async def story() -> None:
        clock = clock_at()
        queue = AsyncMessageQueue(MemoryJournal(), clock=clock)
        await queue.start()
        tokens = Tokens(queue, clock.wall)
        for seconds in (0, -7200, 86400):
            clock.set_wall(seconds)
            now = clock.wall() // SECOND
            token = await tokens.authorization("a@example.com", "me")
            assert life_of(token) == (now, now + LIFE_SECONDS)
            assert await tokens.authorization("a@example.com", "me") == token
        await queue.close()

    asyncio.run(story())

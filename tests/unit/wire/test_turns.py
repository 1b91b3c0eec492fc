"""Long work that lets others run."""

from __future__ import annotations

import asyncio

from penstock.wire.turns import Turns


def others_run(seconds: float) -> int:
    """How often another task runs while ten steps are made."""

    async def story() -> int:
        ran = 0

        async def other() -> None:
            nonlocal ran
            while True:
                ran += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        turns = Turns(seconds)
        for _ in range(10):
            await turns.give()
        task.cancel()
        return ran

    return asyncio.run(story())


def test_others_run_when_the_time_is_over() -> None:
    assert others_run(0) == 10


def test_and_not_before() -> None:
    assert others_run(3600) == 0

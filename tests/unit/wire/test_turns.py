"""Long work that lets other tasks run."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Sequence

import pytest

from penstock.wire.turns import RESTS, RUN, Share, Turns


def others_run(seconds: float) -> int:
    """Return how often another task runs during ten steps."""

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


def test_other_tasks_do_not_run_before_the_time_is_over() -> None:
    assert others_run(3600) == 0


SLICE = 0.01


async def work(share: Share, slices: int) -> float:
    """Work in a share. Return the seconds of work."""
    worked = 0.0
    for _ in range(slices):
        async with share:
            began = time.perf_counter()
            while time.perf_counter() - began < SLICE:
                pass
            worked += time.perf_counter() - began
    return worked


async def seconds_of(share: Share) -> tuple[float, float]:
    """Return the seconds that five tasks worked in a share, and the seconds that passed meanwhile."""
    began = time.perf_counter()
    worked = sum(await asyncio.gather(*[work(share, 2) for _ in range(5)]))
    return worked, time.perf_counter() - began


def test_tasks_of_a_share_have_a_fifth_of_the_time_together_while_others_work() -> None:
    counts = itertools.count()
    worked, passed = asyncio.run(seconds_of(Share(lambda: next(counts))))
    assert worked >= 10 * SLICE
    assert passed >= worked + 0.8 * RESTS * worked, "a pause follows every slice but the last"


def test_a_share_takes_no_rests_while_nothing_else_is_done() -> None:
    async def story() -> bool:
        share = Share(lambda: 0)
        await work(share, 1)
        return share._rests_until == 0.0

    assert asyncio.run(story())


def test_other_tasks_run_before_every_slice() -> None:
    async def story() -> int:
        ran = 0

        async def other() -> None:
            nonlocal ran
            while True:
                ran += 1
                await asyncio.sleep(0)

        task = asyncio.create_task(other())
        share = Share(lambda: 0, seconds=0)
        assert await share.map(lambda each: each + 1, range(100)) == list(range(1, 101))
        task.cancel()
        return ran

    assert asyncio.run(story()) >= 100


def test_a_share_maps_and_filters_in_order() -> None:
    async def story() -> None:
        share = Share(lambda: 0)
        assert await share.filter(lambda each: each % 2, range(7)) == [1, 3, 5]
        assert await share.filter(lambda each: each, []) == []
        names = [str(each) for each in range(3 * RUN)]
        assert await share.sort(names) == sorted(names)

        async def doubled(chunk: Sequence[int]) -> list[int]:
            assert len(chunk) <= 3
            return [2 * each for each in chunk]

        assert await share.map_chunks(doubled, range(10), 3) == list(range(0, 20, 2))

    asyncio.run(story())


def test_a_task_that_is_cancelled_or_fails_leaves_the_share_to_others() -> None:
    async def story() -> None:
        share = Share()
        share._rests_until = asyncio.get_running_loop().time() + 3600
        waiting = asyncio.create_task(work(share, 1))
        await asyncio.sleep(0)
        waiting.cancel()
        await asyncio.gather(waiting, return_exceptions=True)
        share._rests_until = 0.0
        with pytest.raises(ZeroDivisionError):
            await share.map(lambda each: 1 // each, [0])
        share._rests_until = 0.0
        await asyncio.wait_for(work(share, 1), 10)

    asyncio.run(story())

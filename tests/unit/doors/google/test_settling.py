"""Settlements of a stream that are decided and not yet committed."""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, cast

import pytest

from penstock.doors.google.calls import StreamingCall
from penstock.doors.google.errors import CallError
from penstock.doors.google.settling import SETTLING_MAX, Settling
from penstock.engine.port import Settled
from penstock.errors import UnavailableError
from penstock.wire.budget import Budget

GOOD = Settled([], [], [], None)


class Call:
    """The part of a streaming call that settling uses."""

    def __init__(self, budget: Budget) -> None:
        self.budget = budget
        self.acks = 0


class Bench:
    """A Settling whose method commits when the test allows it."""

    def __init__(self, limit_bytes: int = 0) -> None:
        self.budget = Budget(limit_bytes)
        self.call = Call(self.budget)
        self.settling = Settling(cast(StreamingCall, self.call))
        self.decided: list[str] = []
        self.commits: list[Future[Settled]] = []

    def ack(self, receipts: list[str], *, strict: bool) -> Future[Settled]:
        self.decided += receipts
        self.commits.append(asyncio.get_running_loop().create_future())
        return self.commits[-1]

    def ack_in_steps(self, receipts: list[str], *, strict: bool) -> Future[Settled]:
        return asyncio.ensure_future(_awaited(self.ack(receipts, strict=strict)))

    async def begin(self, receipt: str, verb: Callable[..., Any] | None = None) -> None:
        await self.settling.begin(verb or self.ack, [receipt], acks=1)


async def _awaited(future: Awaitable[Settled]) -> Settled:
    return await future


def run(scenario: Callable[[], Coroutine[Any, Any, None]]) -> None:
    async def limited() -> None:
        async with asyncio.timeout(10):
            await scenario()

    asyncio.run(limited())


async def turns(count: int = 5) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def test_the_next_request_does_not_wait_for_a_commit() -> None:
    async def scenario() -> None:
        bench = Bench()
        runner = asyncio.ensure_future(bench.settling.run())
        for receipt in ("1", "2", "3"):
            await bench.begin(receipt)
        assert bench.decided == ["1", "2", "3"]
        await turns()
        assert bench.call.acks == 0
        for commit in bench.commits:
            commit.set_result(GOOD)
        await bench.settling.done()
        assert (bench.call.acks, bench.budget.in_use_bytes) == (3, 0)
        runner.cancel()

    run(scenario)


def test_a_limited_number_of_settlements_waits_for_commits() -> None:
    async def scenario() -> None:
        bench = Bench()
        runner = asyncio.ensure_future(bench.settling.run())
        for _ in range(SETTLING_MAX):
            await bench.begin("a")
        one_more = asyncio.ensure_future(bench.begin("b"))
        await turns()
        assert "b" not in bench.decided
        bench.commits[0].set_result(GOOD)
        await one_more
        assert bench.decided[-1] == "b"
        runner.cancel()
        bench.settling.close()

    run(scenario)


def test_a_verb_that_takes_steps_is_awaited_before_the_next_request() -> None:
    async def scenario() -> None:
        bench = Bench()
        in_steps = asyncio.ensure_future(bench.begin("1", bench.ack_in_steps))
        await turns()
        assert not in_steps.done()
        bench.commits[0].set_result(GOOD)
        await in_steps
        assert bench.call.acks == 1

    run(scenario)


def test_without_memory_the_next_request_waits() -> None:
    async def scenario() -> None:
        bench = Bench(limit_bytes=100)
        assert bench.budget.account(None).charge(95)
        await bench.begin("12345")
        waiting = asyncio.ensure_future(bench.begin("6"))
        await turns()
        assert not waiting.done()
        bench.commits[1].set_result(GOOD)
        await waiting
        assert (bench.budget.in_use_bytes, bench.budget.refusals) == (100, 0)
        bench.settling.close()
        assert bench.budget.in_use_bytes == 95

    run(scenario)


def test_the_first_failure_is_raised() -> None:
    async def scenario() -> None:
        bench = Bench()
        await bench.begin("1")
        await bench.begin("2")
        bench.commits[0].set_result(GOOD)
        bench.commits[1].set_exception(UnavailableError("The disk is full"))
        with pytest.raises(UnavailableError):
            await bench.settling.run()
        assert bench.call.acks == 1

    run(scenario)


def test_a_malformed_receipt_is_refused_after_its_commit() -> None:
    async def scenario() -> None:
        bench = Bench()
        await bench.begin("1-x")
        bench.commits[0].set_result(Settled([], ["1-x"], [], None))
        with pytest.raises(CallError):
            await bench.settling.run()

    run(scenario)


def test_closing_leaves_no_error_that_asyncio_would_log() -> None:
    async def scenario() -> None:
        problems: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: problems.append(context))
        bench = Bench()
        await bench.begin("1")
        await bench.begin("2")
        bench.commits[0].set_exception(UnavailableError("The disk is full"))
        bench.settling.close()
        assert bench.commits[1].cancelled()
        bench.commits.clear()
        await turns()
        assert problems == []

    run(scenario)

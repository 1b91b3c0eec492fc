"""Leases on cursors, on a clock that is moved by hand."""

from __future__ import annotations

import asyncio

import pytest

from penstock.doors.flight import codec, cursor_leases
from penstock.doors.flight.cursor_leases import LEASE_SECONDS, LEASES_MAX, CursorLeases
from penstock.errors import FailedPreconditionError, InvalidArgumentError


class Harness:
    def __init__(self) -> None:
        self.now = 100.0
        self.leases = CursorLeases(codec.Names("p"), clock=lambda: self.now)

    async def hold(self, owner: str, *topics: str, wait: bool = False) -> None:
        asked = codec.CursorHold("c", owner, list(topics) or ["t"], f"reader {owner}", wait)
        await asyncio.wait_for(self.leases.hold(asked), 10)

    async def release(self, owner: str) -> int:
        return int((await self.leases.release(codec.CursorRelease("c", owner)))["released"])


def test_an_owner_keeps_its_cursors_until_it_releases_them() -> None:
    async def scenario() -> None:
        harness = Harness()
        await harness.hold("a", "t", "u")
        with pytest.raises(FailedPreconditionError, match=r"c of projects/p/topics/u is used by .* \(reader a\)"):
            await harness.hold("b", "v", "u")
        await harness.hold("b", "v")  # the cursor of another topic
        assert await harness.release("a") == 2
        await harness.hold("b", "t", "u", "v")

    asyncio.run(scenario())


def test_a_lease_that_is_not_renewed_ends() -> None:
    async def scenario() -> None:
        harness = Harness()
        await harness.hold("a")
        harness.now += LEASE_SECONDS - 1
        await harness.hold("a")
        harness.now += LEASE_SECONDS - 1
        with pytest.raises(FailedPreconditionError):
            await harness.hold("b")
        harness.now += 1
        await harness.hold("b")
        with pytest.raises(FailedPreconditionError, match="reader b"):
            await harness.hold("a")

    asyncio.run(scenario())


@pytest.mark.parametrize("alive", [True, False])
def test_a_newcomer_waits_until_it_is_known_whether_the_holder_lives(
    monkeypatch: pytest.MonkeyPatch, *, alive: bool
) -> None:
    async def scenario() -> None:
        monkeypatch.setattr(cursor_leases, "LOOK_SECONDS", 0)
        harness = Harness()
        await harness.hold("a")
        newcomer = asyncio.create_task(harness.hold("b", wait=True))
        for _ in range(int(LEASE_SECONDS) - 1):
            await asyncio.sleep(0)
            assert not newcomer.done()
            if not alive:
                harness.now += 1
        harness.now += 1
        if alive:
            await harness.hold("a")
            with pytest.raises(FailedPreconditionError):
                await newcomer
        else:
            await newcomer

    asyncio.run(scenario())


def test_a_lease_needs_an_owner() -> None:
    async def scenario() -> None:
        for owner in ("", "x" * 201):
            with pytest.raises(InvalidArgumentError, match="owner has 1 to 200 characters"):
                await Harness().hold(owner)

    asyncio.run(scenario())


def test_old_leases_are_forgotten() -> None:
    async def scenario() -> None:
        harness = Harness()
        await harness.hold("a", *(f"t{number}" for number in range(LEASES_MAX)))
        harness.now += LEASE_SECONDS
        await harness.hold("b")
        assert await harness.release("a") == 0

    asyncio.run(scenario())

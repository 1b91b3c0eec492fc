"""The connections of a door, without sockets: limits, deadlines and the stop."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter

import pytest

from penstock.wire.serving import STOPPING, Connections


class Fake:
    """A connection that records its calls, and ends when asked unless it is stubborn."""

    def __init__(self, connections: Connections, peer: str = "192.0.2.1", *, stubborn: bool = False) -> None:
        self.peer = peer
        self.calls: list[str] = []
        self._connections = connections
        self._stubborn = stubborn
        self.refused = connections.add(self)

    def sweep(self, now: float) -> None:
        self.calls.append(f"sweep {now:g}")

    def wind_down(self) -> None:
        self.calls.append("wind_down")
        if not self._stubborn:
            self._connections.remove(self)

    def abort(self) -> None:
        self.calls.append("abort")
        self._connections.remove(self)


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def made(**limits: int) -> tuple[Connections, Counter[str], Clock]:
    counts, clock = Counter[str](), Clock()
    return Connections(log=logging.getLogger("test.serving"), counts=counts, clock=clock, **limits), counts, clock


def test_caps_hold_in_all_and_for_each_address(caplog: pytest.LogCaptureFixture) -> None:
    connections, counts, _ = made(connections_max=4, connections_per_address_max=2)
    crowd = [Fake(connections, peer) for peer in ("a", "a", "a", "b", "b")]
    assert [each.refused for each in crowd] == [
        "",
        "",
        "too_many_connections_of_address",
        "",
        "too_many_connections",  # a connection that must close counts until it is closed
    ]
    assert counts == {"too_many_connections": 1, "too_many_connections_of_address": 1}
    for _ in range(2):
        connections.sweep()
    assert caplog.messages == ["refused 2 connections over the limit"]
    for each in crowd:
        connections.remove(each)
        connections.remove(each)  # a second call has no effect
    assert len(connections) == 0
    assert not connections._per_address
    assert Fake(connections, "a").refused == ""


def test_a_sweep_checks_every_connection_and_calls_its_listeners() -> None:
    connections, _, clock = made()
    one, two, called = Fake(connections), Fake(connections), []
    connections.on_sweep.append(lambda: called.append(connections.now))
    clock.now = 1001.0
    connections.sweep()
    assert one.calls == two.calls == ["sweep 1001"]
    assert called == [1001.0]


def test_a_stop_aborts_connections_that_do_not_finish(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        connections, _, _ = made()
        quick, slow = Fake(connections), Fake(connections, stubborn=True)
        assert await connections.stop(0.01) == [slow]
        assert (quick.calls, slow.calls) == (["wind_down"], ["wind_down", "abort"])
        assert Fake(connections).refused == STOPPING

    asyncio.run(scenario())
    assert "closed, because they did not finish in time: 1 connection" in caplog.messages


def test_a_stop_waits_for_the_last_connection_and_not_longer(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario() -> None:
        connections, _, _ = made()
        slow = Fake(connections, stubborn=True)
        connections.wind_down()
        asyncio.get_running_loop().call_soon(connections.remove, slow)
        assert await connections.stop(60) == []
        assert slow.calls == ["wind_down"]

    asyncio.run(asyncio.wait_for(scenario(), 10))
    assert not caplog.records

"""A port that opens when every other door answers. Scripts for emulator images wait for it. It sends nothing."""

from __future__ import annotations

import asyncio
import logging
from collections import Counter
from collections.abc import Sequence

from penstock.doors.consumers import Consumer
from penstock.doors.port import join_address
from penstock.engine.port import SubscriptionMetadata
from penstock.wire.serving import Connections


class ReadyDoor:
    name = "ready"
    guarded = True  # it offers nothing

    def __init__(self, *, host: str, port: int, log: logging.Logger) -> None:
        self.address = ""
        self.counts: Counter[str] = Counter()
        self._host, self._port = host, port
        self._connections = Connections(log=log, counts=self.counts)

    @property
    def hints(self) -> Sequence[str]:
        return ["open since every door answers"]

    def name_of(self, topic: str) -> str | None:
        return None

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        return ()

    async def start(self) -> None:
        self.address = join_address(*await self._connections.listen(Visitor, self._host, self._port))

    async def stop(self, grace_seconds: float) -> None:
        await self._connections.stop(grace_seconds)


class Visitor(asyncio.Protocol):
    """A connection, which is closed at once."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        transport.close()

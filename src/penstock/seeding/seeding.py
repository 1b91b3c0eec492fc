"""Seeding, as the server and its admin API use it: what is there as a document, and a document made to be there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from penstock.engine.port import Queue
from penstock.seeding.applying import Applying, Plan
from penstock.seeding.reading import Reader
from penstock.seeding.showing import Show
from penstock.seeding.topology import Vendors


class Seeding:
    def __init__(self, queue: Queue, default_project: str, open_vendors: Callable[[], Vendors]) -> None:
        """`open_vendors` is called when the first seed comes: most servers never see one."""
        self._queue = queue
        self._project = default_project
        self._open_vendors = open_vendors
        self._one_at_a_time = asyncio.Lock()

    @cached_property
    def _vendors(self) -> Vendors:
        return self._open_vendors()

    async def document(self, project: str | None = None) -> dict[str, Any]:
        """The topology of one project, or of all."""
        return await Show(self._queue, project or self._project, self._vendors).document(project)

    async def apply(self, document: Mapping[str, Any], *, update: bool = False, dry_run: bool = False) -> Plan:
        """SeedError says what is wrong, and where; nothing was changed then."""
        reader = Reader(self._project, self._vendors)
        topology = await asyncio.to_thread(reader.read, document)  # a large one takes its time
        applying = Applying(self._queue, self._vendors, update=update)
        async with self._one_at_a_time:  # two of the same would each find everything missing
            return await (applying.plan(topology) if dry_run else applying.apply(topology))

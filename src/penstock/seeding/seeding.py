"""The seeding service of the server and its admin API: it exports and applies seed documents."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from functools import cached_property
from typing import Any

from penstock.engine.port import Queue
from penstock.seeding.document_reader import Reader
from penstock.seeding.document_writer import Writer
from penstock.seeding.topology import Vendors
from penstock.services.seeding import Applying, Plan
from penstock.wire.turns import Share


class Seeding:
    def __init__(self, queue: Queue, default_project: str, open_vendors: Callable[[], Vendors]) -> None:
        """Store the parts. `open_vendors` is called for the first seed, because most servers get none."""
        self._queue = queue
        self._project = default_project
        self._open_vendors = open_vendors
        self._one_at_a_time = asyncio.Lock()
        self._writing = asyncio.Lock()

    @cached_property
    def _vendors(self) -> Vendors:
        return self._open_vendors()

    async def document(self, project: str | None, share: Share) -> dict[str, Any]:
        """Return the topology of one project, or of all if it is None, as a document. One is made at a time."""
        async with self._writing:
            return await Writer(self._queue, project or self._project, self._vendors, share).document(project)

    async def apply(self, document: Mapping[str, Any], *, update: bool = False, dry_run: bool = False) -> Plan:
        """Apply a document, or only plan it if `dry_run`. Raise SeedError, before any change, if it is invalid."""
        reader = Reader(self._project, self._vendors)
        topology = await asyncio.to_thread(reader.read, document)  # large documents take long
        applying = Applying(self._queue, self._vendors, update=update)
        async with self._one_at_a_time:  # two equal documents would each find everything missing
            return await (applying.plan(topology) if dry_run else applying.apply(topology))

"""One scrape of the metrics: the numbers are gathered, and the page is made, in slices of a share of the event loop."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterator, Mapping
from typing import NamedTuple

from penstock.doors.http.admin.calls import Context
from penstock.doors.http.metrics import Number, Resources
from penstock.engine.port import Kind
from penstock.engine.statistics import BrokerStatistics, Statistics
from penstock.services.traffic import GAUGES
from penstock.wire.turns import Share

KINDS: tuple[Kind, Kind] = ("topics", "subscriptions")
CHUNK_RESOURCES = 20  # topics or subscriptions between two looks at the clock
CHUNK_LINES = 50


class Gathered(NamedTuple):
    statistics: BrokerStatistics
    totals: Mapping[str, Number] | None
    resources: list[Resources]


async def gather(context: Context, statistics: Statistics, most: int) -> Gathered:
    """Gather the numbers of the server, and of its `most` oldest topics and as many subscriptions."""
    queue, share = context.queue, context.listing
    counted, resources = statistics.statistics(resources=False), []
    names = {kind: list((await queue.numbered_names(kind, most)).values()) if most else [] for kind in KINDS}
    for kind in KINDS:
        count = (await queue.names(kind, most=1)).total
        resources.append(Resources(kind, count, max(0, count - len(names[kind]))))
    topics = await share.map_chunks(queue.topic_statistics, names["topics"], CHUNK_RESOURCES)
    subscriptions = await share.map_chunks(queue.subscription_statistics, names["subscriptions"], CHUNK_RESOURCES)
    return Gathered(counted._replace(topics=topics, subscriptions=subscriptions), _totals(context), resources)


def _totals(context: Context) -> Mapping[str, Number] | None:
    if context.services is None:
        return None
    samples = context.services.samples
    last = samples.recent[-1]
    return {**samples.totals, **{name: getattr(last, name) for name in GAUGES}}


async def page_parts(share: Share, lines: Iterator[str]) -> AsyncGenerator[bytes, None]:
    """Yield the page in parts, each made in a slice."""
    part = [""]
    while part:
        part = []
        async with share:
            for line in lines:
                part.append(line)
                if len(part) % CHUNK_LINES == 0 and share.is_over:
                    break
        if text := "".join(part):
            yield text.encode("utf-8", "replace")

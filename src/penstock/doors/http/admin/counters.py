"""Counters (`broker/counts.py`) as fields of the records of the admin API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from penstock.broker.counts import Counter, SubscriptionCounts, TopicCounts


def with_counters(base: type[msgspec.Struct], counters: Sequence[Counter]) -> Any:
    """Return a struct with the fields of `base`, a total for each counter, and a rate for each sampled one."""
    totals = [(each.name, _total(each)) for each in counters]
    rates = [(each.rate, float) for each in counters if each.rate]
    return msgspec.defstruct(base.__name__, [*totals, *rates], bases=(base,), kw_only=True)


def _total(counter: Counter) -> Any:
    return Annotated[int, msgspec.Meta(ge=0, description=f"{counter.help} Since the start.")]


def counter_values(
    counters: Sequence[Counter], counts: TopicCounts | SubscriptionCounts, rates: Sequence[float]
) -> dict[str, float]:
    """Return the values of the fields that `with_counters` adds. `rates`: of the sampled counters, in their order."""
    totals = {each.name: getattr(counts, each.field) for each in counters}
    return totals | dict(zip((each.rate for each in counters if each.rate), rates, strict=True))

"""Counters (`broker/counts.py`) as fields of the records of the admin API."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

import msgspec

from penstock.broker.counts import Counter, SubscriptionCounts, TopicCounts


def with_counters(base: type[msgspec.Struct], counters: Sequence[Counter]) -> Any:
    """Return a struct with the fields of `base`, a total for each counter, and a rate for each sampled one."""
    totals = [(counter.name, _total(counter)) for counter in counters]
    rates = [(counter.rate, float) for counter in counters if counter.rate]
    return msgspec.defstruct(base.__name__, [*totals, *rates], bases=(base,), kw_only=True)


def _total(counter: Counter) -> Any:
    return Annotated[int, msgspec.Meta(ge=0, description=f"{counter.help} Since the start.")]


def counter_values(
    counters: Sequence[Counter], counts: TopicCounts | SubscriptionCounts, rates: Sequence[float]
) -> dict[str, float]:
    """Return the values of the fields that `with_counters` adds. `rates`: of the sampled counters, in their order."""
    totals = {counter.name: getattr(counts, counter.field) for counter in counters}
    return totals | dict(zip((counter.rate for counter in counters if counter.rate), rates, strict=True))

"""The kinds of flows. Each is one file; a new one needs its line here."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.flows.kind import FlowKind

CUSTOM = "custom:Custom"  # a flow without `use`: the user's own
# By name and not by class: the help of the command line lists them, and loads nothing for it.
READY_MADE = {
    "archive": "archive:Archive",
    "replay": "replay:Replay",
    "insights": "insights:Insights",
    "dead-letters": "dead_letters:DeadLetters",
}


def kind_of(use: str | None) -> type[FlowKind]:
    """The record of the keys that a flow with this `use` has, and of what it does."""
    kind: type[FlowKind] = pkgutil.resolve_name(f"{__name__}.{READY_MADE[use] if use else CUSTOM}")
    return kind

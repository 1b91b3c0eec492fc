"""The registry of flow kinds. Each kind is one file and one line here."""

from __future__ import annotations

import pkgutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from penstock.spark.flows.kind import FlowKind

CUSTOM = "custom:Custom"  # a flow without `use`
# Names instead of classes, so that the help of the command line can list them without loading them.
READY_MADE = {
    "archive": "archive:Archive",
    "replay": "replay:Replay",
    "insights": "insights:Insights",
    "dead-letters": "dead_letters:DeadLetters",
}


def kind_of(use: str | None) -> type[FlowKind]:
    kind: type[FlowKind] = pkgutil.resolve_name(f"{__name__}.{READY_MADE[use] if use else CUSTOM}")
    return kind

"""A rule for counters: a public Counter of a door is named `counts`, and /metrics shows it."""

from __future__ import annotations

import ast
from collections.abc import Iterable
from pathlib import Path

from tests.tidy.sources import parsed

SHOWN = "counts"


def counter_faults(root: Path, files: Iterable[Path]) -> list[str]:
    faults = []
    for path in files:
        for node in ast.walk(parsed(path.read_text(encoding="utf-8"))):
            target = _counter_of_an_object(node)
            if target is not None and not target.attr.startswith("_") and target.attr != SHOWN:
                faults.append(f"{path.relative_to(root)}:{node.lineno}: {target.attr} is counted and never shown")
    return faults


def _counter_of_an_object(node: ast.AST) -> ast.Attribute | None:
    """Return whether the statement is `self.something = Counter()`, with or without a type."""
    if isinstance(node, ast.AnnAssign):
        target: ast.expr = node.target
    elif isinstance(node, ast.Assign):
        target = node.targets[0]
    else:
        return None
    made = node.value
    counts = isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id == "Counter"
    return target if counts and isinstance(target, ast.Attribute) else None

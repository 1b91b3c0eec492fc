"""The third-party packages that the source imports, and the extras of pyproject.toml that declare them.

An extra must install all packages that its code needs. The tests have more packages installed than a user of one
extra, so only this rule finds a package that is missing.
"""

from __future__ import annotations

import ast
import re
import sys
from typing import Any

from tests.tidy.sources import Module

OWN = {"penstock", "pyspark_penstock"}
# The extras that the code in a folder may rely on, besides the base.
EXTRAS: dict[tuple[str, ...], tuple[str, ...]] = {
    ("penstock", "doors", "google"): ("google",),
    ("penstock", "doors", "flight"): ("flight",),
    ("penstock", "commands", "parquet"): ("flight",),
    ("penstock", "commands", "pipeline"): ("spark",),
    ("penstock", "spark"): ("spark", "delta"),
    ("penstock", "testing"): ("test",),
    ("pyspark_penstock",): ("spark",),
}
DISTRIBUTIONS = {"google": "protobuf"}  # imports whose package has another name


def dependency_faults(tree: list[Module], project: dict[str, Any]) -> list[str]:
    return [
        f"{module.label}: {name} is declared neither by the base nor by {', '.join(extras) or 'an extra'}"
        for module in tree
        for extras in [extras_of(module)]
        for name in sorted(third_party(module))
        if DISTRIBUTIONS.get(name, name) not in declared(project, extras)
    ]


def extras_of(module: Module) -> tuple[str, ...]:
    place = (module.package, *module.place)
    return next((extras for start, extras in EXTRAS.items() if place[: len(start)] == start), ())


def third_party(module: Module) -> set[str]:
    names: set[str] = set()
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Import):
            names |= {alias.name.split(".")[0] for alias in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
            names.add(node.module.split(".")[0])
    return names - OWN - sys.stdlib_module_names


def declared(project: dict[str, Any], extras: tuple[str, ...]) -> set[str]:
    optional = project.get("optional-dependencies", {})
    wanted = [*project["dependencies"], *(each for extra in extras for each in optional[extra])]
    return {re.split(r"[^\w-]", requirement)[0].replace("-", "_") for requirement in wanted}

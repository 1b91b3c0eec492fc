"""Seed files for tests: whatever project a file speaks of, what it describes is made in the project of the test."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock.seeding.source import Source
from penstock.seeding.topology import SeedError

_NAME = re.compile(r"projects/([^/]+)/((?:topics|subscriptions|schemas)/[^/]+)")
_CONTENT = frozenset({"messages", "labels", "extras", "filter"})  # what stands there is no name of ours


def in_project(source: Source, project: str) -> dict[str, Any]:
    """The document of a seed with every name in this project. SeedError if it speaks of several."""
    found = set[str]()

    def note(name: str) -> str:
        found.add(name)
        return name

    _renamed(source.document, note)
    if len(found) > 1:
        raise SeedError(
            f"{source.label}: It names several projects ({', '.join(sorted(found))}), and a test has one: "
            "write a file for each, and seed a project with each"
        )
    return {**_renamed(source.document, lambda _: project), "project": project}


def _renamed(value: Any, rename: Callable[[str], str]) -> Any:
    """The value with the project of every name in it changed."""
    if isinstance(value, Mapping):
        return {
            key: inner if key in _CONTENT else rename(inner) if _is_project(key, inner) else _renamed(inner, rename)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_renamed(inner, rename) for inner in value]
    name = _NAME.fullmatch(value) if isinstance(value, str) else None
    return f"projects/{rename(name[1])}/{name[2]}" if name else value


def _is_project(key: str, value: object) -> bool:
    return key == "project" and isinstance(value, str)

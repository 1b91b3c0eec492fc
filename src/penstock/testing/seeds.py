"""Seed files for tests, with the project name of the file replaced by the test's project."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from penstock.seeding.source import Source
from penstock.seeding.topology import SeedError

_NAME = re.compile(r"projects/([^/]+)/((?:topics|subscriptions|schemas)/[^/]+)")
_CONTENT = frozenset({"messages", "labels", "extras", "filter"})  # keys with content, which is not renamed


def in_project(source: Source, project: str) -> dict[str, Any]:
    """Return the document of a seed with all names in this project. Raise SeedError if it has several projects."""
    names = set[str]()

    def collect(name: str) -> str:
        names.add(name)
        return name

    _rename(source.document, collect)
    if len(names) > 1:
        raise SeedError(
            f"{source.label}: The file has several projects ({', '.join(sorted(names))}), but a test has one. "
            "Write a file for each project"
        )
    return {**_rename(source.document, lambda _: project), "project": project}


def _rename(value: Any, rename: Callable[[str], str]) -> Any:
    """Return the value with the project in every name replaced."""
    if isinstance(value, Mapping):
        return {
            key: inner if key in _CONTENT else rename(inner) if _is_project(key, inner) else _rename(inner, rename)
            for key, inner in value.items()
        }
    if isinstance(value, list):
        return [_rename(inner, rename) for inner in value]
    name = _NAME.fullmatch(value) if isinstance(value, str) else None
    return f"projects/{rename(name[1])}/{name[2]}" if name else value


def _is_project(key: str, value: object) -> bool:
    return key == "project" and isinstance(value, str)

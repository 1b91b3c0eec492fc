"""The routes of the admin API. Serving, checking and the OpenAPI document follow from them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from penstock.doors.http.admin import (
    about,
    backlogs,
    backup,
    clocks,
    consumers,
    deliveries,
    faults,
    leases,
    messages,
    moves,
    project_snapshots,
    projects,
    queues,
    snapshots,
    statistics,
    stories,
    subscriptions,
    topics,
    topology,
)
from penstock.doors.http.admin.calls import Route
from penstock.doors.http.admin.checking import unquote_segment

BASE = "/admin/v1"

ROUTES: tuple[Route, ...] = (
    *about.ROUTES,
    *statistics.ROUTES,
    *projects.ROUTES,
    *project_snapshots.ROUTES,
    *clocks.ROUTES,
    *topics.ROUTES,
    *leases.ROUTES,
    *backlogs.ROUTES,
    *consumers.ROUTES,
    *moves.ROUTES,
    *messages.ROUTES,
    *subscriptions.ROUTES,
    *deliveries.ROUTES,
    *queues.ROUTES,
    *snapshots.ROUTES,
    *backup.ROUTES,
    *topology.ROUTES,
    *stories.ROUTES,
    *faults.ROUTES,
)


class Place(NamedTuple):
    """The routes of a path by method, and the values of its named segments."""

    routes: Mapping[str, Route]
    named: Mapping[str, str]


class Table:
    def __init__(self, routes: tuple[Route, ...]) -> None:
        self._paths: dict[tuple[str, ...], dict[str, Route]] = {}
        for route in routes:
            methods = self._paths.setdefault(tuple(route.path.split("/")[1:]), {})
            assert route.method not in methods, f"{route.method} {route.path} is in the table twice"
            methods[route.method] = route
        self._by_length: dict[int, list[tuple[str, ...]]] = {}
        fixed_first = sorted(self._paths, key=lambda path: [part.startswith("{") for part in path])
        for pattern in fixed_first:
            self._by_length.setdefault(len(pattern), []).append(pattern)

    def find(self, path: str) -> Place | None:
        """Return the routes of a path below the base."""
        segments = path.split("/")[1:]
        for pattern in self._by_length.get(len(segments), ()):
            pairs = list(zip(pattern, segments, strict=True))
            if all(part.startswith("{") or part == segment for part, segment in pairs):
                named = {part[1:-1]: unquote_segment(segment) for part, segment in pairs if part.startswith("{")}
                return Place(self._paths[pattern], named)
        return None

"""Snapshots of whole projects over the admin API: taken, listed, restored and deleted."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from penstock.doors.http.admin.calls import Call, project_name, route
from penstock.doors.http.admin.instants import instant, made_at
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count
from penstock.services import project_snapshots as service
from penstock.services.project_snapshots import LISTED_MAX, ProjectSnapshots, RestoreOutcome, check_new_name


class NewProjectSnapshot(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Restore(msgspec.Struct, forbid_unknown_fields=True):
    dry_run: bool = False


class Kept(msgspec.Struct):
    name: str
    topic: str
    kept: bool
    reason: str


class ProjectSnapshot(msgspec.Struct):
    """A snapshot of a project. It expires with the first of the subscription snapshots in it."""

    name: str
    project: str
    created_at: datetime
    expires_at: datetime | None
    topics: Count
    subscriptions: Count
    without: Annotated[
        list[Kept], msgspec.Meta(description="Subscriptions that the snapshot does not hold, and why; the first 100.")
    ]


class ProjectSnapshotPage(msgspec.Struct):
    snapshots: list[ProjectSnapshot]
    next_page_token: str
    total: Count


class RestoreRecord(msgspec.Struct):
    restored: Count
    made_again: Count
    missing: Count
    subscriptions: list[RestoreOutcome]
    untouched: Annotated[
        list[str], msgspec.Meta(description="Subscriptions created after the snapshot; the first 100.")
    ]


async def create_project_snapshot(call: Call[Any, NewProjectSnapshot]) -> ProjectSnapshot:
    return _record(await _service(call).create(_project(call), check_new_name(call.body.name)))


async def restore_project_snapshot(call: Call[Any, Restore]) -> RestoreRecord:
    restored = await _service(call).restore(_project(call), _name(call), dry_run=call.body.dry_run)
    return RestoreRecord(
        restored.count(service.RESTORED),
        restored.count(service.MADE_AGAIN),
        restored.count(service.MISSING),
        list(restored.outcomes),
        list(restored.untouched[:LISTED_MAX]),
    )


async def list_project_snapshots(call: Call[Paging, None]) -> ProjectSnapshotPage:
    project, snapshots = _project(call), _service(call)
    page = page_of(await snapshots.names(project), call.query)
    records = [_record(snapshot) for snapshot in await snapshots.show(project, page.items)]
    return ProjectSnapshotPage(records, page.next_page_token, page.total)


async def show_project_snapshot(call: Call[Any, None]) -> ProjectSnapshot:
    return _record((await _service(call).show(_project(call), [_name(call)]))[0])


async def delete_project_snapshot(call: Call[Any, None]) -> None:
    await _service(call).delete(_project(call), _name(call))


def _service(call: Call[Any, Any]) -> ProjectSnapshots:
    return ProjectSnapshots(call.queue)


def _project(call: Call[Any, Any]) -> str:
    return project_name(call.path["project"])


def _name(call: Call[Any, Any]) -> str:
    return call.path["name"]


def _record(snapshot: service.ProjectSnapshot) -> ProjectSnapshot:
    return ProjectSnapshot(
        snapshot.name,
        snapshot.project,
        made_at(snapshot.at),
        instant(snapshot.expires_at),
        snapshot.topics,
        snapshot.subscriptions,
        [Kept(missing.name, missing.topic, False, missing.reason) for missing in snapshot.missing[:LISTED_MAX]],
    )


_PATH = "/projects/{project}/snapshots"

ROUTES = (
    route("GET", _PATH, list_project_snapshots, "List the snapshots of a project."),
    route(
        "POST",
        _PATH,
        create_project_snapshot,
        "Take a snapshot of the unacked messages of every subscription in a project.",
        status=201,
    ),
    route("GET", _PATH + "/{name}", show_project_snapshot, "Get a snapshot of a project."),
    route("DELETE", _PATH + "/{name}", delete_project_snapshot, "Delete a snapshot of a project."),
    route(
        "POST",
        _PATH + "/{name}/restore",
        restore_project_snapshot,
        "Restore the subscriptions of a project from a snapshot.",
    ),
)

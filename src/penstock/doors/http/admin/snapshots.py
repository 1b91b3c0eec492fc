"""Snapshots over the admin API: the unacked messages of a subscription at an instant, to seek back to."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import msgspec

from penstock.broker.limits import check_labels
from penstock.doors.http.admin.calls import Call, Context, Project, route
from penstock.doors.http.admin.instants import made_at
from penstock.doors.http.admin.options import Labels
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Now
from penstock.doors.http.admin.topics import Search
from penstock.doors.resources import SNAPSHOTS, check_new_name, parts_of
from penstock.engine.port import SnapshotDump
from penstock.errors import NotFoundError


class Snapshot(msgspec.Struct):
    name: str
    project: str
    id: str
    topic: str
    created_at: datetime
    expires_at: datetime
    first_unacked: int
    labels: dict[str, str]
    now: Now


class SnapshotQuery(Paging, forbid_unknown_fields=True):
    project: str = ""
    search: Search = ""


class SnapshotPage(msgspec.Struct):
    snapshots: list[Snapshot]
    next_page_token: str
    total: int


class NewSnapshot(msgspec.Struct, forbid_unknown_fields=True):
    name: str
    subscription: str
    project: str = ""
    labels: Labels = {}


async def list_snapshots(call: Call[SnapshotQuery, None]) -> SnapshotPage:
    query = call.query

    def is_wanted(one: SnapshotDump) -> bool:
        return query.search in one.name and query.project in ("", parts_of(one.name, SNAPSHOTS)[0])

    snapshots = await call.context.listing.filter(is_wanted, await call.queue.snapshots())
    page = page_of(snapshots, query, lambda snapshot: snapshot.name)
    return SnapshotPage([_record(call.context, snapshot) for snapshot in page.items], page.next_page_token, page.total)


async def create_snapshot(call: Call[Any, NewSnapshot]) -> Snapshot:
    body = call.body
    check_labels(body.labels)
    name, subscription = check_new_name(call.snapshot(body.name), SNAPSHOTS), call.subscription(body.subscription)
    return _record(call.context, await call.queue.create_snapshot(name, subscription, body.labels))


async def show_snapshot(call: Call[Project, None]) -> Snapshot:
    name = call.snapshot()
    for snapshot in await call.queue.snapshots():
        if snapshot.name == name:
            return _record(call.context, snapshot)
    raise NotFoundError(f"Snapshot not found: {name}")


async def delete_snapshot(call: Call[Project, None]) -> None:
    await call.queue.delete_snapshot(call.snapshot())


def _record(context: Context, one: SnapshotDump) -> Snapshot:
    project, last = parts_of(one.name, SNAPSHOTS)
    return Snapshot(
        name=one.name,
        project=project,
        id=last,
        topic=one.topic_name,
        created_at=made_at(one.at),
        expires_at=made_at(one.expires_at),
        first_unacked=one.cursor,
        labels=one.labels,
        now=made_at(context.queue.clock_of(one.topic_name).now()),
    )


ROUTES = (
    route("GET", "/snapshots", list_snapshots, "List snapshots."),
    route(
        "POST", "/snapshots", create_snapshot, "Take a snapshot of the unacked messages of a subscription.", status=201
    ),
    route("GET", "/snapshots/{snapshot}", show_snapshot, "Get a snapshot."),
    route("DELETE", "/snapshots/{snapshot}", delete_snapshot, "Delete a snapshot."),
)

"""Projects over the admin API: listed with counts, and deleted."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from penstock.doors.http.admin.calls import Call, Context, project_name, route
from penstock.doors.http.admin.listing import CHUNK_NAMES
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count
from penstock.doors.resources import SUBSCRIPTIONS, TOPICS, parts_of
from penstock.engine.port import Kind
from penstock.names import prefix
from penstock.services import projects

KINDS: tuple[Kind, Kind] = (TOPICS, SUBSCRIPTIONS)
LAST_CHARACTER = "\U0010ffff"


class ProjectRecord(msgspec.Struct):
    project: str
    topics: Count = 0
    subscriptions: Count = 0
    backlog_messages: Count = 0


class ProjectPage(msgspec.Struct):
    projects: list[ProjectRecord]
    next_page_token: str
    total: int


async def list_projects(call: Call[Paging, None]) -> ProjectPage:
    """Return all projects that have topics or subscriptions, and the default project."""
    context = call.context
    projects = {context.default_project} | await _projects(context, TOPICS) | await _projects(context, SUBSCRIPTIONS)
    page = page_of(projects, call.query)
    records = [await _record(context, project) for project in page.items]
    return ProjectPage(records, page.next_page_token, page.total)


async def _projects(context: Context, kind: Kind) -> set[str]:
    """Return the projects of all names, with one lookup for each project."""
    projects, after = set[str](), ""
    while True:
        async with context.listing:
            while not context.listing.is_over:
                names = (await context.queue.names(kind, "", after, 1)).names
                if not names:
                    return projects
                project = parts_of(names[0], kind)[0]
                projects.add(project)
                after = f"{prefix(project, kind)}{LAST_CHARACTER}" if project else names[0]


async def _record(context: Context, project: str) -> ProjectRecord:
    queue = context.queue
    if not project:  # names outside any project
        return await _record_of_others(context)
    topics = (await queue.names(TOPICS, prefix(project, TOPICS), most=1)).total
    names = (await queue.names(SUBSCRIPTIONS, prefix(project, SUBSCRIPTIONS))).names
    return ProjectRecord(project, topics, len(names), await _count_backlog(context, names))


async def _record_of_others(context: Context) -> ProjectRecord:
    names = {kind: (await context.queue.names(kind)).names for kind in KINDS}
    topics, subscriptions = [
        await context.listing.filter(lambda name, kind=kind: not parts_of(name, kind)[0], names[kind])  # type: ignore[misc]
        for kind in KINDS
    ]
    return ProjectRecord("", len(topics), len(subscriptions), await _count_backlog(context, subscriptions))


async def _count_backlog(context: Context, subscriptions: Sequence[str]) -> int:
    async def work(chunk: Sequence[str]) -> list[int]:
        return list((await context.queue.backlog_messages(chunk)).values())

    return sum(await context.listing.map_chunks(work, subscriptions, CHUNK_NAMES))


async def delete_project(call: Call[Any, None]) -> None:
    call.check_testing()
    await projects.delete_project(call.queue, call.services.time, project_name(call.path["project"]))


ROUTES = (
    route(
        "GET",
        "/projects",
        list_projects,
        "List the projects with the number of topics, subscriptions and unacked messages.",
    ),
    route(
        "DELETE",
        "/projects/{project}",
        delete_project,
        "Delete a project with its topics, subscriptions, snapshots and clock.",
    ),
)

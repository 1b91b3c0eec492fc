"""Projects: what names live in, with how much there is of each."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec

from penstock.doors.http.admin.calls import Call, Route, project_name
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count
from penstock.doors.resources import SUBSCRIPTIONS, TOPICS, parts_of, project_of


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
    """Every project that has something in it, and the server's own."""
    found = {call.context.default_project: ProjectRecord(call.context.default_project)}

    def of(name: str, kind: str = TOPICS) -> ProjectRecord:
        project = parts_of(name, kind)[0]
        return found.setdefault(project, ProjectRecord(project))

    for topic in await call.queue.topics():
        of(topic.name).topics += 1
    names = [each.name for each in await call.queue.subscriptions()]
    for counted in await call.queue.subscription_statistics(names):
        record = of(counted.subscription, SUBSCRIPTIONS)
        record.subscriptions += 1
        record.backlog_messages += counted.backlog_messages
    page = page_of(found.values(), call.query, lambda each: each.project)
    return ProjectPage(*page)


async def delete_project(call: Call[Any, None]) -> None:
    """Its topics, subscriptions and snapshots with all messages, and its clock; schemas and accounts stay."""
    call.check_testing()
    project, queue = project_name(call.path["project"]), call.queue
    subscriptions = [each.name for each in await queue.subscriptions() if project_of(each.name) == project]
    snapshots = [each.name for each in await queue.snapshots() if project_of(each.name) == project]
    topics = [each.name for each in await queue.topics() if project_of(each.name) == project]
    await asyncio.gather(  # all are decided before any is waited for
        *[queue.delete_subscription(name) for name in subscriptions],
        *[queue.delete_snapshot(name) for name in snapshots],
        *[queue.delete_topic(name) for name in topics],
    )
    await queue.time.forget(project)


ROUTES = (
    Route("GET", "/projects", list_projects, "Projects.", ProjectPage, Paging),
    Route("DELETE", "/projects/{project}", delete_project, "All that is in a project."),
)

"""Projects as wholes: deleted with everything in them."""

from __future__ import annotations

import asyncio

from penstock.engine.port import Queue
from penstock.names import project_of
from penstock.services.time_travel.time_travel import TimeTravel


async def delete_project(queue: Queue, time: TimeTravel, project: str) -> None:
    """Delete the topics, subscriptions and snapshots of a project, and its clock. Schemas and accounts stay."""
    subscriptions = [each.name for each in await queue.subscriptions() if project_of(each.name) == project]
    snapshots = [each.name for each in await queue.snapshots() if project_of(each.name) == project]
    topics = [each.name for each in await queue.topics() if project_of(each.name) == project]
    await asyncio.gather(  # all deletes are decided before any is awaited
        *map(queue.delete_subscription, subscriptions),
        *map(queue.delete_snapshot, snapshots),
        *map(queue.delete_topic, topics),
    )
    await time.forget(project)

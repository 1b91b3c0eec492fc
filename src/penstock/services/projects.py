"""The deletion of a project with everything in it."""

from __future__ import annotations

import asyncio

from penstock.engine.port import Queue
from penstock.names import project_of
from penstock.services.time_travel.time_travel import TimeTravel


async def delete_project(queue: Queue, time: TimeTravel, project: str) -> None:
    """Delete the topics, subscriptions and snapshots of a project, and its clock. Schemas and accounts stay."""
    subscriptions = [reader.name for reader in await queue.subscriptions() if project_of(reader.name) == project]
    snapshots = [snapshot.name for snapshot in await queue.snapshots() if project_of(snapshot.name) == project]
    topics = [topic.name for topic in await queue.topics() if project_of(topic.name) == project]
    await asyncio.gather(  # all deletes are decided before any is awaited
        *map(queue.delete_subscription, subscriptions),
        *map(queue.delete_snapshot, snapshots),
        *map(queue.delete_topic, topics),
    )
    await time.forget(project)

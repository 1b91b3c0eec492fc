"""What happened to the messages of a project, as lines for people."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.admin.client import Client, path_of
from penstock.testing.messages import message_of, stamp

if TYPE_CHECKING:
    from penstock.testing.project import Project

STORIES_MAX = 50  # messages of a topic whose story is told


def story_of(project: Project) -> Iterator[str]:
    yield f"Project {project.name} at {project.clock.now:%Y-%m-%d %H:%M:%S} UTC"
    topics, subscriptions = list(project.topics()), list(project.subscriptions())
    for topic in topics:
        yield f"  topic {topic['id']}: {topic['next_offset']} published, {topic['messages']} kept"
        yield from _messages(project.server.admin, topic["name"])
    for each in subscriptions:
        waiting, leased = each["backlog_messages"], each["in_flight_messages"]
        yield f"  subscription {each['id']}: {waiting} not acked, {leased} of them with a consumer"
    if not topics and not subscriptions:
        yield "  nothing is in it"


def _messages(admin: Client, topic: str) -> Iterator[str]:
    page = admin.get(path_of("topics", topic, "messages"), **{"from": -STORIES_MAX, "max": STORIES_MAX})
    first = page["messages"][0]["offset"] if page["messages"] else 0
    told = admin.get(path_of("topics", topic, "stories"), **{"from": first, "max": STORIES_MAX})
    stories = {each["offset"]: each["events"] for each in told["stories"]}
    for record in page["messages"]:
        yield f"    {message_of(record)}"
        yield from (
            f"      {stamp(each['at'])} {each['sentence']}" for each in _told(stories.get(record["offset"], []))
        )


def _told(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Of a lease that is extended again and again the last extension is enough."""
    for event, following in zip(events, [*events[1:], None], strict=True):
        if following is None or event["kind"] != "extended" or following["kind"] != "extended":
            yield event

"""The stories of a project's messages, as lines of text."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from penstock.admin.client import Client, path_of
from penstock.testing.messages import message_of, stamp

if TYPE_CHECKING:
    from penstock.testing.project import Project

STORIES_MAX = 50  # maximum messages of a topic


def story_of(project: Project) -> Iterator[str]:
    yield f"Project {project.name} at {project.clock.now:%Y-%m-%d %H:%M:%S} UTC"
    topics, subscriptions = list(project.topics()), list(project.subscriptions())
    for topic in topics:
        yield f"  topic {topic['id']}: {topic['next_offset']} published, {topic['messages']} kept"
        yield from _messages(project.server.admin, topic["name"])
    for subscription in subscriptions:
        unacked, leased = subscription["backlog_messages"], subscription["in_flight_messages"]
        yield f"  subscription {subscription['id']}: {unacked} unacked, {leased} of them leased"
    if not topics and not subscriptions:
        yield "  no topics or subscriptions"


def _messages(admin: Client, topic: str) -> Iterator[str]:
    page = admin.get(path_of("topics", topic, "messages"), **{"from": -STORIES_MAX, "max": STORIES_MAX})
    first = page["messages"][0]["offset"] if page["messages"] else 0
    answer = admin.get(path_of("topics", topic, "stories"), **{"from": first, "max": STORIES_MAX})
    stories = {story["offset"]: story["events"] for story in answer["stories"]}
    for record in page["messages"]:
        yield f"    {message_of(record)}"
        events = _skip_repeated_extensions(stories.get(record["offset"], []))
        yield from (f"      {stamp(event['at'])} {event['sentence']}" for event in events)


def _skip_repeated_extensions(events: list[dict[str, Any]]) -> Iterator[dict[str, Any]]:
    """Yield the events, with only the last of consecutive lease extensions."""
    for event, following in zip(events, [*events[1:], None], strict=True):
        if following is None or event["kind"] != "extended" or following["kind"] != "extended":
            yield event

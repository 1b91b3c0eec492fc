"""Stories of messages over the admin API: each event as a record with a sentence."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from penstock.broker.model import FOREVER
from penstock.broker.names import MAX_OFFSET
from penstock.doors.http.admin.calls import Call, Project, route
from penstock.doors.http.admin.instants import instant, made_at
from penstock.doors.http.admin.records import Count
from penstock.doors.http.admin.topics import topic_of
from penstock.errors import InvalidArgumentError
from penstock.names import PROTOCOLS, SUBSCRIPTIONS, parts_of
from penstock.services.stories import Event

MESSAGES_MAX = 1000

_SENTENCES = {
    "published": "Published{origin}.",
    "moved": "Moved{away} to {other}.",
    "delivered": "Delivered to {name}{protocol}.{deadline}",
    "acked": "Acked by {name}.",
    "returned": "Returned by a consumer of {name}.{again}",
    "unseen": "Returned by {name} before a program received it.",
    "lapsed": "The ack deadline in {name} expired.{again}",
    "extended": "The ack deadline in {name} was extended.{deadline}",
    "delayed": "Delayed in {name}.{again}",
    "held": "Waits in {name} for an earlier message with its ordering key.",
    "dead-letter": "Moved by {name} to its dead letter topic {other}.",
    "skipped": "Counts as acked in {name}, which was purged or moved past it by a seek.",
    "sought": "Will be delivered again by {name}, which was moved back before it by a seek.",
    "expired": "Expired in {name}: its time to live ended.",
    "retention": "Dropped by {name}: the retention time of the subscription ended.",
}


class StoryEvent(msgspec.Struct):
    at: datetime
    kind: str
    subscription: str | None
    door: str | None
    sentence: str
    other: Annotated[
        str | None,
        msgspec.Meta(description="The topic it was moved to. For a publish by a move: where the message came from."),
    ] = None


Complete = Annotated[bool, msgspec.Meta(description="True if the story begins with the publish of the message.")]


class StoryRecord(msgspec.Struct):
    """The story of one message. `sentence` says since when events are kept."""

    events: list[StoryEvent]
    complete: Complete
    known_since: datetime
    sentence: str


class StoriesQuery(msgspec.Struct, forbid_unknown_fields=True):
    project: str = ""
    start: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET, description="The first offset.")] = msgspec.field(
        default=0, name="from"
    )
    max: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX, description="Maximum number of messages.")] = 100


class OffsetStory(msgspec.Struct):
    offset: Count
    id: str
    events: list[StoryEvent]
    complete: Complete


class StoriesPage(msgspec.Struct):
    """Stories of consecutive messages. `next_offset` is `from` of the next page. `complete`: this page is the last."""

    stories: list[OffsetStory]
    next_offset: Count
    complete: bool


async def show_story(call: Call[Project, None]) -> StoryRecord:
    text = call.path["offset"]
    if not (text.isascii() and text.isdigit() and len(text) < 20):
        raise InvalidArgumentError("The offset must be a whole number")
    offset = int(text)
    topic = await topic_of(call)
    story = call.services.stories.of(topic.name, offset, offset + 1)
    since = made_at(story.known_since)
    sentence = f"Events before {since:%Y-%m-%d %H:%M:%S} UTC are not kept."
    events = [_event(event) for event in story.events[offset]]
    return StoryRecord(events, story.is_complete(offset), since, sentence)


async def list_stories(call: Call[StoriesQuery, None]) -> StoriesPage:
    topic = await topic_of(call)
    first = min(call.query.start, topic.tail)
    until = min(first + call.query.max, topic.tail)
    story = call.services.stories.of(topic.name, first, until)
    stories = [
        OffsetStory(offset, str(topic.first_id + offset), list(map(_event, events)), story.is_complete(offset))
        for offset, events in story.events.items()
    ]
    return StoriesPage(stories, until, until == topic.tail)


def _event(event: Event) -> StoryEvent:
    at, until, name = made_at(event.at), instant(event.until), parts_of(event.subscription, SUBSCRIPTIONS)[1]
    other = event.other.rpartition("/")[2]
    clock = _clock(until, at) if until is not None and event.until < FOREVER else ""
    sentence = _SENTENCES[event.kind].format(
        name=name,
        protocol=f" ({PROTOCOLS.get(event.door, event.door)})" if event.door else "",
        deadline=f" Ack deadline {clock} UTC." if clock else "",
        again=f" Next delivery from {clock} UTC on." if clock else "",
        origin=f", moved here from {other}" if other else "",
        away=f" from {name}" if name else "",
        other=other or "a deleted topic",
    )
    return StoryEvent(at, event.kind, event.subscription or None, event.door, sentence, event.other or None)


def _clock(until: datetime, at: datetime) -> str:
    """Return the time of day, with the date if it is not the date of the event."""
    return f"{until:%H:%M:%S}" if until.date() == at.date() else f"{until:%Y-%m-%d %H:%M:%S}"


ROUTES = (
    route(
        "GET",
        "/topics/{topic}/stories",
        list_stories,
        "List the stories of consecutive messages: published, delivered, returned, acked and so on.",
    ),
    route(
        "GET",
        "/topics/{topic}/messages/{offset}/story",
        show_story,
        "Get the story of a message: published, delivered, returned, acked and so on.",
    ),
)

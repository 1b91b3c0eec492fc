"""The stories of messages: published, delivered through which door, returned, acked, dead-lettered."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from penstock.broker.model import FOREVER
from penstock.broker.names import MAX_OFFSET
from penstock.doors.http.admin.calls import Call, Project, Route
from penstock.doors.http.admin.records import Count, instant, made_at
from penstock.doors.http.admin.topics import topic_of
from penstock.doors.resources import SUBSCRIPTIONS, parts_of
from penstock.engine.port import Happening
from penstock.errors import InvalidArgumentError

MESSAGES_MAX = 1000

_SENTENCES = {
    "published": "Published{origin}.",
    "moved": "Moved{away} to {other}.",
    "delivered": "Delivered to {name}{through}{until}.",
    "acked": "Acked by {name}.",
    "returned": "Returned by a consumer of {name}{again}.",
    "unseen": "Handed back by {name} before any program saw it.",
    "lapsed": "Its lease in {name} ran out{again}.",
    "extended": "Its lease in {name} was extended{until}.",
    "delayed": "Waits in {name}{again}.",
    "held": "Waits in {name} for an earlier message of its key.",
    "dead-letter": "Moved by {name} to {other}, its dead letter topic.",
    "skipped": "Counts as acked in {name}, which was purged or set to a place behind it.",
    "sought": "To be delivered anew from {name}, which was set to a place before it.",
    "expired": "Its time to live ended in {name}.",
    "retention": "Given up by {name}: it was kept for as long as the subscription keeps messages.",
}


class StoryEvent(msgspec.Struct):
    at: datetime
    kind: str
    subscription: str | None
    door: str | None
    sentence: str
    other: Annotated[
        str | None,
        msgspec.Meta(description="The topic that a moved message went to; of a published one, what it was moved from."),
    ] = None


Complete = Annotated[
    bool, msgspec.Meta(description="It begins with its publish, and subscriptions that are there are told of in full.")
]


class StoryRecord(msgspec.Struct):
    """`sentence`: how far back the server knows."""

    events: list[StoryEvent]
    complete: Complete
    known_since: datetime
    sentence: str


class StoriesQuery(msgspec.Struct, forbid_unknown_fields=True):
    project: str = ""
    start: Annotated[int, msgspec.Meta(ge=0, le=MAX_OFFSET, description="The first offset.")] = msgspec.field(
        default=0, name="from"
    )
    max: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX)] = 100


class OffsetStory(msgspec.Struct):
    offset: Count
    id: str
    events: list[StoryEvent]
    complete: Complete


class StoriesPage(msgspec.Struct):
    """`next_offset`: where to go on, as `from`; `complete`: there is nothing there yet."""

    stories: list[OffsetStory]
    next_offset: Count
    complete: bool


async def show_story(call: Call[Project, None]) -> StoryRecord:
    given = call.path["offset"]
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        raise InvalidArgumentError("An offset is a whole number")
    offset = int(given)
    story = await call.queue.story(call.topic(), offset, offset + 1)
    since = made_at(story.known_since)
    sentence = f"Known since {since:%Y-%m-%d %H:%M:%S} UTC; what was before is not kept."
    events = [_event(each) for each in story.happenings[offset]]
    return StoryRecord(events, _complete(story.happenings[offset]), since, sentence)


async def list_stories(call: Call[StoriesQuery, None]) -> StoriesPage:
    topic = await topic_of(call)
    first = min(call.query.start, topic.tail)
    until = min(first + call.query.max, topic.tail)
    story = await call.queue.story(topic.name, first, until)
    told = [
        OffsetStory(offset, str(topic.first_id + offset), [_event(each) for each in happenings], _complete(happenings))
        for offset, happenings in story.happenings.items()
    ]
    return StoriesPage(told, until, until == topic.tail)


def _complete(happenings: list[Happening]) -> bool:
    """What is forgotten is forgotten from the oldest on."""
    return bool(happenings) and happenings[0].kind == "published"


def _event(each: Happening) -> StoryEvent:
    at, until, name = made_at(each.at), instant(each.until), parts_of(each.subscription, SUBSCRIPTIONS)[1]
    other = each.other.rpartition("/")[2]
    clock = _clock(until, at) if until is not None and each.until < FOREVER else ""
    sentence = _SENTENCES[each.kind].format(
        name=name,
        through=f" through the {each.door} door" if each.door else "",
        until=f", until {clock} UTC" if clock else "",
        again=f", to be delivered again from {clock} UTC on" if clock else "",
        origin=f", moved here from {other}" if other else "",
        away=f" from {name}" if name else "",
        other=other or "a topic that is gone",
    )
    return StoryEvent(at, each.kind, each.subscription or None, each.door, sentence, each.other or None)


def _clock(until: datetime, at: datetime) -> str:
    """With its day where that is another one."""
    return f"{until:%H:%M:%S}" if until.date() == at.date() else f"{until:%Y-%m-%d %H:%M:%S}"


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/stories",
        list_stories,
        "What happened to the messages of a topic, as far as the server still knows.",
        StoriesPage,
        StoriesQuery,
    ),
    Route(
        "GET",
        "/topics/{topic}/messages/{offset}/story",
        show_story,
        "What happened to a message, as far as the server still knows.",
        StoryRecord,
        Project,
    ),
)

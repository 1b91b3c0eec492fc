"""The story of one message: published, delivered through which door, returned, acked, dead-lettered."""

from __future__ import annotations

from datetime import datetime

import msgspec

from penstock.broker.model import FOREVER
from penstock.doors.http.admin.calls import Call, Project, Route
from penstock.doors.http.admin.records import instant, made_at
from penstock.doors.resources import SUBSCRIPTIONS, parts_of
from penstock.engine.port import Happening
from penstock.errors import InvalidArgumentError

_SENTENCES = {
    "published": "Published.",
    "delivered": "Delivered to {name}{through}{until}.",
    "acked": "Acked by {name}.",
    "returned": "Returned by a consumer of {name}{again}.",
    "unseen": "Handed back by {name} before any program saw it.",
    "lapsed": "Its lease in {name} ran out{again}.",
    "extended": "Its lease in {name} was extended{until}.",
    "delayed": "Waits in {name}{again}.",
    "held": "Waits in {name} for an earlier message of its key.",
    "dead-letter": "Moved by {name} to its dead letter topic.",
    "expired": "Its time to live ended in {name}.",
    "retention": "Given up by {name}: it was kept for as long as the subscription keeps messages.",
}


class StoryEvent(msgspec.Struct):
    at: datetime
    kind: str
    subscription: str | None
    door: str | None
    sentence: str


class StoryRecord(msgspec.Struct):
    """`sentence`: how far back the server knows."""

    events: list[StoryEvent]
    known_since: datetime
    sentence: str


async def show_story(call: Call[Project, None]) -> StoryRecord:
    given = call.path["offset"]
    if not (given.isascii() and given.isdigit() and len(given) < 20):
        raise InvalidArgumentError("An offset is a whole number")
    story = await call.queue.story(call.topic(), int(given))
    since = made_at(story.known_since)
    sentence = f"Known since {since:%Y-%m-%d %H:%M:%S} UTC; what was before is not kept."
    return StoryRecord([_event(each) for each in story.happenings], since, sentence)


def _event(each: Happening) -> StoryEvent:
    until, name = instant(each.until), parts_of(each.subscription, SUBSCRIPTIONS)[1]
    clock = f"{until:%H:%M:%S}" if until is not None and each.until < FOREVER else ""
    sentence = _SENTENCES[each.kind].format(
        name=name,
        through=f" through the {each.door} door" if each.door else "",
        until=f", until {clock} UTC" if clock else "",
        again=f", to be delivered again from {clock} UTC on" if clock else "",
    )
    return StoryEvent(made_at(each.at), each.kind, each.subscription or None, each.door, sentence)


ROUTES = (
    Route(
        "GET",
        "/topics/{topic}/messages/{offset}/story",
        show_story,
        "What happened to a message, as far as the server still knows.",
        StoryRecord,
        Project,
    ),
)

"""Records of the admin API that several nouns share, and the record of a topic."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from penstock.broker import model
from penstock.broker.counts import TOPIC_COUNTERS
from penstock.doors.http.admin.counters import with_counters
from penstock.doors.http.admin.options import with_options

Count = Annotated[int, msgspec.Meta(ge=0)]
Counts = dict[str, int]
Now = Annotated[datetime, msgspec.Meta(description="The time of the project, or the server's if it shares its clock.")]


class Names(msgspec.Struct):
    """Name of a topic for the clients of each protocol. null: they cannot use it."""

    pubsub: str | None
    azure: str | None
    text: str | None
    python: str | None
    spark: str | None


class TopicIdentity(msgspec.Struct):
    name: str
    project: str
    id: str
    created_at: datetime


class TopicSize(with_options(TopicIdentity, model.TopicOptions), kw_only=True):  # type: ignore[misc, call-arg]
    schema: str
    first_offset: Count
    next_offset: Count
    messages: Count
    bytes: Count
    subscriptions: Count


class Topic(with_counters(TopicSize, TOPIC_COUNTERS), kw_only=True):  # type: ignore[misc, call-arg]
    dropped: Counts
    last_published_at: datetime | None
    now: Now
    names: Names
    recent: list[float] | msgspec.UnsetType = msgspec.UNSET

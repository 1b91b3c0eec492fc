"""The backlog of a subscription over the admin API, and the wait until it is empty."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Literal

import msgspec

from penstock.doors.http.admin.calls import Call, route
from penstock.doors.http.admin.instants import instant
from penstock.doors.http.admin.message_records import BodyQuery, Message, records_of
from penstock.doors.http.admin.records import Count
from penstock.doors.http.admin.subscriptions import subscription_of
from penstock.engine.port import Unsettled
from penstock.services.backlogs import Backlogs

MESSAGES_MAX = 1000
WAIT_SECONDS_MAX = 60


class BacklogQuery(BodyQuery, forbid_unknown_fields=True):
    max: Annotated[int, msgspec.Meta(ge=1, le=MESSAGES_MAX, description="Maximum number of messages.")] = 100
    wait_seconds: Annotated[
        float,
        msgspec.Meta(
            ge=0, le=WAIT_SECONDS_MAX, description="Answer when the backlog is empty, or after this many seconds."
        ),
    ] = 0
    leased: Annotated[bool, msgspec.Meta(description="Also list messages that consumers have.")] = True


class UnsettledRecord(msgspec.Struct):
    """A message of a backlog. `stage` is one of:

    unread: never delivered. held: waits for an earlier message with its ordering key. waiting: can be delivered from
    `until` on. leased: with a consumer until `until`, or as long as the consumer stays connected if `until` is null.
    """

    message: Message
    stage: Literal["unread", "held", "waiting", "leased"]
    until: datetime | None
    attempts: Count
    door: str | None
    holder: str | None


class BacklogPage(msgspec.Struct):
    """The first messages of a backlog, by offset. If `complete` is false, there may be more messages."""

    messages: list[UnsettledRecord]
    complete: bool


async def show_backlog(call: Call[BacklogQuery, None]) -> BacklogPage:
    subscription = await subscription_of(call)
    topic = None if subscription.detached else await call.queue.find_topic(subscription.topic)
    if topic is None:  # nothing is delivered from a detached subscription
        return BacklogPage([], complete=True)
    backlogs = Backlogs(call.queue, subscription, topic, call.context.listing, leased=call.query.leased)
    backlog = await call.run_while_connected(backlogs.list_when_empty(call.query.wait_seconds, call.query.max))
    messages = [message for _, message in backlog.unsettled]
    records = await records_of(call.context, topic, messages, call.query)
    pairs = zip(backlog.unsettled, records, strict=True)
    return BacklogPage([_record(unsettled, record) for (unsettled, _), record in pairs], backlog.complete)


def _record(unsettled: Unsettled, message: Message) -> UnsettledRecord:
    return UnsettledRecord(
        message, unsettled.stage, instant(unsettled.until), unsettled.attempts, unsettled.door, unsettled.holder
    )


ROUTES = (
    route(
        "GET",
        "/subscriptions/{subscription}/backlog",
        show_backlog,
        "List the messages of a subscription that are not acked, with the stage of each.",
    ),
)

"""The leases of a subscription over the admin API: message, deadline, protocol and consumer."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from penstock.doors.http.admin.calls import Call, route
from penstock.doors.http.admin.consumers import connected_consumers
from penstock.doors.http.admin.instants import instant
from penstock.doors.http.admin.paging import Paging
from penstock.doors.http.admin.records import Count
from penstock.engine.port import Lease
from penstock.errors import InvalidArgumentError, NotFoundError


class LeaseQuery(Paging, forbid_unknown_fields=True):
    project: str = ""


class LeaseRecord(msgspec.Struct):
    """A leased message. `deadline` is null if the lease lasts until the consumer disconnects. `door`, `holder` and
    `leased_at` are null if they are not known, as after a restart."""

    offset: Count
    id: str
    deadline: datetime | None
    attempts: Count
    extensions: Count
    door: str | None
    holder: str | None
    leased_at: datetime | None


class LeasePage(msgspec.Struct):
    leases: list[LeaseRecord]
    next_page_token: Annotated[str, msgspec.Meta(description="First offset of the next page.")]
    total: Count


async def list_leases(call: Call[LeaseQuery, None]) -> LeasePage:
    name, token = call.subscription(), call.query.page_token
    subscription = await call.queue.find_subscription(name)
    if subscription is None:
        raise NotFoundError(f"Subscription not found: {name}")
    if token and not (token.isascii() and token.isdigit() and len(token) < 20):
        raise InvalidArgumentError("This page_token is not one of this list")
    leases = await call.queue.leases(name, int(token or 0), call.query.page_size + 1)
    more = str(leases[call.query.page_size].offset) if len(leases) > call.query.page_size else ""
    total = (await call.queue.backlog(name)).in_flight_messages
    holders = {
        (door, place[0]): consumer.holder
        for door, consumer in connected_consumers(call.context, subscription)
        for place in consumer.held or ()
    }
    named = [lease._replace(holder=holders.get((lease.door or "", lease.offset), lease.holder)) for lease in leases]
    return LeasePage([_record(lease) for lease in named[: call.query.page_size]], more, total)


def _record(lease: Lease) -> LeaseRecord:
    leased_at = instant(lease.leased_at) if lease.leased_at is not None else None
    deadline = instant(lease.deadline)
    return LeaseRecord(
        lease.offset, lease.id, deadline, lease.attempts, lease.extensions, lease.door, lease.holder, leased_at
    )


ROUTES = (
    route(
        "GET",
        "/subscriptions/{subscription}/leases",
        list_leases,
        "List the messages that are leased, with their consumers.",
    ),
)

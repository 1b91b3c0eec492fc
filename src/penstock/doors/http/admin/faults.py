"""Fault rules over the admin API of a server for tests: added, removed, and listed with their hits."""

from __future__ import annotations

from datetime import datetime
from typing import Annotated

import msgspec

from penstock.doors.http.admin.calls import Call, NoQuery, route
from penstock.doors.http.admin.instants import instant, made_at
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count
from penstock.services.faults.faults import Fault, Hit
from penstock.services.faults.rules import Rule

WAIT_SECONDS_MAX = 60.0


class FaultQuery(Paging, forbid_unknown_fields=True):
    project: Annotated[str, msgspec.Meta(description="Only faults whose rule names this project.")] = ""


class OfProject(msgspec.Struct, forbid_unknown_fields=True):
    project: Annotated[str, msgspec.Meta(description="Only faults whose rule names this project.")] = ""


class HitsQuery(Paging, forbid_unknown_fields=True):
    at_least: Annotated[
        int, msgspec.Meta(ge=1, le=1_000_000, description="Answer when the fault has this many hits.")
    ] = 1
    wait_seconds: Annotated[
        float, msgspec.Meta(ge=0, le=WAIT_SECONDS_MAX, description="Wait at most this long for them.")
    ] = 0


class FaultRecord(msgspec.Struct):
    """A rule with its counters. `calls`: matching calls. `held`: calls that the fault is holding now."""

    id: str
    rule: Rule
    created_at: datetime
    calls: Count
    hits: Count
    held: Count
    last_hit_at: datetime | None


class FaultPage(msgspec.Struct):
    faults: list[FaultRecord]
    next_page_token: str
    total: Count


class HitRecord(msgspec.Struct):
    """A call that was hit. `call`: its number among the matching calls. `messages`: number of messages in the call."""

    number: Annotated[int, msgspec.Meta(ge=1, description="Number of the hit.")]
    call: Count
    at: datetime
    door: str
    verb: str
    resource: str
    messages: Count


class HitPage(msgspec.Struct):
    """The last 100 hits, oldest first. `total` counts all hits."""

    hits: list[HitRecord]
    next_page_token: str
    total: Count


class Removed(msgspec.Struct):
    removed: Count


async def list_faults(call: Call[FaultQuery, None]) -> FaultPage:
    page = page_of(call.faults.all(call.query.project), call.query, key=lambda fault: fault.number)
    return FaultPage([_record(fault) for fault in page.items], page.next_page_token, page.total)


async def add_fault(call: Call[NoQuery, Rule]) -> FaultRecord:
    return _record(call.faults.add(call.body))


async def show_fault(call: Call[NoQuery, None]) -> FaultRecord:
    return _record(call.faults.find(call.path["fault"]))


async def remove_fault(call: Call[NoQuery, None]) -> None:
    call.faults.remove(call.path["fault"])


async def remove_faults(call: Call[OfProject, None]) -> Removed:
    return Removed(call.faults.clear(call.query.project))


async def list_hits(call: Call[HitsQuery, None]) -> HitPage:
    fault = call.faults.find(call.path["fault"])
    if call.query.wait_seconds:
        await call.faults.wait(fault, call.query.at_least, call.query.wait_seconds)
    first = fault.hits - len(fault.last) + 1
    hits = [_hit(number, seen) for number, seen in enumerate(fault.last, first)]
    page = page_of(hits, call.query, key=lambda hit: hit.number)
    return HitPage(page.items, page.next_page_token, fault.hits)


def _record(fault: Fault) -> FaultRecord:
    last = instant(fault.last[-1].at) if fault.last else None
    return FaultRecord(fault.id, fault.rule, made_at(fault.created_at), fault.calls, fault.hits, fault.held, last)


def _hit(number: int, hit: Hit) -> HitRecord:
    return HitRecord(number, hit.call, made_at(hit.at), hit.door, hit.verb, hit.resource, hit.messages)


ROUTES = (
    route("GET", "/faults", list_faults, "List the faults in force."),
    route("POST", "/faults", add_fault, "Add a fault.", status=201),
    route("DELETE", "/faults", remove_faults, "Remove all faults, or those of a project."),
    route("GET", "/faults/{fault}", show_fault, "Get a fault."),
    route("DELETE", "/faults/{fault}", remove_fault, "Remove a fault. Calls that it holds continue."),
    route("GET", "/faults/{fault}/hits", list_hits, "List the last hits of a fault, or wait for hits."),
)

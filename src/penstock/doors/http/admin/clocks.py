"""The clock of a project over the admin API: shown, frozen, advanced and released. Other projects are not affected.

Only a server started for tests allows changes: messages dropped by retention do not come back.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from penstock.broker.model import SECOND
from penstock.doors.http.admin.calls import Call, project_name, route
from penstock.doors.http.admin.instants import instant, made_at, parse_instant
from penstock.errors import InvalidArgumentError
from penstock.services.time_travel.time_travel import Pace, Time

ADVANCE_SECONDS_MAX = 10 * 366 * 86400  # ten years
PATIENCE_SECONDS_MAX = 60

Advance = Annotated[float, msgspec.Meta(ge=0, le=ADVANCE_SECONDS_MAX)]
Patience = Annotated[float, msgspec.Meta(ge=0, le=PATIENCE_SECONDS_MAX)]
Extension = Annotated[float, msgspec.Meta(ge=0, le=ADVANCE_SECONDS_MAX)]


class ClockRecord(msgspec.Struct):
    """The clock of a project. `mode`: shared (the server's clock), frozen, running or automatic."""

    project: str
    now: datetime
    mode: str
    ahead_seconds: Annotated[
        float, msgspec.Meta(description="Seconds ahead of the server's clock. Negative means behind.")
    ]
    next_due: Annotated[datetime | None, msgspec.Meta(description="The next instant that a client waits for.")]


class Move(msgspec.Struct, forbid_unknown_fields=True):
    """How the clock is moved."""

    patience_seconds: Annotated[
        Patience, msgspec.Meta(description="Real seconds that clients have to ack the messages of one instant.")
    ] = Pace().patience_seconds
    extension_seconds: Annotated[
        Extension, msgspec.Meta(description="Seconds by which the leases of open streams are extended. 0: they expire.")
    ] = Pace().extension_seconds


class FreezeBody(Move, forbid_unknown_fields=True):
    at: Annotated[
        str, msgspec.Meta(description="Instant to freeze at; not in the past, except in an empty project.")
    ] = ""


class AdvanceBody(Move, forbid_unknown_fields=True):
    """Either `seconds` or `to`."""

    seconds: Advance | None = None
    to: str = ""


class ReleaseBody(Move, forbid_unknown_fields=True):
    catch_up: Annotated[bool, msgspec.Meta(description="Advance to the server's time, then follow it.")] = False


class AutomaticBody(Move, forbid_unknown_fields=True):
    idle_seconds: Annotated[
        float, msgspec.Meta(gt=0, le=60, description="Real seconds without activity before the clock advances.")
    ] = 0.05


async def show_clock(call: Call[Any, None]) -> ClockRecord:
    return _record(call, await call.services.time.show(_project(call)))


async def freeze(call: Call[Any, FreezeBody]) -> ClockRecord:
    call.check_testing()
    at = parse_instant(call.body.at, "at", await _now(call)) if call.body.at else None
    return _record(call, await call.services.time.freeze(_project(call), at, _pace(call.body)))


async def advance(call: Call[Any, AdvanceBody]) -> ClockRecord:
    call.check_testing()
    body, time = call.body, call.services.time
    if (body.seconds is None) == (not body.to):
        raise InvalidArgumentError("Give either seconds or to")
    until = parse_instant(body.to, "to", await _now(call)) if body.to else None
    return _record(call, await time.advance(_project(call), body.seconds or 0, until, _pace(body)))


async def release(call: Call[Any, ReleaseBody]) -> ClockRecord:
    call.check_testing()
    released = call.services.time.release(_project(call), catch_up=call.body.catch_up, pace=_pace(call.body))
    return _record(call, await released)


async def automate(call: Call[Any, AutomaticBody]) -> ClockRecord:
    call.check_testing()
    automated = call.services.time.automate(_project(call), call.body.idle_seconds, _pace(call.body))
    return _record(call, await automated)


def _project(call: Call[Any, Any]) -> str:
    return project_name(call.path["project"])


async def _now(call: Call[Any, Any]) -> int:
    return (await call.services.time.show(_project(call))).now


def _pace(body: Move) -> Pace:
    return Pace(body.patience_seconds, body.extension_seconds)


def _record(call: Call[Any, Any], time: Time) -> ClockRecord:
    return ClockRecord(_project(call), made_at(time.now), time.mode, time.ahead / SECOND, instant(time.next_due))


_PATH = "/projects/{project}/clock"

ROUTES = (
    route("GET", _PATH, show_clock, "Get the clock of a project."),
    route("POST", f"{_PATH}/freeze", freeze, "Freeze the clock of a project."),
    route("POST", f"{_PATH}/advance", advance, "Advance the clock of a project."),
    route("POST", f"{_PATH}/release", release, "Let the clock of a project run again."),
    route(
        "POST",
        f"{_PATH}/automatic",
        automate,
        "Advance the clock of a project automatically whenever all clients wait.",
    ),
)

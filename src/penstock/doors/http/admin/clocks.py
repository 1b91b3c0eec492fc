"""The time of a project: shown, stopped, moved forward and let go. Other projects do not notice.

Only on a server that was started for tests: what is gone by retention does not come back.
"""

from __future__ import annotations

from datetime import datetime
from typing import Annotated, Any

import msgspec

from penstock.broker.model import SECOND
from penstock.doors.http.admin.calls import Call, Route, project_name
from penstock.doors.http.admin.moments import moment
from penstock.doors.http.admin.records import instant, made_at
from penstock.engine.port import Pace, Time
from penstock.errors import InvalidArgumentError

ADVANCE_SECONDS_MAX = 10 * 366 * 86400  # ten years
PATIENCE_SECONDS_MAX = 60

Advance = Annotated[float, msgspec.Meta(ge=0, le=ADVANCE_SECONDS_MAX)]
Patience = Annotated[float, msgspec.Meta(ge=0, le=PATIENCE_SECONDS_MAX)]
Extension = Annotated[float, msgspec.Meta(ge=0, le=ADVANCE_SECONDS_MAX)]


class ClockRecord(msgspec.Struct):
    """`mode`: shared (it has the server's time), frozen, running or automatic."""

    project: str
    now: datetime
    mode: str
    ahead_seconds: Annotated[float, msgspec.Meta(description="Before the server's time; negative: behind it.")]
    next_due: Annotated[datetime | None, msgspec.Meta(description="The next moment that a client waits for.")]


class Move(msgspec.Struct, forbid_unknown_fields=True):
    """How time is moved."""

    patience_seconds: Annotated[
        Patience, msgspec.Meta(description="Real seconds for clients to answer what they were given at a due time.")
    ] = Pace().patience_seconds
    extension_seconds: Annotated[
        Extension, msgspec.Meta(description="For how long the leases of open streams are extended; 0: they end.")
    ] = Pace().extension_seconds


class FreezeBody(Move, forbid_unknown_fields=True):
    at: Annotated[str, msgspec.Meta(description="Where to stand; later than now, but in an empty project.")] = ""


class AdvanceBody(Move, forbid_unknown_fields=True):
    """One of the two."""

    seconds: Advance | None = None
    to: str = ""


class ReleaseBody(Move, forbid_unknown_fields=True):
    catch_up: Annotated[bool, msgspec.Meta(description="Go to the server's time first, and follow it.")] = False


class AutomaticBody(Move, forbid_unknown_fields=True):
    idle_seconds: Annotated[
        float, msgspec.Meta(gt=0, le=60, description="Real seconds without anything happening before time is moved.")
    ] = 0.05


async def show_clock(call: Call[Any, None]) -> ClockRecord:
    return _record(call, await call.queue.time.show(_project(call)))


async def freeze(call: Call[Any, FreezeBody]) -> ClockRecord:
    call.check_testing()
    at = moment(call.body.at, "at", await _now(call)) if call.body.at else None
    return _record(call, await call.queue.time.freeze(_project(call), at, _pace(call.body)))


async def advance(call: Call[Any, AdvanceBody]) -> ClockRecord:
    call.check_testing()
    body, time = call.body, call.queue.time
    if (body.seconds is None) == (not body.to):
        raise InvalidArgumentError("Give seconds or to, one of the two")
    until = moment(body.to, "to", await _now(call)) if body.to else None
    return _record(call, await time.advance(_project(call), body.seconds or 0, until, _pace(body)))


async def release(call: Call[Any, ReleaseBody]) -> ClockRecord:
    call.check_testing()
    released = call.queue.time.release(_project(call), catch_up=call.body.catch_up, pace=_pace(call.body))
    return _record(call, await released)


async def automate(call: Call[Any, AutomaticBody]) -> ClockRecord:
    call.check_testing()
    automated = call.queue.time.automate(_project(call), call.body.idle_seconds, _pace(call.body))
    return _record(call, await automated)


def _project(call: Call[Any, Any]) -> str:
    return project_name(call.path["project"])


async def _now(call: Call[Any, Any]) -> int:
    return (await call.queue.time.show(_project(call))).now


def _pace(body: Move) -> Pace:
    return Pace(body.patience_seconds, body.extension_seconds)


def _record(call: Call[Any, Any], time: Time) -> ClockRecord:
    return ClockRecord(_project(call), made_at(time.now), time.mode, time.ahead / SECOND, instant(time.next_due))


_PATH = "/projects/{project}/clock"

ROUTES = (
    Route("GET", _PATH, show_clock, "The time of a project.", ClockRecord),
    Route("POST", f"{_PATH}/freeze", freeze, "Stop it.", ClockRecord, body=FreezeBody),
    Route("POST", f"{_PATH}/advance", advance, "Move it forward.", ClockRecord, body=AdvanceBody),
    Route("POST", f"{_PATH}/release", release, "Let it run on.", ClockRecord, body=ReleaseBody),
    Route("POST", f"{_PATH}/automatic", automate, "Skip whenever nobody is busy.", ClockRecord, body=AutomaticBody),
)

"""Waiting until subscriptions are done with their messages, and what is left where they are not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from penstock.admin.client import Client, path_of
from penstock.testing.messages import LISTED_MAX, message_of, shown
from penstock.wording import counted

WAIT_SECONDS_MAX = 60.0  # of one call


def wait_until_settled(admin: Client, names: Callable[[], Iterable[str]], seconds: float) -> dict[str, Any]:
    """What is left of each subscription after so many real seconds; empty as soon as nothing is.

    One that is settled may get messages from another: all of them have to be settled in one look without waiting.
    """
    ends_at = time.monotonic() + seconds
    while True:
        left = {name: found for name in names() if (found := _backlog(admin, name, 0))}
        wait = ends_at - time.monotonic()
        if not left or wait <= 0:
            return left
        _backlog(admin, next(iter(left)), min(wait, WAIT_SECONDS_MAX))


def _backlog(admin: Client, name: str, wait_seconds: float) -> dict[str, Any] | None:
    """None if nothing is left of it."""
    query = {"max": LISTED_MAX, "wait_seconds": round(wait_seconds, 3), "body_bytes": 200}
    found: dict[str, Any] = admin.get(path_of("subscriptions", name, "backlog"), **query)
    return found if found["messages"] or not found["complete"] else None


def report(left: dict[str, Any], clock: dict[str, Any], seconds: float) -> str:
    """What is left, for people."""
    now = datetime.fromisoformat(clock["now"])
    lines = [f"Not settled after {seconds:g} seconds; the time of the project is {_clock(now)}{_moves(clock)}:"]
    for name, backlog in left.items():
        lines.append(f"  {name.rpartition('/')[2]}")
        lines += [f"    {_line(each, now)}" for each in backlog["messages"]]
        lines += [] if backlog["complete"] else ["    and more"]
    return "\n".join(lines)


def _moves(clock: dict[str, Any]) -> str:
    """Why it stands, if it does."""
    if clock["mode"] == "automatic":
        nobody = "stands because no client waits or asks for a message; move it by clock.advance"
        return f", is automatic, and {nobody if clock['next_due'] is None else 'stands while somebody is busy'}"
    return ", and stands" if clock["mode"] == "frozen" else ""


def _line(each: dict[str, Any], now: datetime) -> str:
    message = message_of(each["message"])
    until = datetime.fromisoformat(each["until"]) if each["until"] else None
    attempts = f"delivered {counted(each['attempts'], 'time')}"
    said = {
        "unread": "was never delivered",
        "held": "waits for an earlier message of its ordering key",
        "waiting": f"{attempts}, {_waits(until, now)}",
        "leased": f"with a consumer{_through(each)}{_until(until)}, {attempts}",
    }[each["stage"]]
    if _is_delayed(each, now):
        said = f"is not visible before {_clock(datetime.fromisoformat(each['message']['visible_at']))}"
    return f"{message.offset}: {shown(message.data)} {said}"


def _is_delayed(each: dict[str, Any], now: datetime) -> bool:
    visible_at = each["message"]["visible_at"]
    return each["stage"] == "unread" and visible_at is not None and datetime.fromisoformat(visible_at) > now


def _waits(until: datetime | None, now: datetime) -> str:
    if until is None or until <= now:
        return "waits for somebody to take it"
    return f"waits until {_clock(until)}"


def _through(each: dict[str, Any]) -> str:
    return f" of the {each['door']} door" if each["door"] else ""


def _until(until: datetime | None) -> str:
    return f" until {_clock(until)}" if until else ""


def _clock(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"

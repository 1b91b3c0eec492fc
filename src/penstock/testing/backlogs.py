"""The wait until subscriptions are done with their messages, and the report of what is left."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from datetime import datetime
from typing import Any

from penstock.admin.client import Client, path_of
from penstock.names import PROTOCOLS
from penstock.testing.messages import LISTED_MAX, message_of, show
from penstock.wording import counted

WAIT_SECONDS_MAX = 60.0  # maximum wait of one call


def wait_until_settled(admin: Client, names: Callable[[], Iterable[str]], seconds: float) -> dict[str, Any]:
    """Wait at most `seconds` of real time. Return the backlogs that are left by subscription; empty: all are settled.

    A settled subscription may get messages from another one, so all must be settled in one round without waiting.
    """
    ends_at = time.monotonic() + seconds
    while True:
        left = {name: backlog for name in names() if (backlog := _backlog(admin, name, 0))}
        wait = ends_at - time.monotonic()
        if not left or wait <= 0:
            return left
        _backlog(admin, next(iter(left)), min(wait, WAIT_SECONDS_MAX))


def _backlog(admin: Client, name: str, wait_seconds: float) -> dict[str, Any] | None:
    """Return the backlog of a subscription, or None if it is settled."""
    query = {"max": LISTED_MAX, "wait_seconds": round(wait_seconds, 3), "body_bytes": 200}
    backlog: dict[str, Any] = admin.get(path_of("subscriptions", name, "backlog"), **query)
    return backlog if backlog["messages"] or not backlog["complete"] else None


def report(left: dict[str, Any], clock: dict[str, Any], seconds: float) -> str:
    """Return the message of the AssertionError."""
    now = datetime.fromisoformat(clock["now"])
    lines = [f"Not settled after {seconds:g} seconds; the time of the project is {_format(now)}{_clock_state(clock)}:"]
    for name, backlog in left.items():
        lines.append(f"  {name.rpartition('/')[2]}")
        lines += [f"    {_describe(entry, now)}" for entry in backlog["messages"]]
        lines += [] if backlog["complete"] else ["    and more"]
    return "\n".join(lines)


def _clock_state(clock: dict[str, Any]) -> str:
    """Return why the time of the project stands still, or an empty text."""
    if clock["mode"] == "automatic":
        idle = "because no client waits or asks for a message; move it with clock.advance"
        return f", is automatic, and stands still {idle if clock['next_due'] is None else 'while a client is busy'}"
    return ", and stands still" if clock["mode"] == "frozen" else ""


def _describe(entry: dict[str, Any], now: datetime) -> str:
    message = message_of(entry["message"])
    until = datetime.fromisoformat(entry["until"]) if entry["until"] else None
    attempts = f"delivered {counted(entry['attempts'], 'time')}"
    state = {
        "unread": "was never delivered",
        "held": "waits for an earlier message of its ordering key",
        "waiting": f"{attempts}, {'is ready' if until is None or until <= now else f'waits until {_format(until)}'}",
        "leased": f"is leased{_by(entry)}{f' until {_format(until)}' if until else ''}, {attempts}",
    }[entry["stage"]]
    if _is_delayed(entry, now):
        state = f"is not visible before {_format(datetime.fromisoformat(entry['message']['visible_at']))}"
    return f"{message.offset}: {show(message.data)} {state}"


def _is_delayed(entry: dict[str, Any], now: datetime) -> bool:
    visible_at = entry["message"]["visible_at"]
    return entry["stage"] == "unread" and visible_at is not None and datetime.fromisoformat(visible_at) > now


def _by(entry: dict[str, Any]) -> str:
    return f" by a consumer ({PROTOCOLS.get(entry['door'], entry['door'])})" if entry["door"] else " by a consumer"


def _format(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S} UTC"

"""Events: who is told what happens on a subscription.

The rule kept here: an event that nobody can hear is refused when a listener is added, an error that nobody listens to
is logged, and a listener that fails harms nobody else.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any

from pyee.base import EventEmitter

from penstock.errors import InvalidArgumentError
from penstock.pubsub.session import Session

log = logging.getLogger("penstock.pubsub")

EVENTS = ("message", "error", "close", "debug")
NEW_LISTENER = "new_listener"  # pyee's own


class Emitter(EventEmitter):
    def __init__(self, session: Session) -> None:
        super().__init__()
        self._session = session

    def message_listeners(self) -> list[Callable[..., Any]]:
        """Those of `message`, as they have to be called."""
        return list(self._events.get("message", {}).values())

    def _add_event_handler(self, event: str, k: Callable[..., Any], v: Callable[..., Any]) -> None:
        if event not in EVENTS and event != NEW_LISTENER:
            raise InvalidArgumentError(f"Unknown event: {event}. There are: {', '.join(EVENTS)}")
        if not callable(k):
            raise InvalidArgumentError(f"A listener must be callable, not {type(k).__name__}")
        super()._add_event_handler(event, k, v)

    def _emit_run(self, f: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        try:
            result = f(*args, **kwargs)
        except Exception:
            log.exception("A listener failed")
            return
        if isawaitable(result):
            self._session.spawn(_finish(result))

    def _emit_handle_potential_error(self, event: str, error: Any) -> None:
        if event == "error":
            log.error("%r: %s", self, error, exc_info=error if isinstance(error, Exception) else None)


async def _finish(listener: Awaitable[Any]) -> None:
    try:
        await listener
    except Exception:
        log.exception("A listener failed")

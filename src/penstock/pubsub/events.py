"""The events of a subscription and their listeners.

An error event without listeners is logged. If a listener fails, the other listeners are still called.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, Self, TypeAlias, TypeVar, overload

from penstock.errors import InvalidArgumentError
from penstock.pubsub.session import Session

log = logging.getLogger("penstock.pubsub")

EVENTS = ("message", "error", "close", "debug")

Listener: TypeAlias = Callable[..., Any]
L = TypeVar("L", bound=Listener)


class Emitter:
    def __init__(self, session: Session) -> None:
        self._session = session
        # By event: listener to call.
        self._listeners: dict[str, dict[Listener, Listener]] = {event: {} for event in EVENTS}

    @overload
    def on(self, event: str) -> Callable[[L], L]: ...
    @overload
    def on(self, event: str, listener: Listener) -> Self: ...
    def on(self, event: str, listener: Listener | None = None) -> Self | Callable[[L], L]:
        """Call `listener`, a function or coroutine function, at each `event`: message, error, close or debug.

        Return this object, so that calls can be chained. Without a listener, return a decorator.
        """
        if listener is None:
            return _decorator(self.on, event)
        self._add(event, listener, listener)
        return self

    @overload
    def once(self, event: str) -> Callable[[L], L]: ...
    @overload
    def once(self, event: str, listener: Listener) -> Self: ...
    def once(self, event: str, listener: Listener | None = None) -> Self | Callable[[L], L]:
        """Call `listener` only at the next `event`. Otherwise like `on`."""
        if listener is None:
            return _decorator(self.once, event)

        def call(*arguments: Any) -> Any:
            return listener(*arguments) if self._listeners[event].pop(listener, None) is not None else None

        self._add(event, listener, call)
        return self

    def _add(self, event: str, listener: Listener, call: Listener) -> None:
        if event not in EVENTS:
            raise InvalidArgumentError(f"Unknown event: {event}. The events are: {', '.join(EVENTS)}")
        if not callable(listener):
            raise InvalidArgumentError(f"A listener must be callable, not {type(listener).__name__}")
        self._listeners[event][listener] = call

    def remove_listener(self, event: str, listener: Listener) -> Self:
        """Remove a listener, if it is there."""
        self._listeners.get(event, {}).pop(listener, None)
        return self

    def remove_all_listeners(self, event: str | None = None) -> Self:
        """Remove the listeners of an event. None: of all events."""
        for name in EVENTS if event is None else (event,):
            self._listeners.get(name, {}).clear()
        return self

    def listeners(self, event: str) -> list[Listener]:
        return list(self._listeners.get(event, ()))

    add_listener, off = on, remove_listener

    def calls(self, event: str) -> list[Listener]:
        """Return the functions to call. A listener of `once` is removed when its function is called."""
        return list(self._listeners.get(event, {}).values())

    def emit(self, event: str, *arguments: Any) -> bool:
        """Call all listeners of an event. Return whether there are any."""
        calls = self.calls(event)
        for call in calls:
            try:
                result = call(*arguments)
            except Exception:
                log.exception("A listener failed")
            else:
                if isawaitable(result):
                    self._session.spawn(_finish(result))
        if event == "error" and not calls:
            error = arguments[0] if arguments else None
            log.error("%r: %s", self, error, exc_info=error if isinstance(error, Exception) else None)
        return bool(calls)


def _decorator(add: Callable[[str, Listener], object], event: str) -> Callable[[L], L]:
    def decorate(listener: L) -> L:
        add(event, listener)
        return listener

    return decorate


async def _finish(listener: Awaitable[Any]) -> None:
    try:
        await listener
    except Exception:
        log.exception("A listener failed")

"""The events of a subscription: who listens to which, and how listeners are called.

An error that nothing listens to is logged, and a listener that fails does not keep the others from being called.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from inspect import isawaitable
from typing import Any, TypeAlias, TypeVar, overload

from penstock.errors import InvalidArgumentError
from penstock.pubsub.session import Session

log = logging.getLogger("penstock.pubsub")

EVENTS = ("message", "error", "close", "debug")

Listener: TypeAlias = Callable[..., Any]
L = TypeVar("L", bound=Listener)


class Emitter:
    def __init__(self, session: Session) -> None:
        self._session = session
        self._listeners: dict[str, dict[Listener, Listener]] = {event: {} for event in EVENTS}  # with what to call

    @overload
    def on(self, event: str) -> Callable[[L], L]: ...
    @overload
    def on(self, event: str, listener: L) -> L: ...
    def on(self, event: str, listener: L | None = None) -> L | Callable[[L], L]:
        """Call `listener`, a function or a coroutine function, whenever `event` happens; also as a decorator."""
        if listener is None:
            return lambda decorated: self.on(event, decorated)
        self._add(event, listener, listener)
        return listener

    @overload
    def once(self, event: str) -> Callable[[L], L]: ...
    @overload
    def once(self, event: str, listener: L) -> L: ...
    def once(self, event: str, listener: L | None = None) -> L | Callable[[L], L]:
        """The same for the next time only."""
        if listener is None:
            return lambda decorated: self.once(event, decorated)

        def call(*arguments: Any) -> Any:
            return listener(*arguments) if self._listeners[event].pop(listener, None) is not None else None

        self._add(event, listener, call)
        return listener

    def _add(self, event: str, listener: Listener, call: Listener) -> None:
        if event not in EVENTS:
            raise InvalidArgumentError(f"Unknown event: {event}. There are: {', '.join(EVENTS)}")
        if not callable(listener):
            raise InvalidArgumentError(f"A listener must be callable, not {type(listener).__name__}")
        self._listeners[event][listener] = call

    def remove_listener(self, event: str, listener: Listener) -> None:
        self._listeners.get(event, {}).pop(listener, None)

    def remove_all_listeners(self, event: str | None = None) -> None:
        for name in EVENTS if event is None else (event,):
            self._listeners.get(name, {}).clear()

    def listeners(self, event: str) -> list[Listener]:
        return list(self._listeners.get(event, ()))

    add_listener, off = on, remove_listener

    def calls(self, event: str) -> list[Listener]:
        """What to call when it happens: a listener of `once` leaves by being called."""
        return list(self._listeners.get(event, {}).values())

    def emit(self, event: str, *arguments: Any) -> bool:
        """Call all listeners of an event; whether there are any."""
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


async def _finish(listener: Awaitable[Any]) -> None:
    try:
        await listener
    except Exception:
        log.exception("A listener failed")

"""Functions that turn a function over the engine or the broker into a verb of the awaitable queue."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, ParamSpec, Protocol, TypeVar

from penstock.broker.broker import Broker
from penstock.engine.commands import Now, Steps
from penstock.engine.engine import Engine
from penstock.engine.loop import EngineLoop

P = ParamSpec("P")
T = TypeVar("T")


class Runner(Protocol):
    """The attributes that a verb needs of its queue."""

    engine: Engine
    loop: EngineLoop


def lookup(look: Callable[Concatenate[Engine, P], T]) -> Callable[Concatenate[Runner, P], Coroutine[Any, Any, T]]:
    """Return a verb that answers without waiting for a commit."""

    async def verb(queue: Runner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if queue.engine.moved:
            await queue.loop.catch_up()
        return look(queue.engine, *args, **kwargs)

    return verb


def decision(decide: Callable[Concatenate[Broker, P], T]) -> Callable[Concatenate[Runner, P], Future[T]]:
    """Return a verb that answers when its decision is durable."""

    def verb(queue: Runner, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return queue.loop.run(lambda broker, _: decide(broker, *args, **kwargs))

    return verb


def timed_decision(decide: Callable[Concatenate[Broker, int, P], T]) -> Callable[Concatenate[Runner, P], Future[T]]:
    """Return a verb like `decision` for a function that also takes the current time."""

    def verb(queue: Runner, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        about = _names(args, kwargs) if queue.engine.own_clocks else ()
        return queue.loop.run(lambda broker, now: decide(broker, now, *args, **kwargs), *about)

    return verb


def command(make: Callable[Concatenate[Broker, Now, P], Steps[T]]) -> Callable[Concatenate[Runner, P], Future[T]]:
    """Return a verb like `decision` for a command that may have to read the journal first."""

    def verb(queue: Runner, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        engine = queue.engine
        now = engine.clocks.of(*_names(args, kwargs)).now if engine.own_clocks else engine.now
        return queue.loop.drive(lambda broker: make(broker, now, *args, **kwargs))

    return verb


def _names(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """Return the names among the arguments of a call. They choose the clock of the command."""
    return [value for value in (*args, *kwargs.values()) if isinstance(value, str)]

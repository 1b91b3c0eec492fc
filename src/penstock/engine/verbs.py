"""How a function over the engine or the broker becomes a verb of the awaitable queue."""

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
    """What a verb needs of the queue it belongs to."""

    engine: Engine
    loop: EngineLoop


def lookup(look: Callable[Concatenate[Engine, P], T]) -> Callable[Concatenate[Runner, P], Coroutine[Any, Any, T]]:
    """It answers without waiting for a commit."""

    async def verb(queue: Runner, /, *args: P.args, **kwargs: P.kwargs) -> T:
        if queue.engine.moved:
            await queue.loop.catch_up()
        return look(queue.engine, *args, **kwargs)

    return verb


def decision(decide: Callable[Concatenate[Broker, P], T]) -> Callable[Concatenate[Runner, P], Future[T]]:
    """It answers when what was decided is durable."""

    def verb(queue: Runner, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return queue.loop.run(lambda broker, _: decide(broker, *args, **kwargs))

    return verb


def timed_decision(decide: Callable[Concatenate[Broker, int, P], T]) -> Callable[Concatenate[Runner, P], Future[T]]:
    """The same for what depends on the time."""

    def verb(queue: Runner, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        about = _named(args, kwargs) if queue.engine.own_clocks else ()
        return queue.loop.run(lambda broker, now: decide(broker, now, *args, **kwargs), *about)

    return verb


def command(make: Callable[Concatenate[Broker, Now, P], Steps[T]]) -> Callable[Concatenate[Runner, P], Future[T]]:
    """The same for what may have to read the journal first."""

    def verb(queue: Runner, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        engine = queue.engine
        now = engine.clocks.of(*_named(args, kwargs)).now if engine.own_clocks else engine.now
        return queue.loop.drive(lambda broker: make(broker, now, *args, **kwargs))

    return verb


def _named(args: tuple[Any, ...], kwargs: dict[str, Any]) -> list[str]:
    """The names that a call gives: they say whose time it is."""
    return [each for each in (*args, *kwargs.values()) if isinstance(each, str)]

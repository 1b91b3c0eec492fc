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
        return queue.loop.run(lambda broker, now: decide(broker, now, *args, **kwargs))

    return verb


def command(make: Callable[Concatenate[Broker, Now, P], Steps[T]]) -> Callable[Concatenate[Runner, P], Future[T]]:
    """The same for what may have to read the journal first."""

    def verb(queue: Runner, /, *args: P.args, **kwargs: P.kwargs) -> Future[T]:
        return queue.loop.drive(lambda broker: make(broker, queue.engine.now, *args, **kwargs))

    return verb

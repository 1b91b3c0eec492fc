"""The queue of a door in a server for tests, with faults.

If a reply is dropped or late, its decision was made in turn and is durable. If a call is refused, closed or held,
nothing was decided yet.
"""

from __future__ import annotations

import asyncio
import math
from asyncio import Future
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import Any, NamedTuple, TypeVar

from penstock.broker.names import parse_receipt
from penstock.engine import lookups
from penstock.engine.async_queue import AsyncMessageQueue, retrieve
from penstock.engine.port import Delivery, Leased
from penstock.errors import LostReplyError
from penstock.services.faults.faults import Fault, Faults
from penstock.services.faults.rules import Called, error_of

T = TypeVar("T")

PUSH = "push"  # the holder of messages for push endpoints
ENDLESS = math.inf  # the length of a lease that lasts as long as its consumer is connected

REFUSING = frozenset({"error", "disk_full"})
INSTEAD = REFUSING | {"close", "hold"}  # effects before the call, or in its place
OF_MESSAGES = frozenset({"drop", "duplicate", "reorder", "expire"})  # effects on pulled messages
OF_DECISIONS = INSTEAD | {"latency", "drop", "expire"}


class Named(NamedTuple):
    """The meaning of a method's arguments, by index."""

    verb: str
    topic: int | None = None  # the name of a topic or snapshot
    subscription: int | None = None  # the name or number of a subscription
    receipts: bool = False  # True: the first argument is a receipt or a list of receipts
    counted: int | None = None  # the messages


_BY_TOPIC = partial(Named, topic=0)
_BY_SUBSCRIPTION = partial(Named, subscription=0)
_BY_RECEIPTS = partial(Named, receipts=True, counted=0)

DECISIONS: dict[str, Named] = {
    "publish": _BY_TOPIC("publish", counted=1),
    "send": Named("publish", topic=0, subscription=1, counted=3),
    "ack": _BY_RECEIPTS("ack"),
    "ack_delivered": _BY_SUBSCRIPTION("ack", counted=1),
    "nack": _BY_RECEIPTS("nack"),
    "extend": _BY_RECEIPTS("extend"),
    "renew": Named("extend", receipts=True),
    "peek": _BY_SUBSCRIPTION("peek"),
    "purge": _BY_SUBSCRIPTION("purge"),
    "purge_topic": _BY_TOPIC("purge"),
    "create_topic": _BY_TOPIC("create"),
    "create_subscription": Named("create", subscription=0, topic=1),
    "create_subscription_at": Named("create", subscription=0, topic=1),
    "create_snapshot": Named("create", topic=0, subscription=1),
    "provide_queue": Named("create", topic=0, subscription=1),
    "change_topic": _BY_TOPIC("change"),
    "change_subscription": _BY_SUBSCRIPTION("change"),
    "change_snapshot": _BY_TOPIC("change"),
    "delete_topic": _BY_TOPIC("delete"),
    "delete_subscription": _BY_SUBSCRIPTION("delete"),
    "delete_snapshot": _BY_TOPIC("delete"),
    "remove_queue": Named("delete", topic=0, subscription=1),
    "detach_subscription": _BY_SUBSCRIPTION("detach"),
    "seek_to_offset": _BY_SUBSCRIPTION("seek"),
    "seek_to_time": _BY_SUBSCRIPTION("seek"),
    "seek_to_snapshot": _BY_SUBSCRIPTION("seek"),
}


class FaultyQueue:
    """The queue of one door, with faults. Lookups and notifications go to the wrapped queue."""

    def __init__(self, queue: AsyncMessageQueue, faults: Faults) -> None:
        self._queue = queue
        self._faults = faults
        self._copies: dict[str, list[Delivery]] = {}  # by subscription: duplicates for the next answer
        for method, named in DECISIONS.items():
            setattr(self, method, partial(self._decide, method, named))

    def __getattr__(self, name: str) -> Any:
        return getattr(self._queue, name)

    # ------------------------------------------------------------------ decisions

    def _decide(self, method: str, named: Named, *args: Any, **options: Any) -> Future[Any]:
        go: Callable[[], Future[Any]] = partial(getattr(self._queue, method), *args, **options)
        if options.get("unseen"):  # the door returns messages that no client has seen
            return go()
        fault = self._faults.strike(self._record_call(method, named, args), OF_DECISIONS)
        if fault is None:
            return go()
        effect = fault.rule.effect
        if effect in REFUSING:
            return self._queue.loop.refused(error_of(fault.rule, fault.id))
        if effect == "close":  # in a task, so that earlier calls on the connection are answered
            return asyncio.ensure_future(_lose_reply())
        if effect == "hold":
            return asyncio.ensure_future(self._hold_call(fault, go))
        if effect == "expire":
            self._expire([args[0]] if method == "renew" else self._receipts(method, args))
            return go()
        return asyncio.ensure_future(self._spoil_answer(fault, go()))

    async def _hold_call(self, fault: Fault, go: Callable[[], Awaitable[T]]) -> T:
        await self._faults.hold(fault)
        return await go()

    async def _spoil_answer(self, fault: Fault, decision: Awaitable[T]) -> T:
        """Return the result of a decision late, or raise LostReplyError."""
        result = await decision
        if fault.rule.effect == "drop":
            raise LostReplyError()
        await self._late(fault)
        return result

    def _receipts(self, method: str, args: tuple[Any, ...]) -> list[str]:
        if method == "ack_delivered":
            return [f"{args[0]}-{offset}-{stamp}" for offset, stamp, *_ in args[1]]
        return list(args[0])

    def _expire(self, receipts: Sequence[str]) -> None:
        """End the leases, as a passed deadline does. The receipts become invalid."""
        self._queue.nack(receipts, strict=False).add_done_callback(retrieve)

    async def read(self, topic_name: str, *bounds: int) -> Any:
        fault = self._faults.strike(Called(self._queue.door, "read", (topic_name,)), INSTEAD | {"latency", "drop"})
        if fault is None:
            return await self._queue.read(topic_name, *bounds)
        await self._instead(fault)
        return await self._spoil_answer(fault, self._queue.read(topic_name, *bounds))

    # ------------------------------------------------------------------ pulls

    async def pull(self, name: str, max_messages: int, **options: Any) -> list[Delivery]:
        verb = "push" if options.get("holder") == PUSH else "pull"
        called = Called(self._queue.door, verb, self._names(name))
        if copies := self._take_copies(name, max_messages):
            return copies
        most = max(2, max_messages) if self._faults.expects(called, "reorder") else max_messages
        fault, deliveries = await self._wait(called, lambda: self._queue.pull(name, most, **options))
        deliveries = await self._spoil(called, deliveries, max_messages, options)
        if len(deliveries) > max_messages:
            self._copies[name] = deliveries[max_messages:]
        return await self._in_time(fault, deliveries[:max_messages])

    def _take_copies(self, name: str, most: int) -> list[Delivery]:
        """Return duplicates of an earlier pull, unless the subscription was replaced meanwhile."""
        copies = self._copies.pop(name, [])
        if len(copies) > most:
            self._copies[name] = copies[most:]
        current = lookups.find_subscription(self._queue.engine, name) if copies else None
        return copies[:most] if current is not None and current.number == copies[0].subscription else []

    async def lease(self, name: str, max_messages: int, **options: Any) -> Leased:
        called = Called(self._queue.door, "pull", self._names(name))
        most = max(2, max_messages) if self._faults.expects(called, "reorder") else max_messages
        fault, leased = await self._wait(called, lambda: self._queue.lease(name, most, **options))
        deliveries = await self._spoil(called, leased.deliveries, max_messages, options)
        return leased._replace(deliveries=await self._in_time(fault, deliveries))

    async def _wait(self, called: Called, go: Callable[[], Coroutine[Any, Any, T]]) -> tuple[Fault | None, T]:
        """Return the messages, and the rule that hit the call and did not end it. Rules added meanwhile hit it, too."""
        fault = self._faults.strike(called, INSTEAD | {"latency"})
        if fault is not None:
            await self._instead(fault)
        work = asyncio.ensure_future(go())
        latest = self._faults.latest
        try:
            while True:
                added = asyncio.ensure_future(self._faults.added.wait())
                await asyncio.wait({work, added}, return_when=asyncio.FIRST_COMPLETED)
                added.cancel()
                later, latest = self._faults.strike(called, INSTEAD, since=latest), self._faults.latest
                if later is not None:
                    await self._end(work)
                    await self._instead(later)
                    work = asyncio.ensure_future(go())
                elif work.done():
                    return fault, work.result()
        except asyncio.CancelledError:
            added.cancel()
            await self._end(work)
            raise

    async def _end(self, work: Future[Any]) -> None:
        """Cancel a pull that no caller waits for, and return messages that it has leased."""
        work.cancel()
        await asyncio.wait({work})
        if not work.cancelled() and work.exception() is None:
            taken = work.result()
            self._queue.put_back(taken.deliveries if isinstance(taken, Leased) else taken)

    async def _instead(self, fault: Fault) -> None:
        if fault.rule.effect in REFUSING:
            raise error_of(fault.rule, fault.id)
        if fault.rule.effect == "close":
            raise LostReplyError()
        if fault.rule.effect == "hold":
            await self._faults.hold(fault)

    async def _late(self, fault: Fault) -> None:
        if fault.rule.effect == "latency":
            await self._faults.hold(fault)

    async def _in_time(self, fault: Fault | None, deliveries: list[Delivery]) -> list[Delivery]:
        """Return the messages, late if the fault says so. If the caller stops waiting, put them back as unseen."""
        try:
            if fault is not None:
                await self._late(fault)
            return deliveries
        except asyncio.CancelledError:
            self._queue.put_back(deliveries)
            raise

    async def _spoil(
        self, called: Called, deliveries: list[Delivery], most: int, options: dict[str, Any]
    ) -> list[Delivery]:
        """Apply a fault to pulled messages. Duplicates may exceed `most`."""
        if not deliveries:
            return deliveries
        called = called._replace(messages=len(deliveries))
        possible = OF_MESSAGES if _can_reorder(deliveries, most) else OF_MESSAGES - {"reorder"}
        fault = self._faults.strike(called, possible)
        effect = fault.rule.effect if fault is not None else ""
        if effect == "reorder":
            deliveries = deliveries[::-1]
        if len(deliveries) > most:  # one more was pulled for `reorder`
            self._queue.put_back(deliveries[most:])
            deliveries = deliveries[:most]
        receipts = [delivery.receipt for delivery in deliveries]
        if effect == "drop":
            if options.get("lease_seconds") == ENDLESS:  # otherwise the messages would never be returned
                self._expire(receipts)
            # Otherwise a consumer that reconnects under its name would hold them.
            self._queue.engine.lease_origins.forget(deliveries)
            raise LostReplyError()
        if effect == "expire":
            self._expire(receipts)
        return deliveries * 2 if effect == "duplicate" else deliveries

    # ------------------------------------------------------------------ the subject of a call

    def _record_call(self, method: str, named: Named, args: tuple[Any, ...]) -> Called:
        names: tuple[str, ...] = ()
        if named.receipts and args[0]:
            parts = parse_receipt(args[0] if isinstance(args[0], str) else args[0][0])
            names = self._names(parts[0]) if parts is not None else ()
        if named.subscription is not None:
            names = self._names(args[named.subscription])
        if named.topic is not None:
            topic = args[named.topic]
            names = (topic, *names) if named.topic == 0 else (*names, topic)
        counted = len(args[named.counted]) if named.counted is not None else int(named.receipts)
        verb = "nack" if method == "extend" and not args[1] else named.verb
        return Called(self._queue.door, verb, names, counted)

    def _names(self, key: str | int) -> tuple[str, ...]:
        """Return the names of a subscription and its topic."""
        subscription = lookups.find_subscription(self._queue.engine, key)
        if subscription is None:
            return (key,) if isinstance(key, str) else ()
        return subscription.name, subscription.topic


def _can_reorder(deliveries: Sequence[Delivery], most: int) -> bool:
    """Return whether there are two messages, and returning an extra one does not return another one of its key."""
    keys = [delivery.message.ordering_key for delivery in deliveries if delivery.message.ordering_key]
    return len(deliveries) > 1 and (len(deliveries) <= most or len(set(keys)) == len(keys))


async def _lose_reply() -> Any:
    raise LostReplyError()

"""Push: messages of push subscriptions are sent to their endpoints, and the status of the answer settles them.

Each subscription has one task, which is replaced when its settings change. Messages with the same ordering key are sent
one after another. An endpoint that fails gets fewer requests at a time and longer pauses.
"""

from __future__ import annotations

import asyncio
import logging
import os
import socket
import ssl
from collections.abc import Iterable
from typing import Any, NamedTuple

from penstock.broker import facts as f
from penstock.broker.model import SECOND
from penstock.doors.google.endpoints import DeniedError, parse
from penstock.doors.google.errors import CallError
from penstock.doors.google.http_client import HttpClient
from penstock.doors.google.messages import Subscription
from penstock.doors.google.push_request import build_push_request
from penstock.doors.google.tokens import Tokens
from penstock.doors.google.topics import kept_settings
from penstock.engine.port import Delivery, Queue, SubscriptionMetadata, sleep_until
from penstock.errors import NotFoundError, PenstockError, where

ACKING = frozenset({102, 200, 201, 202, 204})
AT_ONCE_MIN, AT_ONCE_MAX = 1, 128  # concurrent requests of one subscription
PAUSE_MIN_SECONDS, PAUSE_MAX_SECONDS = 0.1, 60.0
BATCH_BYTES_MAX = 20 << 20
WAIT_SECONDS = 60.0

_CHANGES = frozenset({f.SubscriptionCreated, f.SubscriptionChanged, f.SubscriptionDeleted, f.Detached})

PUSH_HOLDER = "push"


class Plan(NamedTuple):
    """The settings of a push task. A task whose plan changes is replaced."""

    config: bytes
    lease_seconds: float
    with_attempt: bool


class Push:
    """The tasks of all push subscriptions. They follow the broker's facts."""

    def __init__(self, queue: Queue, client: HttpClient, tokens: Tokens, log: logging.Logger) -> None:
        self._queue = queue
        self._client = client
        self._tokens = tokens
        self._log = log
        self._running: dict[int, tuple[Plan, asyncio.Task[None]]] = {}  # by the number of the subscription
        self._numbers: set[int] = set()  # numbers of subscriptions that changed
        self._all = False  # True: any subscription may have changed
        self._changed = asyncio.Event()
        self._keeper: asyncio.Task[None] | None = None

    def start(self) -> None:
        queue = self._queue
        self._listeners = [queue.on(_CHANGES, self._on_change), queue.on_reset(self._look_at_all)]
        self._look_at_all()
        self._keeper = asyncio.get_running_loop().create_task(self._keep())

    async def stop(self) -> None:
        keeper, self._keeper = self._keeper, None
        if keeper is None:
            return
        for listener in self._listeners:
            self._queue.off(listener)
        tasks = [keeper, *(task for _, task in self._running.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _on_change(self, fact: Any) -> None:
        self._numbers.add(fact.subscription)
        self._changed.set()

    def _look_at_all(self) -> None:
        self._all = True
        self._changed.set()

    async def _keep(self) -> None:
        """Start and stop tasks as subscriptions change."""
        while True:
            await self._changed.wait()
            self._changed.clear()
            try:
                await self._follow()
            except Exception as error:  # noqa: BLE001 - one unreadable subscription must not end all pushing
                self._log.error("push could not follow its subscriptions: %s", where(error))
                await asyncio.sleep(PAUSE_MAX_SECONDS)
                self._look_at_all()

    async def _follow(self) -> None:
        changed, self._numbers = self._numbers, set()
        if self._all:
            self._all = False
            present = {metadata.number: metadata for metadata in await self._queue.subscriptions()}
            for number in {*self._running, *present}:
                self._adapt(number, present.get(number))
        else:
            for number in changed:
                self._adapt(number, await self._queue.find_subscription(number))

    def _adapt(self, number: int, metadata: SubscriptionMetadata | None) -> None:
        plan = plan_of(metadata) if metadata is not None else None
        if number in self._running:
            former, task = self._running[number]
            if former == plan and not task.done():
                return
            task.cancel()
            del self._running[number]
            self._queue.disconnect_consumer(number, PUSH_HOLDER)
        if plan is not None and metadata is not None:
            pusher = Pusher(self._queue, self._client, self._tokens, self._log, metadata.name, plan)
            self._running[number] = (plan, asyncio.get_running_loop().create_task(pusher.run()))
            self._queue.connect_consumer(number, PUSH_HOLDER, 0)  # a moved clock waits for pushes in progress


def endpoint_of(metadata: SubscriptionMetadata) -> str:
    """Return the push endpoint of a subscription, or an empty string."""
    return str(kept_settings(metadata.options.extras, Subscription).push_config.push_endpoint)


def plan_of(metadata: SubscriptionMetadata) -> Plan | None:
    """Return the plan of a subscription, or None if it is not pushed."""
    if metadata.detached or not metadata.options.extras:
        return None
    config = kept_settings(metadata.options.extras, Subscription).push_config
    if not config.push_endpoint:
        return None
    options = metadata.options
    return Plan(config.SerializeToString(deterministic=True), options.lease_seconds, bool(options.dead_letter_topic))


class Pusher:
    """The push task of one subscription."""

    def __init__(
        self, queue: Queue, client: HttpClient, tokens: Tokens, log: logging.Logger, name: str, plan: Plan
    ) -> None:
        self._queue = queue
        self._client = client
        self._tokens = tokens
        self._log = log
        self._name = name
        self._plan = plan
        self._config = type(Subscription().push_config).FromString(plan.config)
        self._at_once = AT_ONCE_MIN
        self._pause_seconds = 0.0
        self._logged = ""  # the last problem in the log. A repeated problem is logged once

    async def run(self) -> None:
        while True:
            try:
                await self._round()
            except NotFoundError:
                return  # deleted
            except PenstockError as error:  # the store is full, for example
                self._log_once(f"could not pull: {error.message}")
                await self._pause(failed=True)
            except Exception as error:  # noqa: BLE001 - a bug must not end pushing
                self._log.error("pushing %s failed: %s", self._name, where(error))
                await self._pause(failed=True)

    async def _round(self) -> None:
        deliveries = await self._queue.pull(
            self._name,
            self._at_once,
            lease_seconds=self._plan.lease_seconds + 10,
            max_bytes=BATCH_BYTES_MAX,
            wait_seconds=WAIT_SECONDS,
            holder=PUSH_HOLDER,
        )
        if not deliveries:
            return
        results = await asyncio.gather(*(self._in_order(lane) for lane in lanes(deliveries)))
        await self._pause(failed=not all(results))

    async def _pause(self, *, failed: bool) -> None:
        if failed:
            self._at_once = max(self._at_once // 2, AT_ONCE_MIN)
            self._pause_seconds = min(max(self._pause_seconds * 2, PAUSE_MIN_SECONDS), PAUSE_MAX_SECONDS)
            clock = self._queue.clock_of(self._name)
            await sleep_until(clock, clock.now() + int(self._pause_seconds * SECOND))
        else:
            self._at_once = min(self._at_once * 2, AT_ONCE_MAX)
            self._pause_seconds = 0.0

    async def _in_order(self, lane: list[Delivery]) -> bool:
        for delivery in lane:
            accepted = await self._deliver(delivery)
            try:
                await (self._queue.ack if accepted else self._queue.nack)([delivery.receipt], strict=False)
            except PenstockError as error:
                self._log_once(f"could not settle: {error.message}")
                return False
            if not accepted:
                return False  # the nack returned the later messages of the key as well
        return True

    async def _deliver(self, delivery: Delivery) -> bool:
        try:
            status = await self._post(delivery)
        except (OSError, DeniedError, CallError) as error:  # TimeoutError is an OSError
            self._log_once(failure_reason(error))
            return False
        except Exception as error:  # noqa: BLE001 - a bug with one message: only that message is returned
            self._log.error("push of %s failed: %s", self._name, where(error))
            return False
        if status not in ACKING:
            self._log_once(f"the endpoint answered {status}")
        return status in ACKING

    async def _post(self, delivery: Delivery) -> int:
        config = self._config
        authorization = ""
        if config.HasField("oidc_token"):
            audience = config.oidc_token.audience or config.push_endpoint
            authorization = await self._tokens.authorization(config.oidc_token.service_account_email, audience)
        return await self._client.post(
            parse(config.push_endpoint),
            build_push_request(config, self._name, delivery, with_attempt=self._plan.with_attempt),
            authorization=authorization,
            seconds=self._plan.lease_seconds,
        )

    def _log_once(self, problem: str) -> None:
        if problem != self._logged:
            self._logged = problem
            self._log.warning("push of %s: %s", self._name, problem[:200])


def failure_reason(error: OSError | DeniedError | CallError) -> str:
    """Return why there was no answer, for the log."""
    if isinstance(error, socket.gaierror):
        return "the name of the endpoint cannot be resolved"
    if isinstance(error, TimeoutError):
        return "the endpoint gave no answer in time"
    if isinstance(error, ssl.SSLError):
        reason = getattr(error, "verify_message", "") or getattr(error, "reason", "") or "no connection"
        return f"TLS with the endpoint failed: {reason.replace('_', ' ').lower()}"
    if isinstance(error, OSError) and error.errno:
        return f"the endpoint cannot be reached: {os.strerror(error.errno).lower()}"
    return str(error)


def lanes(deliveries: Iterable[Delivery]) -> list[list[Delivery]]:
    """Group deliveries into lists that may be sent at once. Messages within a list are sent one after another."""
    keyed: dict[str, list[Delivery]] = {}
    free: list[list[Delivery]] = []
    for delivery in deliveries:
        key = delivery.message.ordering_key
        if key:
            keyed.setdefault(key, []).append(delivery)
        else:
            free.append([delivery])
    return [*keyed.values(), *free]

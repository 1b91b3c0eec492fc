"""MessageQueue: the broker for plain programs. Its calls block, may come from any thread, and return durable results.

A call returns after its commit. Calls from several threads decide one after the other and then share commits: the first
thread at the journal writes for all that wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, ClassVar, TypeVar, cast

from penstock.broker.broker import Broker
from penstock.broker.consuming import Delivery, Settled
from penstock.broker.dump import SnapshotDump
from penstock.broker.limits import Limits
from penstock.broker.model import NO_ATTRIBUTES, Draft, Message, SubscriptionOptions, TopicOptions
from penstock.broker.publishing import Once
from penstock.engine import commands, lookups
from penstock.engine.clock import Clock
from penstock.engine.engine import Answer, Engine
from penstock.engine.options import ACK_DEADLINE_MAX_SECONDS, require_mapping, subscription_options, topic_options
from penstock.engine.statistics import BrokerStatistics
from penstock.engine.views import (
    Backlog,
    InternalMessage,
    MessageLease,
    QueueSubscription,
    SubscriptionMetadata,
    TopicMetadata,
)
from penstock.errors import InvalidArgumentError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import REFUSALS, Journal

T = TypeVar("T")

RESERVED_PREFIX = "goog"  # of attribute keys, which a publisher may not use: 004 BR-017
MAINTAIN_EVERY = 16  # calls between two slices of journal maintenance, for which there is no other thread here


def reserving(limits: Limits) -> Limits:
    """Return limits that reserve the attribute prefix of the specification, unless other prefixes are given."""
    return replace(limits, reserved_prefixes=limits.reserved_prefixes or (RESERVED_PREFIX,))


class MessageQueue:
    """A message queue in this process.

    >>> queue = MessageQueue()
    >>> queue.register_topic("orders")
    >>> queue.register_subscription("billing", "orders")
    >>> ids = queue.publish("orders", [b"order 1"])
    >>> message = queue.pull("billing", 10)[0]
    >>> queue.ack(message.ack_id)
    """

    _instance: ClassVar[MessageQueue | None] = None
    _instance_lock: ClassVar[threading.Lock] = threading.Lock()

    def __init__(
        self, journal: Journal | None = None, *, limits: Limits | None = None, clock: Clock | None = None, **parts: Any
    ) -> None:
        journal = MemoryJournal() if journal is None else journal
        self.engine = Engine(journal, limits=reserving(limits or Limits()), clock=clock, **parts)
        self._waits = 0
        self.engine.recover()

    @classmethod
    def get_instance(cls) -> MessageQueue:
        """Return the one in-memory queue of this process. The first call creates it."""
        with cls._instance_lock:
            if cls._instance is None or cls._instance.closed:
                cls._instance = cls()
            return cls._instance

    @property
    def closed(self) -> bool:
        return self.engine.closed

    def close(self) -> None:
        with self.engine.lock:
            if not self.engine.closed:
                self.engine.close()

    def __enter__(self) -> MessageQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ how a call runs

    def _run(self, command: Callable[[Broker, int], T], *about: str) -> T:
        """Decide under the lock, then wait for the commit outside it. `about`: as for `Engine.decide`."""
        self._housekeep_if_due()
        result, number = self.engine.decide(command, *about)
        self._wait(number)
        return result

    def _drive(self, make: Callable[[Broker], commands.Steps[T]]) -> T:
        self._housekeep_if_due()
        return self._finish(make)

    def _finish(self, make: Callable[[Broker], commands.Steps[T]]) -> T:
        engine = self.engine
        answer: Answer = None
        steps, broker = engine.begin(make)
        while True:
            question, result, number = engine.step(steps, answer, broker)
            tail = engine.tail(question.topic) if question is not None else 0
            self._wait(number)  # also before a read, because only committed messages can be read
            if question is None:
                return cast(T, result)
            answer = engine.read(question, tail)

    def _wait(self, number: int) -> None:
        engine = self.engine
        try:
            engine.commits.wait(number)
        except REFUSALS:
            with engine.lock:
                if engine.commits.stalled is not None:
                    engine.go_back()
            raise
        self._waits += 1
        if engine.journal.durable and self._waits % MAINTAIN_EVERY == 0:
            engine.commits.maintain()

    def _housekeep_if_due(self) -> None:
        if self.engine.is_tick_due():
            self._finish(self.engine.housekeep)

    def _current(self) -> Engine:
        """Return the engine for a lookup, after the effects of a clock that was moved by hand."""
        if self.engine.moved:
            self._housekeep_if_due()
        return self.engine

    def _time_of(self, name: str) -> commands.Now:
        return self.engine.clocks.of(name).now

    def _time_at(self, receipts: Sequence[str]) -> commands.Now:
        return self.engine.clocks.of_receipts(receipts).now

    # ------------------------------------------------------------------ topics and subscriptions

    def create_topic(self, topic_name: str, options: TopicOptions | Mapping[str, Any] | None = None) -> TopicMetadata:
        """Create a topic. Options by name: labels, message_retention_duration."""
        chosen = options if options is None or isinstance(options, TopicOptions) else topic_options(options)
        return self._run(lambda broker, now: commands.create_topic(broker, now, topic_name, chosen), topic_name)

    def delete_topic(self, topic_name: str) -> None:
        """Delete a topic with all its messages. Its subscriptions stay, detached."""
        self._run(lambda broker, _: broker.delete_topic(topic_name))

    def create_subscription(
        self,
        subscription_name: str,
        topic_name: str,
        options: SubscriptionOptions | Mapping[str, Any] | None = None,
        **more: Any,
    ) -> SubscriptionMetadata:
        """Create a subscription. Options by name: ack_deadline_seconds, message_ordering, retry_policy, ..."""
        if isinstance(options, SubscriptionOptions):
            if more:
                raise InvalidArgumentError("Give SubscriptionOptions or options by name, not both")
            chosen = options
        else:
            chosen = subscription_options({**require_mapping(options or {}), **more})
        names = (subscription_name, topic_name)
        return self._run(lambda broker, now: commands.create_subscription(broker, now, *names, chosen), *names)

    def delete_subscription(self, subscription_name: str) -> None:
        self._run(lambda broker, _: broker.delete_subscription(subscription_name))

    def detach_subscription(self, subscription_name: str) -> None:
        self._run(lambda broker, _: broker.detach_subscription(subscription_name))

    # ------------------------------------------------------------------ messages

    def publish(
        self,
        topic_name: str,
        messages: Iterable[InternalMessage | Draft | Mapping[str, Any] | bytes],
        once: Once | None = None,
    ) -> list[str]:
        """Publish all messages or none. Return their ids. An id in a message is ignored: the queue assigns its own."""
        drafts = [_draft(message) for message in messages]
        self._housekeep_if_due()
        appended, number = self.engine.publish(topic_name, drafts, once)
        self._wait(number)
        return appended.message_ids()

    def pull(self, subscription_name: str, max_messages: int) -> list[InternalMessage]:
        """Lease up to `max_messages`, oldest first. The list is empty if no message is ready."""
        return [InternalMessage.of(delivery) for delivery in self.lease(subscription_name, max_messages)]

    def lease(
        self, subscription_name: str, max_messages: int, *, lease_seconds: float | None = None, max_bytes: int = 0
    ) -> list[Delivery]:
        """Lease messages like `pull`, and return the broker's deliveries."""
        if type(max_messages) is not int or max_messages < 1:
            raise InvalidArgumentError("max_messages must be a whole number, at least 1")
        now = self._time_of(subscription_name)
        return self._drive(
            lambda broker: commands.pull(broker, now, subscription_name, max_messages, lease_seconds, max_bytes)
        )

    def get_leases(self, subscription_name: str) -> list[MessageLease]:
        """Return the leases of a subscription, oldest message first."""
        leased = self._drive(lambda broker: commands.leased(broker, subscription_name))
        return [MessageLease.of(delivery, subscription_name, due, extensions) for delivery, due, extensions in leased]

    def ack(self, ack_id: str) -> None:
        _one(self.ack_many([ack_id]))

    def ack_many(self, ack_ids: Sequence[str]) -> Settled:
        """Ack messages in one step. Return the receipts that are no longer valid."""
        return self._drive(lambda broker: commands.settle(broker.ack, self._time_at(ack_ids), ack_ids))

    def nack(self, ack_id: str) -> None:
        _one(self.nack_many([ack_id]))

    def nack_many(self, ack_ids: Sequence[str], delay_seconds: float | None = None, *, unseen: bool = False) -> Settled:
        """Return messages in one step. `unseen`: they never reached a consumer, so the attempt does not count."""

        def steps(broker: Broker) -> commands.Steps[Settled]:
            def command(now: int, texts: Sequence[str]) -> Settled:
                return broker.nack(now, texts, delay_seconds, unseen)

            return commands.settle(command, self._time_at(ack_ids), ack_ids)

        return self._drive(steps)

    def extend(self, ack_id: str, seconds: float) -> None:
        """Set the deadline of a lease to `seconds` from now. 0 returns the message."""
        if isinstance(seconds, bool) or not 0 <= seconds <= ACK_DEADLINE_MAX_SECONDS:
            raise InvalidArgumentError(f"Ack deadline must be between 0 and {ACK_DEADLINE_MAX_SECONDS} seconds")

        def steps(broker: Broker) -> commands.Steps[Settled]:
            return commands.settle(partial(broker.extend, seconds=seconds), self._time_at([ack_id]), [ack_id])

        _one(self._drive(steps))

    def replace_body(self, ack_id: str, data: bytes, lease_seconds: float) -> str:
        """Replace the body of a leased message. Return its new receipt."""
        now = self._time_at([ack_id])
        renewed = self._drive(lambda broker: commands.renew(broker, now, ack_id, lease_seconds, data))
        if not renewed.receipt:
            raise InvalidArgumentError(f"Invalid ack ID: {ack_id}")
        return renewed.receipt

    def peek(self, subscription_name: str, max_messages: int) -> list[Message]:
        """Return messages that a pull would lease, without leasing them."""
        now = self._time_of(subscription_name)
        peeked = self._drive(lambda broker: commands.peek(broker, now, subscription_name, max_messages))
        return [message for message, _ in peeked.messages]

    def purge(self, subscription_name: str) -> None:
        self._run(lambda broker, now: broker.purge(now, subscription_name), subscription_name)

    # ------------------------------------------------------------------ the log

    def read(self, topic_name: str, first: int, until: int) -> list[Message]:
        """Return the messages of a topic with first <= offset < until that are still kept."""
        topic, number = self.engine.decide(lambda broker, _: broker.state.topic(topic_name))
        first, until = max(first, topic.head), min(until, topic.tail)
        self._wait(number)
        return self.engine.journal.read(topic.number, first, until) if first < until else []

    def first_offset_at(self, topic_name: str, at: int) -> int:
        """Return the first kept offset published at or after an instant (nanoseconds since 1970), or the tail."""
        return self._drive(lambda broker: commands.first_offset_at(broker, self._time_of(topic_name), topic_name, at))

    def seek_to_offset(self, subscription_name: str, offset: int) -> None:
        name, now = subscription_name, self._time_of(subscription_name)
        self._drive(lambda broker: commands.seek_to_offset(broker, now, name, offset))

    def seek_to_time(self, subscription_name: str, at: int) -> None:
        """Ack messages published before `at` (nanoseconds since 1970), and make kept later messages unacked."""
        now = self._time_of(subscription_name)
        self._drive(lambda broker: commands.seek_to_time(broker, now, subscription_name, at))

    def seek_to_snapshot(self, subscription_name: str, snapshot_name: str) -> None:
        self._run(lambda broker, now: broker.seek_to_snapshot(now, subscription_name, snapshot_name), subscription_name)

    def create_snapshot(self, snapshot_name: str, subscription_name: str) -> None:
        now = self._time_of(subscription_name)
        self._drive(lambda broker: commands.create_snapshot(broker, now, snapshot_name, subscription_name))

    def delete_snapshot(self, snapshot_name: str) -> None:
        self._run(lambda broker, _: broker.delete_snapshot(snapshot_name))

    def oldest_unacked_age_seconds(self, subscription_name: str) -> float:
        """Return the age of the oldest unacked message. 0: there is none."""
        self.subscription(subscription_name)  # raises NotFoundError if there is none
        published = self._drive(lambda broker: commands.oldest_publish_time(broker, subscription_name))
        return max(0, self._time_of(subscription_name)() - published) / 1e9 if published is not None else 0.0

    # ------------------------------------------------------------------ lookups

    @property
    def clock(self) -> Clock:
        return self.engine.clock

    @property
    def identity(self) -> str:
        """The identity of the store, which no other store has."""
        return self.engine.broker.state.identity

    def topic(self, topic_name: str) -> TopicMetadata:
        return lookups.topic(self._current(), topic_name)

    def topic_exists(self, topic_name: str) -> bool:
        return lookups.find_topic(self._current(), topic_name) is not None

    def topics(self) -> list[TopicMetadata]:
        return lookups.topics(self._current())

    def subscription(self, subscription_name: str) -> SubscriptionMetadata:
        return lookups.subscription(self._current(), subscription_name)

    def subscription_exists(self, subscription_name: str) -> bool:
        return lookups.find_subscription(self._current(), subscription_name) is not None

    def subscriptions(self, topic_name: str | None = None) -> list[SubscriptionMetadata]:
        return lookups.subscriptions(self._current(), topic_name)

    def backlog(self, subscription_name: str) -> Backlog:
        return lookups.backlog(self._current(), subscription_name)

    def snapshots(self) -> list[SnapshotDump]:
        return lookups.snapshots(self._current())

    def statistics(self) -> BrokerStatistics:
        statistics = self._current().statistics()
        while self.engine.ages.wanted:  # messages that are not in memory
            self._finish(self.engine.ages.read)
            statistics = self.engine.statistics()
        return statistics

    # ------------------------------------------------------------------ the specification's names (004)

    register_topic = create_topic
    unregister_topic = delete_topic
    register_subscription = create_subscription
    unregister_subscription = delete_subscription
    modify_ack_deadline = extend
    get_all_topics = topics

    def get_topic(self, topic_name: str) -> TopicMetadata | None:
        return lookups.find_topic(self._current(), topic_name)

    def get_subscription(self, subscription_name: str) -> QueueSubscription | None:
        metadata = lookups.find_subscription(self._current(), subscription_name)
        return QueueSubscription.of(metadata) if metadata is not None else None

    def get_subscriptions_for_topic(self, topic_name: str) -> list[QueueSubscription]:
        return [QueueSubscription.of(metadata) for metadata in self.subscriptions(topic_name)]

    def get_all_subscriptions(self) -> list[QueueSubscription]:
        return [QueueSubscription.of(metadata) for metadata in self.subscriptions()]


_FIELDS = {*InternalMessage._fields, "length"}


def _draft(message: InternalMessage | Draft | Mapping[str, Any] | bytes) -> Draft:
    # The caller keeps its dictionary, and later changes to it must not reach the log.
    if isinstance(message, Draft):
        return message._replace(attributes=_copy(message.attributes)) if message.attributes else message
    if isinstance(message, bytes | bytearray | memoryview):
        return Draft(bytes(message))
    if isinstance(message, Mapping):
        unknown = [str(name) for name in message if name not in _FIELDS]
        if unknown or "data" not in message:
            raise InvalidArgumentError(
                f"Unknown part of a message: {unknown[0]}" if unknown else "A message needs data"
            )
        message = InternalMessage(message["data"], message.get("attributes") or {}, message.get("ordering_key"))
    if not isinstance(message, InternalMessage):
        raise InvalidArgumentError(
            f"A message must be an InternalMessage, a Draft, a mapping or bytes, not {type(message).__name__}"
        )
    attributes = _copy(message.attributes) if message.attributes else NO_ATTRIBUTES
    return Draft(message.data, attributes, message.ordering_key or "")


def _copy(attributes: Mapping[str, str]) -> dict[str, str]:
    if not isinstance(attributes, Mapping):
        raise InvalidArgumentError("Message attributes must be a dictionary of strings")
    return dict(attributes)


def _one(settled: Settled) -> None:
    for text in (*settled.malformed, *settled.stale):
        raise InvalidArgumentError(f"Invalid ack ID: {text}")

"""MessageQueue: the broker for plain programs. Blocking, thread-safe, and durable when it returns.

The rule kept here: a call returns after its commit. Calls from several threads decide one after the other and
then share commits: whoever comes first to the journal writes for all that wait.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar, TypeVar

from penstock.broker.consuming import Delivery, Settled
from penstock.broker.limits import Limits
from penstock.broker.model import FOREVER, NO_ATTRIBUTES, Draft, Message, SubscriptionOptions, TopicOptions
from penstock.broker.publishing import Once
from penstock.engine import commands as steps
from penstock.engine.clock import Clock
from penstock.engine.engine import Face
from penstock.engine.options import ACK_DEADLINE_MAX_SECONDS, named, subscription_options, topic_options
from penstock.engine.statistics import BrokerStatistics
from penstock.engine.tally import statistics
from penstock.engine.views import (
    Backlog,
    InternalMessage,
    MessageLease,
    QueueSubscription,
    TopicMetadata,
    backlog,
    instant,
)
from penstock.errors import InvalidArgumentError, NotFoundError
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal, JournalFullError

T = TypeVar("T")

RESERVED_PREFIX = "goog"  # of attribute keys, which a publisher may not use: 004 BR-017
MAINTAIN_EVERY = 16  # calls between two slices of the journal's upkeep, which nobody else does here


def reserving(limits: Limits) -> Limits:
    """Limits for a queue of the specification: it reserves its prefix, unless others are named."""
    return replace(limits, reserved_prefixes=limits.reserved_prefixes or (RESERVED_PREFIX,))


class MessageQueue(Face):
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
        self._lock = threading.RLock()
        self._waits = 0
        journal, limits = MemoryJournal() if journal is None else journal, reserving(limits or Limits())
        super().__init__(journal, limits=limits, clock=clock, **parts)

    @classmethod
    def get_instance(cls) -> MessageQueue:
        """The one queue of this process, in memory, made at the first call."""
        with cls._instance_lock:
            if cls._instance is None or cls._instance._closed:
                cls._instance = cls()
            return cls._instance

    def close(self) -> None:
        with self._lock:
            if not self._closed:
                self._close_journal()

    def __enter__(self) -> MessageQueue:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    # ------------------------------------------------------------------ how a call runs

    def _run(self, command: Callable[[], T]) -> T:
        """Decide under the lock, then wait for the commit outside it."""
        with self._lock:
            self._check()
            try:
                if self._now() >= self._tick_at:
                    self._housekeep()
                result = command()
            except Exception as error:
                self._guard.judge(error)
                raise
            finally:
                number = self._submit()  # what time decided stands, even if the command is refused
        self._wait(number)
        return result

    def _drive(self, make: Callable[[], steps.Steps[T]]) -> T:
        return self._run(lambda: self._finish(make()))

    def _finish(self, walk: steps.Steps[T]) -> T:
        answer: int | None = None
        try:
            while True:
                question = walk.send(answer)
                tail = self._tail(question.topic)
                self._wait(self._submit())  # only what is committed can be read
                answer = self._answer(question, tail)
        except StopIteration as stop:
            result: T = stop.value
            return result

    def _wait(self, number: int) -> None:
        try:
            self._pipeline.wait(number)
        except JournalFullError:
            with self._lock:
                if self._pipeline.stalled is not None:
                    self._go_back()
            raise
        self._waits += 1
        if self._journal.durable and self._waits % MAINTAIN_EVERY == 0:
            self._pipeline.maintain()

    def _housekeep(self) -> None:
        if self._is_tick_due():
            self._finish(steps.housekeep(self._broker, self._now))
            self._wait(self._submit())

    def _found_room(self) -> bool:
        self._pipeline.flush()
        self._pipeline.maintain()
        return not self._journal.full

    # ------------------------------------------------------------------ topics

    def register_topic(self, topic_name: str, options: TopicOptions | Mapping[str, Any] | None = None) -> None:
        """Create a topic; options by name: labels, message_retention_duration."""
        chosen = options if options is None or isinstance(options, TopicOptions) else topic_options(options)
        self._run(lambda: self._broker.create_topic(self._now(), topic_name, chosen))

    def unregister_topic(self, topic_name: str) -> None:
        """Delete a topic with all its messages; its subscriptions stay, detached."""
        self._run(lambda: self._broker.delete_topic(topic_name))

    def topic_exists(self, topic_name: str) -> bool:
        with self._lock:
            return topic_name in self._broker.state.topic_names

    def get_topic(self, topic_name: str) -> TopicMetadata | None:
        with self._lock:
            topic = self._broker.state.topic_names.get(topic_name)
            return TopicMetadata.of(topic) if topic is not None else None

    def get_all_topics(self) -> list[TopicMetadata]:
        with self._lock:
            return [TopicMetadata.of(topic) for topic in self._broker.state.topics.values()]

    # ------------------------------------------------------------------ subscriptions

    def register_subscription(
        self,
        subscription_name: str,
        topic_name: str,
        options: SubscriptionOptions | Mapping[str, Any] | None = None,
        **more: Any,
    ) -> None:
        """Create a subscription; options by name: ack_deadline_seconds, message_ordering, retry_policy, ..."""
        if not isinstance(options, SubscriptionOptions):
            options = subscription_options({**named(options or {}), **more})
        elif more:
            raise InvalidArgumentError("Give SubscriptionOptions or options by name, not both")
        self._run(lambda: self._broker.create_subscription(self._now(), subscription_name, topic_name, options))

    def unregister_subscription(self, subscription_name: str) -> None:
        self._run(lambda: self._broker.delete_subscription(subscription_name))

    def subscription_exists(self, subscription_name: str) -> bool:
        with self._lock:
            self._expire_unused(subscription_name)
            return subscription_name in self._broker.state.subscription_names

    def get_subscription(self, subscription_name: str) -> QueueSubscription | None:
        with self._lock:
            self._expire_unused(subscription_name)
            subscription = self._broker.state.subscription_names.get(subscription_name)
            return QueueSubscription.of(subscription) if subscription is not None else None

    def get_subscriptions_for_topic(self, topic_name: str) -> list[QueueSubscription]:
        with self._lock:
            return [QueueSubscription.of(each) for each in self._living(topic_name)]

    def get_all_subscriptions(self) -> list[QueueSubscription]:
        with self._lock:
            return [QueueSubscription.of(each) for each in self._living(None)]

    def detach_subscription(self, subscription_name: str) -> None:
        self._run(lambda: self._broker.detach_subscription(subscription_name))

    # ------------------------------------------------------------------ messages

    def publish(
        self,
        topic_name: str,
        messages: Iterable[InternalMessage | Draft | Mapping[str, Any] | bytes],
        once: Once | None = None,
    ) -> list[str]:
        """Publish messages, all or none; their ids. An id handed in is ignored, the queue gives its own."""
        drafts = [_draft(message) for message in messages]

        def command() -> list[str]:
            self._refuse_when_full()
            return self._broker.publish(self._now(), topic_name, drafts, once).message_ids()

        return self._run(command)

    def pull(self, subscription_name: str, max_messages: int) -> list[InternalMessage]:
        """Lease up to `max_messages`, oldest first; empty when nothing is ready."""
        return [InternalMessage.of(delivery) for delivery in self.lease(subscription_name, max_messages)]

    def lease(
        self, subscription_name: str, max_messages: int, *, lease_seconds: float | None = None, max_bytes: int = 0
    ) -> list[Delivery]:
        """As pull, without turning what the broker gives into InternalMessages."""
        if type(max_messages) is not int or max_messages < 1:
            raise InvalidArgumentError("max_messages must be a whole number, at least 1")
        return self._drive(
            lambda: steps.pull(self._broker, self._now, subscription_name, max_messages, lease_seconds, max_bytes)
        )

    def get_leases(self, subscription_name: str) -> list[MessageLease]:
        """What is in flight on a subscription, oldest first: until when, by which receipt, how often extended."""
        return [
            MessageLease(
                InternalMessage.of(delivery),
                delivery.receipt,
                subscription_name,
                instant(due) if due < FOREVER else None,
                extensions,
            )
            for delivery, due, extensions in self._drive(lambda: steps.leased(self._broker, subscription_name))
        ]

    def ack(self, ack_id: str) -> None:
        _one(self.ack_many([ack_id]))

    def ack_many(self, ack_ids: Sequence[str]) -> Settled:
        """Ack in one step; the answer names the receipts that were no longer good."""
        return self._drive(lambda: steps.settle(self._broker.ack, self._now, ack_ids))

    def nack(self, ack_id: str) -> None:
        _one(self.nack_many([ack_id]))

    def nack_many(self, ack_ids: Sequence[str], delay_seconds: float | None = None, *, unseen: bool = False) -> Settled:
        """`unseen`: these never reached whoever works on messages, so the attempt does not count."""

        def command(now: int, texts: Sequence[str]) -> Settled:
            return self._broker.nack(now, texts, delay_seconds, unseen)

        return self._drive(lambda: steps.settle(command, self._now, ack_ids))

    def modify_ack_deadline(self, ack_id: str, seconds: float) -> None:
        """Let the lease end `seconds` from now; 0 hands the message back."""
        if isinstance(seconds, bool) or not 0 <= seconds <= ACK_DEADLINE_MAX_SECONDS:
            raise InvalidArgumentError(f"Ack deadline must be between 0 and {ACK_DEADLINE_MAX_SECONDS} seconds")
        _one(
            self._drive(
                lambda: steps.settle(lambda now, texts: self._broker.extend(now, texts, seconds), self._now, [ack_id])
            )
        )

    def replace_body(self, ack_id: str, data: bytes, lease_seconds: float) -> str:
        """The holder of a receipt replaces the body; the new receipt."""
        renewed = self._drive(lambda: steps.renew(self._broker, self._now, ack_id, lease_seconds, data))
        if not renewed.receipt:
            raise InvalidArgumentError(f"Invalid ack ID: {ack_id}")
        return renewed.receipt

    def peek(self, subscription_name: str, max_messages: int) -> list[Message]:
        """Messages a pull would give, left as they are."""
        peeked = self._drive(lambda: steps.peek(self._broker, self._now, subscription_name, max_messages))
        return [message for message, _ in peeked.messages]

    def purge(self, subscription_name: str) -> None:
        self._run(lambda: self._broker.purge(self._now(), subscription_name))

    def backlog(self, subscription_name: str) -> Backlog:
        with self._lock:
            subscription = self._broker.state.subscription(subscription_name)
            return backlog(self._broker.state.read_topic(subscription), subscription)

    # ------------------------------------------------------------------ the log

    def read(self, topic_name: str, first: int, until: int) -> list[Message]:
        """The messages of a topic with first <= offset < until that are still kept."""
        with self._lock:
            self._check()
            topic = self._broker.state.topic(topic_name)
            first, until = max(first, topic.head), min(until, topic.tail)
            self._wait(self._submit())
            return self._journal.read(topic.number, first, until) if first < until else []

    def first_offset_at(self, topic_name: str, at: int) -> int:
        """The first kept offset published at or after an instant (nanoseconds since 1970), or the tail."""
        return self._drive(lambda: steps.first_offset_at(self._broker.state.topic(topic_name), at))

    def seek_to_offset(self, subscription_name: str, offset: int) -> None:
        self._drive(lambda: steps.seek_to_offset(self._broker, self._now, subscription_name, offset))

    def seek_to_time(self, subscription_name: str, at: int) -> None:
        """Messages published before `at` (nanoseconds since 1970) count as acked, kept later ones do not."""
        self._drive(lambda: steps.seek_to_time(self._broker, self._now, subscription_name, at))

    def seek_to_snapshot(self, subscription_name: str, snapshot_name: str) -> None:
        self._run(lambda: self._broker.seek_to_snapshot(self._now(), subscription_name, snapshot_name))

    def create_snapshot(self, snapshot_name: str, subscription_name: str) -> None:
        self._drive(lambda: steps.create_snapshot(self._broker, self._now, snapshot_name, subscription_name, None))

    def delete_snapshot(self, snapshot_name: str) -> None:
        self._run(lambda: self._broker.delete_snapshot(snapshot_name))

    def oldest_unacked_age_seconds(self, subscription_name: str) -> float:
        """How long the oldest unacked message has waited; 0 if there is none."""
        if not self.subscription_exists(subscription_name):
            raise NotFoundError(f"Subscription not found: {subscription_name}")
        published = self._drive(lambda: steps.oldest_publish_time(self._broker, subscription_name))
        return max(0, self._now() - published) / 1e9 if published is not None else 0.0

    def statistics(self) -> BrokerStatistics:
        """What was counted since this queue was opened, and how full it is."""
        with self._lock:
            self._check()
            counted = statistics(self._broker, self._pipeline.meter, self._oldest, self._now())
            return counted._replace(internal_errors=self.internal_errors)


_FIELDS = {*InternalMessage._fields, "length"}


def _draft(message: InternalMessage | Draft | Mapping[str, Any] | bytes) -> Draft:
    # The caller keeps its dictionary: what it does with it later must not reach the log.
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

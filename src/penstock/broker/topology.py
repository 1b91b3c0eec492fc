"""Commands that create, change and delete topics, subscriptions and the documents of doors.

Numbers are used once. Deleting a resource also deletes everything that refers to it.
"""

from __future__ import annotations

from dataclasses import fields
from typing import Any

from penstock.broker import facts as f
from penstock.broker.filters import compile_filter
from penstock.broker.ledger import Ledger
from penstock.broker.limits import NUMBER_MAX, SECONDS_MAX, utf8_length
from penstock.broker.model import Options, SubscriptionOptions, TopicOptions
from penstock.broker.names import NUMBERS_MAX, first_id
from penstock.broker.returning import expire_unused
from penstock.broker.subscription import Subscription
from penstock.broker.topic import Topic
from penstock.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, ResourceExhaustedError

NAME_MAX_BYTES = 1024
WEEK_SECONDS = 7 * 86400
# By the annotation of an option.
_TYPES: dict[Any, type | tuple[type, ...]] = {
    "bool": bool,
    "dict[str, str]": dict,
    "float": (int, float),
    "int": int,
    "str": str,
}


def create_topic(ledger: Ledger, now: int, name: str, options: TopicOptions | None = None) -> Topic:
    check_name(name)
    options = options or TopicOptions()
    _check_topic_options(options)
    if name in ledger.state.topic_names:
        raise AlreadyExistsError(f"Topic already exists: {name}")
    number = _next_number(ledger)
    ledger.emit(f.TopicCreated(number, name, now, options, first_id(ledger.state.identity, number)))
    return ledger.state.topic_names[name]


def change_topic(ledger: Ledger, name: str, options: TopicOptions) -> Topic:
    topic = ledger.state.topic(name)
    _check_topic_options(options)
    ledger.emit(f.TopicChanged(topic.number, options))
    return topic


def delete_topic(ledger: Ledger, name: str) -> None:
    """Delete a topic and its log. Its subscriptions stay, detached, and keep its name."""
    topic = ledger.state.topic(name)
    for number in sorted(topic.readers):
        ledger.emit(f.Detached(number))
    ledger.emit(f.TopicDeleted(topic.number))
    ledger.cache.drop(topic.number)


def create_subscription(
    ledger: Ledger,
    now: int,
    name: str,
    topic_name: str,
    options: SubscriptionOptions | None = None,
    *,
    at_head: bool = False,
) -> Subscription:
    """Create a subscription to messages published from now on, and with `at_head` to the ones that the topic keeps."""
    check_name(name)
    options = options or SubscriptionOptions()
    check_subscription_options(options)
    topic = ledger.state.topic(topic_name)
    expire_unused(ledger, now, name)
    if name in ledger.state.subscription_names:
        raise AlreadyExistsError(f"Subscription already exists: {name}")
    number = _next_number(ledger)
    cursor, position = (topic.head, topic.head_position) if at_head else (topic.tail, topic.position)
    ledger.emit(f.SubscriptionCreated(number, name, topic.number, topic.name, cursor, position, now, options))
    return ledger.state.subscriptions[number]


def change_subscription(ledger: Ledger, name: str, options: SubscriptionOptions) -> Subscription:
    subscription = ledger.state.subscription(name)
    check_subscription_options(options)
    if options.ordering != subscription.options.ordering:
        raise InvalidArgumentError("Message ordering cannot be changed once a subscription exists")
    ledger.emit(f.SubscriptionChanged(subscription.number, options))
    return subscription


def delete_subscription(ledger: Ledger, name: str) -> None:
    ledger.emit(f.SubscriptionDeleted(ledger.state.subscription(name).number))


def detach_subscription(ledger: Ledger, name: str) -> None:
    subscription = ledger.state.subscription(name)
    if not subscription.detached:
        ledger.emit(f.Detached(subscription.number))


def touch_subscription(ledger: Ledger, now: int, name: str) -> None:
    """Record that a subscription is in use, if nothing else shows it."""
    ledger.emit(f.Touched(ledger.state.subscription(name).number, now))


# ------------------------------------------------------------------ documents


def put_document(ledger: Ledger, kind: str, name: str, body: bytes) -> None:
    ledger.emit(f.DocumentPut(kind, name, body))


def remove_document(ledger: Ledger, kind: str, name: str) -> None:
    if name not in ledger.state.documents.get(kind, {}):
        raise NotFoundError(f"Document not found: {name}")
    ledger.emit(f.DocumentRemoved(kind, name))


def _next_number(ledger: Ledger) -> int:
    if ledger.state.next_number >= NUMBERS_MAX:
        raise ResourceExhaustedError("This store has numbered its last topic or subscription")
    return ledger.state.next_number


def check_name(name: str) -> None:
    if type(name) is not str or not name:
        raise InvalidArgumentError("A name must be a non-empty string")
    try:
        length = len(name.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError("A name must be valid Unicode, without lone surrogates") from None
    if length > NAME_MAX_BYTES:
        raise InvalidArgumentError(f"A name may have at most {NAME_MAX_BYTES} bytes")


def _check_values(options: Options) -> None:
    """Raise InvalidArgumentError if a value is not of the type of its option, or if the journal cannot store it."""
    for option in fields(options):  # type: ignore[arg-type]  # every subclass is a dataclass
        value = getattr(options, option.name)
        if not isinstance(value, _TYPES[option.type]) or isinstance(value, bool) != (option.type == "bool"):
            raise InvalidArgumentError(f"{option.name} must be of type {option.type}, not {type(value).__name__}")
        if isinstance(value, int | float) and not value <= NUMBER_MAX:
            raise InvalidArgumentError(f"{option.name} may be at most {NUMBER_MAX}")
        for text in [value] if isinstance(value, str) else [*value, *value.values()] if type(value) is dict else []:
            if not isinstance(text, str):
                raise InvalidArgumentError(f"{option.name} must be of type {option.type}")
            utf8_length(text)


def _check_topic_options(options: TopicOptions) -> None:
    if not isinstance(options, TopicOptions):
        raise InvalidArgumentError("Topic options must be TopicOptions")
    _check_values(options)
    if options.retention_seconds < 0 or options.retention_bytes < 0:
        raise InvalidArgumentError("Retention must not be negative")


def check_subscription_options(options: SubscriptionOptions) -> None:
    if not isinstance(options, SubscriptionOptions):
        raise InvalidArgumentError("Subscription options must be SubscriptionOptions")
    _check_values(options)
    if not 0 < options.lease_seconds <= WEEK_SECONDS:
        raise InvalidArgumentError(f"A lease must last more than 0 and at most {WEEK_SECONDS} seconds")
    if options.ordering_window < 1:
        raise InvalidArgumentError("The ordering window must be at least 1")
    if 0 < options.retry_maximum_seconds < options.retry_minimum_seconds:
        raise InvalidArgumentError("The maximum backoff must not be below the minimum")
    if max(options.retry_minimum_seconds, options.retry_maximum_seconds) > SECONDS_MAX:
        raise InvalidArgumentError(f"A backoff may be at most {SECONDS_MAX:.0f} seconds")
    if options.max_delivery_attempts < 1:
        raise InvalidArgumentError("At least one delivery attempt is needed")
    values = (
        options.flow_max_messages,
        options.flow_max_bytes,
        options.retention_seconds,
        options.expiration_seconds,
        options.retry_minimum_seconds,
        options.retry_maximum_seconds,
    )
    if min(values) < 0:
        raise InvalidArgumentError("Limits, retention and expiration must not be negative")
    if options.filter:
        compile_filter(options.filter)

"""The subscriptions of Pub/Sub, stored as subscriptions of the broker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import lru_cache
from typing import Any

from penstock.broker.filters import compile_filter
from penstock.broker.model import SubscriptionOptions
from penstock.doors.google import names, paging, ranges
from penstock.doors.google.calls import Context
from penstock.doors.google.destinations import (
    DESTINATIONS,
    KeptSettings,
    check_destinations,
    default_ack_deadline,
    fill_version,
)
from penstock.doors.google.errors import already_exists, bad_argument, invalid, not_found
from penstock.doors.google.messages import Empty, Subscription, response
from penstock.doors.google.topics import (
    ACTIVE,
    EXTRAS,
    RETENTION_MAX_SECONDS,
    RETENTION_MIN_SECONDS,
    check_exists,
    check_labels,
    check_transforms,
    kept_settings,
    settings_to_keep,
)
from penstock.doors.google.update_masks import apply_update_mask
from penstock.engine.port import Queue, SubscriptionMetadata, TopicMetadata

ACK_DEADLINE_MIN_SECONDS, ACK_DEADLINE_MAX_SECONDS = 10, 600
RETENTION_SECONDS = 7 * ranges.DAY
EXPIRATION_SECONDS, EXPIRATION_MIN_SECONDS = 31 * ranges.DAY, ranges.DAY
ATTEMPTS, ATTEMPTS_MIN, ATTEMPTS_MAX = 5, 5, 100
BACKOFF_MIN_SECONDS, BACKOFF_SECONDS, BACKOFF_MAX_SECONDS = 10.0, 600.0, 600.0
ORDERING_WINDOW = 1000  # outstanding messages of one ordering key

MUTABLE = {
    "ack_deadline_seconds",
    "retain_acked_messages",
    "message_retention_duration",
    "labels",
    "expiration_policy",
    "dead_letter_policy",
    "retry_policy",
    "enable_exactly_once_delivery",
    "push_config",
    "message_transforms",
    *DESTINATIONS,
}
# Fields that are computed for every answer, and so are not stored with the settings. `detached` is stored, because a
# deleted topic detaches its subscriptions too, and the two cases look different to clients.
BROKERS = (
    "name",
    "topic",
    "ack_deadline_seconds",
    "retain_acked_messages",
    "message_retention_duration",
    "labels",
    "enable_message_ordering",
    "expiration_policy",
    "filter",
    "dead_letter_policy",
    "enable_exactly_once_delivery",
    "topic_message_retention_duration",
    "state",
    "analytics_hub_subscription_info",
)


def is_detached(metadata: SubscriptionMetadata) -> bool:
    """Return whether a subscription was detached by request, and not by the deletion of its topic."""
    return metadata.detached and bool(kept_settings(metadata.options.extras, Subscription).detached)


def is_pushed(metadata: SubscriptionMetadata) -> bool:
    return _has_endpoint(metadata.options.extras.get(EXTRAS, ""))


@lru_cache(maxsize=1024)
def _has_endpoint(kept: str) -> bool:
    """Return whether kept settings have a push endpoint. Cached, because every pull needs it."""
    return bool(kept) and bool(kept_settings({EXTRAS: kept}, Subscription).push_config.push_endpoint)


async def get_subscription(queue: Queue, name: str) -> SubscriptionMetadata:
    metadata = await queue.find_subscription(name)
    if metadata is None:
        raise not_found(names.subscription(name))
    return metadata


# ---------------------------------------------------------------------- options -> Subscription


def subscription_message(metadata: SubscriptionMetadata, topic: TopicMetadata | None) -> Any:
    options = metadata.options
    subscription = kept_settings(options.extras, Subscription)
    subscription.name = metadata.name
    deleted = metadata.detached and not subscription.detached
    subscription.topic = names.DELETED_TOPIC if deleted else metadata.topic
    subscription.push_config.SetInParent()
    fill_version(subscription.push_config)
    subscription.ack_deadline_seconds = int(options.lease_seconds)
    subscription.retain_acked_messages = options.retain_acked
    subscription.labels.update(options.labels)
    subscription.enable_message_ordering = options.ordering
    subscription.filter = options.filter
    subscription.enable_exactly_once_delivery = options.exactly_once
    subscription.state = ACTIVE
    subscription.ClearField("tags")  # input only
    ranges.set_duration(subscription.message_retention_duration, options.retention_seconds or RETENTION_MAX_SECONDS)
    subscription.expiration_policy.SetInParent()
    if options.expiration_seconds:
        ranges.set_duration(subscription.expiration_policy.ttl, options.expiration_seconds)
    _add_policies(subscription, options)
    if topic is not None and topic.options.retention_seconds:
        ranges.set_duration(subscription.topic_message_retention_duration, topic.options.retention_seconds)
    return subscription


def _add_policies(subscription: Any, options: SubscriptionOptions) -> None:
    if options.dead_letter_topic:
        subscription.dead_letter_policy.dead_letter_topic = options.dead_letter_topic
        subscription.dead_letter_policy.max_delivery_attempts = options.max_delivery_attempts
    if options.retry_minimum_seconds or options.retry_maximum_seconds or subscription.HasField("retry_policy"):
        ranges.set_duration(subscription.retry_policy.minimum_backoff, options.retry_minimum_seconds)
        ranges.set_duration(subscription.retry_policy.maximum_backoff, options.retry_maximum_seconds)


# ---------------------------------------------------------------------- Subscription -> options


def subscription_options(subscription: Any, base: SubscriptionOptions) -> SubscriptionOptions:
    """Check a Subscription, and return the broker's options for it."""
    check_labels(subscription.labels)
    check_transforms(subscription.message_transforms)
    check_destinations(subscription)
    compile_filter(subscription.filter)
    exactly_once = subscription.enable_exactly_once_delivery
    return replace(
        base,
        lease_seconds=_ack_deadline(subscription),
        exactly_once=exactly_once,
        ordering=subscription.enable_message_ordering,
        ordering_window=ORDERING_WINDOW if subscription.enable_message_ordering else 1,
        filter=subscription.filter,
        retention_seconds=_retention(subscription),
        retain_acked=subscription.retain_acked_messages,
        expiration_seconds=_expiration(subscription),
        labels=dict(subscription.labels),
        extras={**base.extras, EXTRAS: settings_to_keep(subscription, BROKERS)},
        **_retry(subscription),
        **_dead_letter(subscription),
    )


def _ack_deadline(subscription: Any) -> float:
    value = subscription.ack_deadline_seconds
    if value:
        ranges.within("ack_deadline_seconds", value, ACK_DEADLINE_MIN_SECONDS, ACK_DEADLINE_MAX_SECONDS)
    return float(value) or default_ack_deadline(subscription)


def _retention(subscription: Any) -> float:
    if not subscription.HasField("message_retention_duration"):
        return RETENTION_SECONDS
    value = ranges.seconds(subscription.message_retention_duration)
    ranges.within("message_retention_duration", value, RETENTION_MIN_SECONDS, RETENTION_MAX_SECONDS)
    return value


def _expiration(subscription: Any) -> float:
    if not subscription.HasField("expiration_policy"):
        return EXPIRATION_SECONDS
    if not subscription.expiration_policy.HasField("ttl"):
        return 0
    value = ranges.seconds(subscription.expiration_policy.ttl)
    ranges.within("expiration_policy.ttl", value, EXPIRATION_MIN_SECONDS, None)
    return value


def _retry(subscription: Any) -> dict[str, Any]:
    if not subscription.HasField("retry_policy"):
        return {"retry_minimum_seconds": 0, "retry_maximum_seconds": 0}
    policy = subscription.retry_policy
    bounds = [BACKOFF_MIN_SECONDS, BACKOFF_SECONDS]
    for index, name in enumerate(("minimum_backoff", "maximum_backoff")):
        if policy.HasField(name):
            bounds[index] = ranges.seconds(getattr(policy, name))
            ranges.within(f"retry_policy.{name}", bounds[index], 0, BACKOFF_MAX_SECONDS)
    if bounds[0] > bounds[1]:
        raise invalid("The value for retry_policy.minimum_backoff must not be larger than maximum_backoff.")
    return {"retry_minimum_seconds": bounds[0], "retry_maximum_seconds": bounds[1]}


def _dead_letter(subscription: Any) -> dict[str, Any]:
    if not subscription.HasField("dead_letter_policy"):
        return {"dead_letter_topic": "", "max_delivery_attempts": ATTEMPTS}
    policy = subscription.dead_letter_policy
    if not policy.dead_letter_topic:
        raise bad_argument("dead_letter_policy.dead_letter_topic")
    attempts = policy.max_delivery_attempts or ATTEMPTS
    ranges.within("max_delivery_attempts", attempts, ATTEMPTS_MIN, ATTEMPTS_MAX)
    return {"dead_letter_topic": names.topic(policy.dead_letter_topic), "max_delivery_attempts": attempts}


# ---------------------------------------------------------------------- the methods


class Subscriptions:
    """The methods of the Subscriber service that manage subscriptions."""

    def __init__(self, queue: Queue, check_endpoint: Callable[[Any], None], kept: KeptSettings) -> None:
        """`check_endpoint` gets every PushConfig and raises CallError if it is invalid."""
        self._queue = queue
        self._kept = kept
        self._check_endpoint = check_endpoint

    async def create(self, request: Any, context: Context) -> Any:
        await check_exists(self._queue, request.topic)
        if not request.name:
            request.name = names.generate_name(names.project_of(request.topic), "subscriptions")
        name = names.subscription(request.name)
        if await self._queue.find_subscription(name) is not None:
            raise already_exists(name)
        request.ClearField("detached")
        fill_version(request.push_config)
        options = await self._options(request, SubscriptionOptions())
        metadata = await self._queue.create_subscription(name, request.topic, options)
        self._kept.note(name, request)
        return await self._message(metadata)

    async def update(self, request: Any, context: Context) -> Any:
        metadata = await get_subscription(self._queue, request.subscription.name)
        current = await self._message(metadata)
        subscription = apply_update_mask(current, request.subscription, request.update_mask.paths, MUTABLE)
        fill_version(subscription.push_config, current.push_config)
        return await self._change(metadata, subscription)

    async def modify_push_config(self, request: Any, context: Context) -> Any:
        metadata = await get_subscription(self._queue, request.subscription)
        current = await self._message(metadata)
        subscription = Subscription()
        subscription.CopyFrom(current)
        subscription.push_config.CopyFrom(request.push_config)
        fill_version(subscription.push_config, current.push_config)
        await self._change(metadata, subscription)
        return Empty()

    async def _change(self, metadata: SubscriptionMetadata, subscription: Any) -> Any:
        options = await self._options(subscription, metadata.options)
        changed = await self._queue.change_subscription(metadata.name, options)
        self._kept.note(metadata.name, subscription)
        return await self._message(changed)

    async def _options(self, subscription: Any, base: SubscriptionOptions) -> SubscriptionOptions:
        self._check_endpoint(subscription.push_config)
        options = subscription_options(subscription, base)
        if options.dead_letter_topic != base.dead_letter_topic and options.dead_letter_topic:
            await check_exists(self._queue, options.dead_letter_topic)
        return options

    async def get(self, request: Any, context: Context) -> Any:
        return await self._message(await get_subscription(self._queue, request.subscription))

    async def list(self, request: Any, context: Context) -> Any:
        prefix = f"{names.check_project(request.project)}/subscriptions/"
        chosen, token = await paging.names_page(self._queue, "subscriptions", prefix, request)
        listed = [await self._message(metadata) for metadata in await self._queue.find_subscriptions(chosen)]
        return response("ListSubscriptionsResponse")(subscriptions=listed, next_page_token=token)

    async def delete(self, request: Any, context: Context) -> Any:
        name = (await get_subscription(self._queue, request.subscription)).name
        await self._queue.delete_subscription(name)
        return Empty()

    async def detach(self, request: Any, context: Context) -> Any:
        metadata = await get_subscription(self._queue, request.subscription)
        kept = kept_settings(metadata.options.extras, Subscription)
        kept.detached = True
        extras = {**metadata.options.extras, EXTRAS: settings_to_keep(kept, ())}
        await self._queue.change_subscription(metadata.name, replace(metadata.options, extras=extras))
        await self._queue.detach_subscription(metadata.name)
        return response("DetachSubscriptionResponse")()

    async def _message(self, metadata: SubscriptionMetadata) -> Any:
        topic = await self._queue.find_topic(metadata.topic) if not metadata.detached else None
        return subscription_message(metadata, topic)

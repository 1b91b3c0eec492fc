"""Topics as Pub/Sub describes them, kept as topics of the broker."""

from __future__ import annotations

import base64
import unicodedata
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from penstock.broker.model import TopicOptions
from penstock.doors.google import names, paging, ranges
from penstock.doors.google.calls import Context
from penstock.doors.google.errors import already_exists, bad_argument, invalid, not_found
from penstock.doors.google.masks import merged
from penstock.doors.google.messages import Empty, Topic, response
from penstock.engine.port import Queue, TopicMetadata

EXTRAS = "google"  # the key of a door's own settings among a resource's extras
LABELS_MAX, LABEL_MAX = 64, 63
RETENTION_MIN_SECONDS, RETENTION_MAX_SECONDS = 10 * ranges.MINUTE, 31 * ranges.DAY
ACTIVE = 1

MUTABLE = {
    "labels",
    "message_storage_policy",
    "kms_key_name",
    "schema_settings",
    "message_retention_duration",
    "ingestion_data_source_settings",
    "message_transforms",
}
BROKERS = ("name", "labels", "message_retention_duration", "satisfies_pzs", "state")


def kept_settings(extras: dict[str, str], kind: Any) -> Any:
    """What a client set and the broker does not act on."""
    return kind.FromString(base64.b64decode(extras.get(EXTRAS, "")))


def settings_to_keep(message: Any, brokers: tuple[str, ...]) -> str:
    rest = type(message)()
    rest.CopyFrom(message)
    for name in brokers:
        rest.ClearField(name)
    return base64.b64encode(rest.SerializeToString(deterministic=True)).decode()


def check_labels(labels: Any) -> None:
    ranges.within("labels", len(labels), None, LABELS_MAX)
    for key, value in labels.items():
        if not key or not _is_small(key[0]) or not _is_label(key) or not _is_label(value):
            raise bad_argument("labels")


def _is_label(text: str) -> bool:
    return len(text) <= LABEL_MAX and all(_is_small(each) or each.isnumeric() or each in "_-" for each in text)


def _is_small(letter: str) -> bool:
    """A letter without a capital form, or not in it."""
    return letter.isalpha() and unicodedata.category(letter) in ("Ll", "Lo")


# What a transform cannot do without, by its kind.
_TRANSFORMS = {
    "javascript_udf": ("function_name", "code"),
    "ai_inference": ("endpoint",),
    "compression": ("compression_algorithm", "compression_mode"),
}


def check_transforms(transforms: Any) -> None:
    for transform in transforms:
        kind = transform.WhichOneof("transform")
        if kind is None:
            raise bad_argument("message_transforms")
        for name in _TRANSFORMS.get(kind, ()):
            if not getattr(getattr(transform, kind), name):
                raise bad_argument(f"{kind}.{name}")


def topic_message(metadata: TopicMetadata) -> Any:
    options = metadata.options
    topic = kept_settings(options.extras, Topic)
    topic.name = metadata.name
    topic.labels.update(options.labels)
    if options.retention_seconds:
        ranges.set_duration(topic.message_retention_duration, options.retention_seconds)
    topic.state = ACTIVE
    topic.ClearField("tags")  # input only
    return topic


def topic_options(topic: Any, base: TopicOptions) -> TopicOptions:
    """The broker's options for a Topic, its values checked."""
    check_labels(topic.labels)
    check_transforms(topic.message_transforms)
    retention = 0.0
    if topic.HasField("message_retention_duration"):
        retention = ranges.seconds(topic.message_retention_duration)
        ranges.within("message_retention_duration", retention, RETENTION_MIN_SECONDS, RETENTION_MAX_SECONDS)
    extras = {**base.extras, EXTRAS: settings_to_keep(topic, BROKERS)}
    return replace(base, retention_seconds=retention, labels=dict(topic.labels), extras=extras)


class Topics:
    """The Publisher service, but for Publish."""

    def __init__(self, queue: Queue, check_schema: Callable[[Any], Awaitable[None]]) -> None:
        """`check_schema` gets SchemaSettings and raises if they name what is not there."""
        self._queue = queue
        self._check_schema = check_schema

    async def create(self, request: Any, context: Context) -> Any:
        name = names.topic(request.name)
        if await self._queue.find_topic(name) is not None:
            raise already_exists(name)
        if request.HasField("schema_settings"):
            await self._check_schema(request.schema_settings)
        return topic_message(await self._queue.create_topic(name, topic_options(request, TopicOptions())))

    async def update(self, request: Any, context: Context) -> Any:
        metadata = await found_topic(self._queue, request.topic.name)
        topic = merged(topic_message(metadata), request.topic, request.update_mask.paths, MUTABLE)
        if topic.HasField("schema_settings") and topic.schema_settings.schema != names.DELETED_SCHEMA:
            await self._check_schema(topic.schema_settings)
        options = topic_options(topic, metadata.options)
        return topic_message(await self._queue.change_topic(metadata.name, options))

    async def get(self, request: Any, context: Context) -> Any:
        return topic_message(await found_topic(self._queue, request.topic))

    async def list(self, request: Any, context: Context) -> Any:
        prefix = f"{names.check_project(request.project)}/topics/"
        known = {topic.name: topic for topic in await self._queue.topics() if topic.name.startswith(prefix)}
        chosen, token = paging.page(known, request.page_size, request.page_token)
        listed = [topic_message(known[name]) for name in chosen]
        return response("ListTopicsResponse")(topics=listed, next_page_token=token)

    async def list_subscriptions(self, request: Any, context: Context) -> Any:
        name = (await found_topic(self._queue, request.topic)).name
        readers = [subscription.name for subscription in await self._queue.subscriptions(name)]
        chosen, token = paging.page(readers, request.page_size, request.page_token)
        return response("ListTopicSubscriptionsResponse")(subscriptions=chosen, next_page_token=token)

    async def list_snapshots(self, request: Any, context: Context) -> Any:
        number = (await found_topic(self._queue, request.topic)).number
        known = [snapshot.name for snapshot in await self._queue.snapshots() if snapshot.topic == number]
        chosen, token = paging.page(known, request.page_size, request.page_token)
        return response("ListTopicSnapshotsResponse")(snapshots=chosen, next_page_token=token)

    async def delete(self, request: Any, context: Context) -> Any:
        await self._queue.delete_topic((await found_topic(self._queue, request.topic)).name)
        return Empty()


async def found_topic(queue: Queue, name: str) -> TopicMetadata:
    topic = await queue.find_topic(name)
    if topic is None:
        raise not_found(names.topic(name))
    return topic


async def check_exists(queue: Queue, name: str) -> None:
    if name == names.DELETED_TOPIC:
        raise invalid("The topic was deleted.")
    await found_topic(queue, name)

"""The topics of Pub/Sub, stored as topics of the broker."""

from __future__ import annotations

import base64
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import Any

from penstock.broker import limits
from penstock.broker.model import TopicOptions
from penstock.doors.google import names, paging, ranges
from penstock.doors.google.calls import Context
from penstock.doors.google.destinations import KeptSettings
from penstock.doors.google.errors import already_exists, bad_argument, invalid, not_found
from penstock.doors.google.messages import Empty, Topic, response
from penstock.doors.google.update_masks import apply_update_mask
from penstock.engine.port import Queue, TopicMetadata
from penstock.errors import InvalidArgumentError

EXTRAS = "google"  # the key of a door's own settings among a resource's extras
ENABLED_TRANSFORMS_MAX = 5
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
    """Return the settings of a client that the broker does not act on."""
    return kind.FromString(base64.b64decode(extras.get(EXTRAS, "")))


def settings_to_keep(message: Any, brokers: tuple[str, ...]) -> str:
    kept = type(message)()
    kept.CopyFrom(message)
    for name in brokers:
        kept.ClearField(name)
    return base64.b64encode(kept.SerializeToString(deterministic=True)).decode()


def check_labels(labels: Any) -> None:
    ranges.within("labels", len(labels), None, limits.LABELS_MAX)
    try:
        limits.check_labels(labels)
    except InvalidArgumentError:
        raise bad_argument("labels") from None


# The required fields of a transform, by its kind.
_TRANSFORMS = {
    "javascript_udf": ("function_name", "code"),
    "ai_inference": ("endpoint",),
    "compression": ("compression_algorithm", "compression_mode"),
}


def check_transforms(transforms: Any) -> None:
    enabled = sum(not transform.disabled for transform in transforms)
    if enabled > ENABLED_TRANSFORMS_MAX:
        raise invalid(
            "The request exceeds the maximum number of enabled message transforms. "
            f"Maximum enabled transforms: {ENABLED_TRANSFORMS_MAX}. Enabled transforms: {enabled}"
        )
    for transform in transforms:
        kind = transform.WhichOneof("transform")
        if kind is None:
            raise bad_argument("message_transforms")
        for name in _TRANSFORMS.get(kind, ()):
            if not getattr(getattr(transform, kind), name):
                raise bad_argument(f"{kind}.{name}")


def check_storage_policy(topic: Any) -> None:
    """Refuse a policy that names no region. A topic without a policy has the one of its project."""
    if topic.HasField("message_storage_policy") and not topic.message_storage_policy.allowed_persistence_regions:
        raise bad_argument("message_storage_policy.allowed_persistence_regions")


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
    """Check a Topic, and return the broker's options for it."""
    check_labels(topic.labels)
    check_transforms(topic.message_transforms)
    retention = 0.0
    if topic.HasField("message_retention_duration"):
        retention = ranges.seconds(topic.message_retention_duration)
        ranges.within("message_retention_duration", retention, RETENTION_MIN_SECONDS, RETENTION_MAX_SECONDS)
    extras = {**base.extras, EXTRAS: settings_to_keep(topic, BROKERS)}
    return replace(base, retention_seconds=retention, labels=dict(topic.labels), extras=extras)


class Topics:
    """The methods of the Publisher service, except Publish."""

    def __init__(self, queue: Queue, check_schema: Callable[[Any], Awaitable[None]], kept: KeptSettings) -> None:
        """`check_schema` gets SchemaSettings and raises CallError if the schema or a revision does not exist."""
        self._queue = queue
        self._check_schema = check_schema
        self._kept = kept

    async def create(self, request: Any, context: Context) -> Any:
        name = names.topic(request.name)
        if await self._queue.find_topic(name) is not None:
            raise already_exists(name)
        if request.HasField("schema_settings"):
            await self._check_schema(request.schema_settings)
        topic = topic_message(await self._queue.create_topic(name, topic_options(request, TopicOptions())))
        self._kept.note(name, topic)
        return topic

    async def update(self, request: Any, context: Context) -> Any:
        metadata = await get_topic(self._queue, request.topic.name)
        paths = request.update_mask.paths
        topic = apply_update_mask(topic_message(metadata), request.topic, paths, MUTABLE)
        if any(path.partition(".")[0] == "message_storage_policy" for path in paths):
            check_storage_policy(topic)
        if topic.HasField("schema_settings") and topic.schema_settings.schema != names.DELETED_SCHEMA:
            await self._check_schema(topic.schema_settings)
        options = topic_options(topic, metadata.options)
        changed = topic_message(await self._queue.change_topic(metadata.name, options))
        self._kept.note(metadata.name, changed)
        return changed

    async def get(self, request: Any, context: Context) -> Any:
        return topic_message(await get_topic(self._queue, request.topic))

    async def list(self, request: Any, context: Context) -> Any:
        prefix = f"{names.check_project(request.project)}/topics/"
        chosen, token = await paging.names_page(self._queue, "topics", prefix, request)
        listed = [topic_message(topic) for topic in await self._queue.find_topics(chosen)]
        return response("ListTopicsResponse")(topics=listed, next_page_token=token)

    async def list_subscriptions(self, request: Any, context: Context) -> Any:
        name = (await get_topic(self._queue, request.topic)).name
        readers = [subscription.name for subscription in await self._queue.subscriptions(name)]
        chosen, token = paging.page(readers, request.page_size, request.page_token)
        return response("ListTopicSubscriptionsResponse")(subscriptions=chosen, next_page_token=token)

    async def list_snapshots(self, request: Any, context: Context) -> Any:
        number = (await get_topic(self._queue, request.topic)).number
        snapshots = [snapshot.name for snapshot in await self._queue.snapshots() if snapshot.topic == number]
        chosen, token = paging.page(snapshots, request.page_size, request.page_token)
        return response("ListTopicSnapshotsResponse")(snapshots=chosen, next_page_token=token)

    async def delete(self, request: Any, context: Context) -> Any:
        await self._queue.delete_topic((await get_topic(self._queue, request.topic)).name)
        return Empty()


async def get_topic(queue: Queue, name: str) -> TopicMetadata:
    topic = await queue.find_topic(name)
    if topic is None:
        raise not_found(names.topic(name))
    return topic


async def check_exists(queue: Queue, name: str) -> None:
    if name == names.DELETED_TOPIC:
        raise invalid("The topic was deleted.")
    await get_topic(queue, name)

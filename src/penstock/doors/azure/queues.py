"""Queues: topics with one subscription of the same name, and what this door keeps about them.

Metadata and policies live in the options of the topic, so that they leave with it.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import NamedTuple

import msgspec

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.doors.azure.accounts import Accounts
from penstock.doors.azure.errors import AzureError
from penstock.doors.azure.names import QUEUE_NAME_MAX
from penstock.doors.azure.policies import Policy, decode_policies, encode_policies
from penstock.doors.resources import QUEUE_OPTIONS, subscription_name, topic_name
from penstock.engine.port import Queue
from penstock.errors import FailedPreconditionError
from penstock.wire.message import Request

METADATA_MAX_BYTES = 8 << 10
METADATA, POLICIES = "azure_metadata", "azure_policies"  # in the extras of a topic
POISON = "-poison"
MAX_DEQUEUE_COUNT = "penstock_max_dequeue_count"  # metadata that gives one queue a poison queue of its own

_PREFIX = "x-ms-meta-"


class Place(NamedTuple):
    """Where a queue is in the broker."""

    topic: str
    subscription: str
    first_id: int  # of the topic
    number: int  # of the subscription


class Queues:
    def __init__(self, queue: Queue, accounts: Accounts, *, poison_after: int = 0) -> None:
        self._queue = queue
        self._accounts = accounts
        self._poison_after = poison_after  # deliveries before a message is moved aside, for every queue; 0: never

    def _named(self, account: str, name: str) -> tuple[str, str]:
        """The topic of a queue, and its subscription."""
        project = self._accounts.project_of(account)
        return topic_name(project, name), subscription_name(project, name)

    async def find(self, account: str, name: str) -> Place:
        topic, subscription = self._named(account, name)
        numbers = await self._queue.find_queue(topic, subscription)
        if numbers is None:
            raise AzureError("QueueNotFound")
        return Place(topic, subscription, *numbers)

    async def page(self, account: str, prefix: str, start: str, most: int) -> list[str]:
        """Up to `most` names from `start` on, in order."""
        ends = await self._queue.queue_names(*self._named(account, prefix))
        return heapq.nsmallest(most, (prefix + end for end in ends if prefix + end >= start))

    # ------------------------------------------------------------------ coming and going

    async def create(self, account: str, name: str, metadata: Mapping[str, str]) -> bool:
        """Whether the queue is new. AzureError if it is there with other metadata."""
        topic, subscription = self._named(account, name)
        if await self._queue.find_queue(topic, subscription) is not None:
            if not _same(await self.metadata(account, name), metadata):
                raise AzureError("QueueAlreadyExists")
            await self._queue.commit()  # it may have been made a moment ago, by a request still to be answered
            return False
        options = await self._with_poison(account, name, QUEUE_OPTIONS, metadata)
        about = TopicOptions(extras=_with_extra({}, METADATA, encode_metadata(metadata)))
        try:
            await self._queue.provide_queue(topic, subscription, options, about)
        except FailedPreconditionError:
            raise AzureError("QueueAlreadyExists") from None
        await self._set_extra(topic, METADATA, encode_metadata(metadata))  # if the topic was there before the queue
        return True

    async def delete(self, account: str, name: str) -> None:
        place = await self.find(account, name)
        await self._queue.remove_queue(place.topic, place.subscription)

    # ------------------------------------------------------------------ metadata and policies

    async def metadata(self, account: str, name: str) -> dict[str, str]:
        return decode_metadata(await self._options(account, name))

    async def set_metadata(self, account: str, name: str, metadata: Mapping[str, str]) -> None:
        place = await self.find(account, name)
        found = await self._queue.find_subscription(place.subscription)
        if found is None:
            raise AzureError("QueueNotFound")
        wanted = await self._with_poison(account, name, found.options, metadata)
        if wanted != found.options:
            await self._queue.change_subscription(place.subscription, wanted)
        await self._set_extra(place.topic, METADATA, encode_metadata(metadata))

    async def policies(self, account: str, name: str) -> list[Policy]:
        return decode_policies((await self._options(account, name)).extras.get(POLICIES, ""))

    async def set_policies(self, account: str, name: str, policies: list[Policy]) -> None:
        place = await self.find(account, name)
        await self._set_extra(place.topic, POLICIES, encode_policies(policies) if policies else "")

    async def _options(self, account: str, name: str) -> TopicOptions:
        return await self._topic_options((await self.find(account, name)).topic)

    async def _topic_options(self, name: str) -> TopicOptions:
        topic = await self._queue.find_topic(name)
        if topic is None:
            raise AzureError("QueueNotFound")
        return topic.options

    async def _set_extra(self, topic: str, key: str, text: str) -> None:
        options = await self._topic_options(topic)
        extras = _with_extra(options.extras, key, text)
        if extras == options.extras:
            await self._queue.commit()
        else:
            await self._queue.change_topic(topic, replace(options, extras=extras))

    # ------------------------------------------------------------------ poison queues

    async def _with_poison(
        self, account: str, name: str, options: SubscriptionOptions, metadata: Mapping[str, str]
    ) -> SubscriptionOptions:
        """The options of a queue that moves messages aside after so many deliveries, or no longer does."""
        own = [int(value) for key, value in metadata.items() if key.lower() == MAX_DEQUEUE_COUNT]
        poison, attempts = name + POISON, own[0] if own else self._poison_after
        topic, subscription = self._named(account, poison)
        if not attempts or name.endswith(POISON) or len(poison) > QUEUE_NAME_MAX:
            ours = options.dead_letter_topic == topic
            return replace(options, dead_letter_topic="", max_delivery_attempts=5) if ours else options
        await self._queue.provide_queue(topic, subscription, QUEUE_OPTIONS)
        return replace(options, dead_letter_topic=topic, max_delivery_attempts=attempts)


def encode_metadata(metadata: Mapping[str, str]) -> str:
    return msgspec.json.encode(metadata).decode() if metadata else ""


def decode_metadata(options: TopicOptions) -> dict[str, str]:
    text = options.extras.get(METADATA)
    return msgspec.json.decode(text, type=dict[str, str]) if text else {}


def read_metadata(request: Request, is_name: Callable[[str], bool]) -> dict[str, str]:
    """The metadata of a request, names in the case they were sent."""
    metadata: dict[str, str] = {}
    size = 0
    for (name, value), spelled in zip(request.headers, request.spelled, strict=True):
        if name.startswith(_PREFIX):
            key, value = spelled.decode("latin-1")[len(_PREFIX) :], value.strip()
            if not key:
                raise AzureError("EmptyMetadataKey")
            repeated = key.lower() in {each.lower() for each in metadata}
            if not is_name(key) or not (value.isascii() and value.isprintable()) or repeated:
                raise AzureError("InvalidMetadata")
            if key.lower() == MAX_DEQUEUE_COUNT and not (value.isascii() and value.isdigit() and len(value) < 6):
                raise AzureError("InvalidMetadata")
            metadata[key] = value
            size += len(key) + len(value)
    if size > METADATA_MAX_BYTES:
        raise AzureError("MetadataTooLarge")
    return metadata


def metadata_headers(metadata: Mapping[str, str]) -> list[tuple[str, str]]:
    return [(_PREFIX + name, value) for name, value in metadata.items()]


def _with_extra(extras: Mapping[str, str], key: str, text: str) -> dict[str, str]:
    others = {name: value for name, value in extras.items() if name != key}
    return {**others, key: text} if text else others


def _same(ours: Mapping[str, str], theirs: Mapping[str, str]) -> bool:
    return {name.lower(): value for name, value in ours.items()} == {n.lower(): v for n, v in theirs.items()}

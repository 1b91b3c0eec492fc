"""Queues: topics with one subscription of the same name, with metadata, policies and a poison queue.

Metadata and policies are stored in the options of the topic, so that they are deleted with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from typing import NamedTuple

import msgspec

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.doors.azure.accounts import Accounts
from penstock.doors.azure.errors import AzureError
from penstock.doors.azure.names import QUEUE_NAME_MAX
from penstock.doors.azure.policies import Policy, decode_policies, encode_policies
from penstock.doors.resources import QUEUE_OPTIONS, TOPICS, subscription_name, topic_name
from penstock.engine.port import Queue
from penstock.errors import FailedPreconditionError
from penstock.wire.http1_message import Request
from penstock.wire.turns import Turns

METADATA_MAX_BYTES = 8 << 10
METADATA, POLICIES = "azure_metadata", "azure_policies"  # keys in the extras of a topic
POISON = "-poison"
CHUNK_NAMES = 1000  # of topics that are looked at for a page
MAX_DEQUEUE_COUNT = "penstock_max_dequeue_count"  # metadata that gives a single queue a poison queue

_PREFIX = "x-ms-meta-"


class QueueRef(NamedTuple):
    """The topic and the subscription of a queue in the broker."""

    topic: str
    subscription: str
    first_id: int  # of the topic
    number: int  # of the subscription


class Queues:
    def __init__(self, queue: Queue, accounts: Accounts, *, poison_after: int = 0) -> None:
        self._queue = queue
        self._accounts = accounts
        self._poison_after = poison_after  # deliveries before a message moves to the poison queue. 0: never

    def _full_names(self, account: str, name: str) -> tuple[str, str]:
        """Return the names of the topic and the subscription of a queue."""
        project = self._accounts.project_of(account)
        return topic_name(project, name), subscription_name(project, name)

    async def find(self, account: str, name: str) -> QueueRef:
        topic, subscription = self._full_names(account, name)
        numbers = await self._queue.find_queue(topic, subscription)
        if numbers is None:
            raise AzureError("QueueNotFound")
        return QueueRef(topic, subscription, *numbers)

    async def page(self, account: str, prefix: str, start: str, most: int) -> list[str]:
        """Return up to `most` names from `start` on, in order. The cost depends on the topics up to the last name."""
        (all_topics, _), (topics, _) = self._full_names(account, ""), self._full_names(account, prefix)
        found: list[str] = []
        names, turns = [start] if start and start.startswith(prefix) else [], Turns()
        last = all_topics + start if start else None
        while True:
            for name in names:
                if await self._queue.find_queue(*self._full_names(account, name)) is not None:
                    found.append(name)
                    if len(found) == most:
                        return found
                await turns.give()
            chunk = (await self._queue.names(TOPICS, topics, last, CHUNK_NAMES)).names
            if not chunk:
                return found
            names, last = [name.removeprefix(all_topics) for name in chunk], chunk[-1]

    # ------------------------------------------------------------------ create and delete

    async def create(self, account: str, name: str, metadata: Mapping[str, str]) -> bool:
        """Create a queue. Return whether it is new. Raise AzureError if it exists with other metadata."""
        topic, subscription = self._full_names(account, name)
        if await self._queue.find_queue(topic, subscription) is not None:
            if not _is_same(await self.metadata(account, name), metadata):
                raise AzureError("QueueAlreadyExists")
            await self._queue.commit()  # the request that created the queue may still wait for its commit
            return False
        options = await self._with_poison(account, name, QUEUE_OPTIONS, metadata)
        about = TopicOptions(extras=_with_extra({}, METADATA, encode_metadata(metadata)))
        try:
            await self._queue.provide_queue(topic, subscription, options, about)
        except FailedPreconditionError:
            raise AzureError("QueueAlreadyExists") from None
        await self._set_extra(topic, METADATA, encode_metadata(metadata))  # if the topic existed before the queue
        return True

    async def delete(self, account: str, name: str) -> None:
        ref = await self.find(account, name)
        await self._queue.remove_queue(ref.topic, ref.subscription)

    # ------------------------------------------------------------------ metadata and policies

    async def metadata(self, account: str, name: str) -> dict[str, str]:
        return decode_metadata(await self._options(account, name))

    async def metadata_of(self, account: str, names: Iterable[str]) -> dict[str, dict[str, str]]:
        """Return the metadata of queues by their names. Queues that are deleted meanwhile are left out."""
        found, turns = dict[str, dict[str, str]](), Turns()
        for name in names:
            with suppress(AzureError):
                found[name] = await self.metadata(account, name)
            await turns.give()
        return found

    async def set_metadata(self, account: str, name: str, metadata: Mapping[str, str]) -> None:
        ref = await self.find(account, name)
        subscription = await self._queue.find_subscription(ref.subscription)
        if subscription is None:
            raise AzureError("QueueNotFound")
        options = await self._with_poison(account, name, subscription.options, metadata)
        if options != subscription.options:
            await self._queue.change_subscription(ref.subscription, options)
        await self._set_extra(ref.topic, METADATA, encode_metadata(metadata))

    async def policies(self, account: str, name: str) -> list[Policy]:
        return decode_policies((await self._options(account, name)).extras.get(POLICIES, ""))

    async def set_policies(self, account: str, name: str, policies: list[Policy]) -> None:
        ref = await self.find(account, name)
        await self._set_extra(ref.topic, POLICIES, encode_policies(policies) if policies else "")

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
        """Create the poison queue if the queue should have one, and return the options of the queue with or without."""
        own = [int(value) for key, value in metadata.items() if key.lower() == MAX_DEQUEUE_COUNT]
        poison, attempts = name + POISON, own[0] if own else self._poison_after
        topic, subscription = self._full_names(account, poison)
        if not attempts or name.endswith(POISON) or len(poison) > QUEUE_NAME_MAX:
            has_poison = options.dead_letter_topic == topic
            return replace(options, dead_letter_topic="", max_delivery_attempts=5) if has_poison else options
        await self._queue.provide_queue(topic, subscription, QUEUE_OPTIONS)
        return replace(options, dead_letter_topic=topic, max_delivery_attempts=attempts)


def encode_metadata(metadata: Mapping[str, str]) -> str:
    return msgspec.json.encode(metadata).decode() if metadata else ""


def decode_metadata(options: TopicOptions) -> dict[str, str]:
    text = options.extras.get(METADATA)
    return msgspec.json.decode(text, type=dict[str, str]) if text else {}


def read_metadata(request: Request, is_name: Callable[[str], bool]) -> dict[str, str]:
    """Return the metadata of a request. Names keep their upper and lower case."""
    metadata: dict[str, str] = {}
    size = 0
    for (name, value), spelled in zip(request.headers, request.spelled, strict=True):
        if name.startswith(_PREFIX):
            key, value = spelled.decode("latin-1")[len(_PREFIX) :], value.strip()
            if not key:
                raise AzureError("EmptyMetadataKey")
            repeated = key.lower() in {other.lower() for other in metadata}
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


def _is_same(one: Mapping[str, str], other: Mapping[str, str]) -> bool:
    return {name.lower(): value for name, value in one.items()} == {n.lower(): v for n, v in other.items()}

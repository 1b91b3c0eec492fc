"""The Publish method: production's limits, then one call of the broker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from penstock.broker.limits import ATTRIBUTE_KEY_BYTES_MAX, ATTRIBUTE_VALUE_BYTES_MAX, ATTRIBUTES_MAX
from penstock.broker.model import Draft
from penstock.doors.google import codec, names, ranges
from penstock.doors.google.calls import Context
from penstock.doors.google.errors import invalid, not_found
from penstock.engine.port import Queue, TopicMetadata

MESSAGES_MAX = 1000
REQUEST_BYTES_MAX = 10_000_000
ORDERING_KEY_BYTES_MAX = 1024
RESERVED_PREFIX = "goog"
CLIENTS_PREFIX = "googclient_"  # attributes of client libraries: traces, and the schema of a republished message

EMPTY_MESSAGE = (
    "One or more messages in the publish request is empty. Each message must contain either non-empty data, or at "
    "least one attribute."
)
MIXED_KEYS = (
    "In a single publish request, all messages must have no ordering key or they must all have the same ordering key."
)


class Publishing:
    def __init__(self, queue: Queue, validate: Callable[[TopicMetadata, list[Draft]], Awaitable[list[Draft]]]) -> None:
        """`validate` checks drafts against the schema of their topic, and returns the drafts to publish."""
        self._queue = queue
        self._validate = validate

    async def publish(self, request: Any, context: Context) -> bytes:
        name, queue = request.topic, self._queue
        topic = await queue.find_topic(name)
        if topic is None:
            raise not_found(names.topic(name))
        ranges.within("message_count", len(request.messages), None, MESSAGES_MAX)  # before they are converted
        drafts = codec.drafts(request.messages)
        sizes = check_sizes(drafts, context.size)
        if topic.options.extras:
            drafts = await self._validate(topic, drafts)
        return codec.publish_response(await queue.publish(name, drafts, sizes=sizes))


def check_sizes(drafts: Sequence[Draft], size: int) -> list[int]:
    """Return the size of every draft, as the broker counts it. Raise CallError if one may not be published."""
    if not drafts:
        raise invalid("The request must contain at least one message.")
    ranges.within("request_size", size, None, REQUEST_BYTES_MAX)
    key = drafts[0].ordering_key
    key_bytes = _bytes(key)
    ranges.within("ordering_key length", key_bytes, None, ORDERING_KEY_BYTES_MAX)
    sizes = []
    for data, attributes, ordering_key, _, _ in drafts:
        if attributes:
            sizes.append(len(data) + key_bytes + _check_attributes(attributes))
        elif data:
            sizes.append(len(data) + key_bytes)
        else:
            raise invalid(EMPTY_MESSAGE)
        if ordering_key != key:
            raise invalid(MIXED_KEYS)
    return sizes


def _check_attributes(attributes: dict[str, str]) -> int:
    if len(attributes) > ATTRIBUTES_MAX:
        ranges.within("attributes count", len(attributes), None, ATTRIBUTES_MAX)
    total = 0
    for key, value in attributes.items():
        if not key:
            raise invalid("Attribute keys must not be empty.")
        if key.startswith(RESERVED_PREFIX) and not key.startswith(CLIENTS_PREFIX):
            raise invalid(f"Attribute keys must not begin with '{RESERVED_PREFIX}': {key[:64]}")
        key_bytes, value_bytes = _bytes(key), _bytes(value)
        if key_bytes > ATTRIBUTE_KEY_BYTES_MAX or value_bytes > ATTRIBUTE_VALUE_BYTES_MAX:
            ranges.within("attribute key length", key_bytes, None, ATTRIBUTE_KEY_BYTES_MAX)
            ranges.within("attribute value length", value_bytes, None, ATTRIBUTE_VALUE_BYTES_MAX)
        total += key_bytes + value_bytes
    return total


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())

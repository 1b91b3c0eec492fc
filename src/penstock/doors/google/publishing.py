"""Publish: the limits of production, then one call of the broker.

The rule kept here: a request is checked whole before any of it is taken, and a message is looked at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from penstock.broker.model import Draft
from penstock.doors.google import codec, names, ranges
from penstock.doors.google.calls import Context
from penstock.doors.google.errors import CallError, invalid, not_found
from penstock.faces.awaitable import AsyncMessageQueue
from penstock.faces.views import TopicMetadata

MESSAGES_MAX = 1000
REQUEST_BYTES_MAX = 10_000_000
ATTRIBUTES_MAX = 100
ATTRIBUTE_KEY_BYTES_MAX = 256
ATTRIBUTE_VALUE_BYTES_MAX = 1024
ORDERING_KEY_BYTES_MAX = 1024
RESERVED_PREFIX = "goog"


class Publishing:
    def __init__(self, queue: AsyncMessageQueue, validate: Callable[[TopicMetadata, list[Draft]], list[Draft]]) -> None:
        """`validate` holds drafts against the schema of their topic, and gives back what is to be published."""
        self._queue = queue
        self._validate = validate

    async def publish(self, request: Any, context: Context) -> bytes:
        name, queue = request.topic, self._queue
        if not queue.topic_exists(name):
            raise not_found(names.topic(name))
        drafts = codec.drafts(request.messages)
        check_request(drafts, context.size)
        topic = queue.topic(name)
        if topic.options.extras:
            drafts = self._validate(topic, drafts)
        return codec.publish_response(await queue.publish(name, drafts))


def check_request(drafts: Sequence[Draft], size: int) -> None:
    if not drafts:
        raise invalid("The request must contain at least one message.")
    ranges.within("message_count", len(drafts), None, MESSAGES_MAX)
    ranges.within("request_size", size, None, REQUEST_BYTES_MAX)
    key = drafts[0].ordering_key
    for data, attributes, ordering_key, _, _ in drafts:
        if attributes:
            _check_attributes(attributes)
        elif not data:
            raise invalid("One or more messages in the publish request is empty. Each message must contain "
                          "either non-empty data, or at least one attribute.")  # fmt: skip
        if ordering_key != key:
            raise invalid("In a single publish request, all messages must have no ordering key or they must all "
                          "have the same ordering key.")  # fmt: skip
    ranges.within("ordering_key length", _bytes(key), None, ORDERING_KEY_BYTES_MAX)


def _check_attributes(attributes: dict[str, str]) -> None:
    if len(attributes) > ATTRIBUTES_MAX:
        ranges.within("attributes count", len(attributes), None, ATTRIBUTES_MAX)
    for key, value in attributes.items():
        if not key:
            raise invalid("Attribute keys must not be empty.")
        if key.startswith(RESERVED_PREFIX):
            raise _reserved(key)
        if len(key) > 64:  # at most four bytes a character
            ranges.within("attribute key length", _bytes(key), None, ATTRIBUTE_KEY_BYTES_MAX)
        if len(value) > 256:
            ranges.within("attribute value length", _bytes(value), None, ATTRIBUTE_VALUE_BYTES_MAX)


def _reserved(key: str) -> CallError:
    return invalid(f"Attribute keys must not begin with '{RESERVED_PREFIX}': {key[:64]}")


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode())

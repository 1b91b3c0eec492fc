"""The limits, as values handed in, and the check of a draft against them.

A limit that is 0 is not enforced; a refusal says what was too much and how much is allowed.
"""

from __future__ import annotations

from dataclasses import dataclass

from penstock.broker.model import Draft
from penstock.errors import InvalidArgumentError

MIB = 1024 * 1024


@dataclass(frozen=True, slots=True)
class Limits:
    message_max_bytes: int = 10 * MIB  # data, attributes and ordering key together
    attribute_key_max_bytes: int = 256
    attribute_value_max_bytes: int = 1024
    attributes_max: int = 0
    ordering_key_max_bytes: int = 1024
    reserved_prefixes: tuple[str, ...] = ()  # of attribute keys that a publisher may not use
    queue_max_messages: int = 10_000  # unacked per subscription
    queue_max_bytes: int = 100 * MIB
    refuse_when_full: bool = False  # True: the publish fails; False: that subscription goes without
    retention_seconds: float = 0  # the least that every topic keeps acked messages, whatever its own options say
    retention_bytes: int = 0  # the cap on them where a topic has none of its own
    seek_all: bool = False  # a seek to a time reaches all that is kept by these, not only by a resource's own options
    snapshot_seconds: float = 7 * 86400  # how long a snapshot lives, less the age of the backlog it was taken of
    scan_max_messages: int = 10_000  # how much of the log one pull looks through
    producer_idle_seconds: float = 7 * 86400  # how long a publish-once key is remembered


def check_draft(draft: Draft, limits: Limits) -> int:
    """The size of a draft in bytes, if it may be published."""
    data, attributes, ordering_key = draft[0], draft[1], draft[2]
    if type(data) is not bytes:
        raise InvalidArgumentError(f"Message data must be bytes, not {type(data).__name__}")
    size = len(data)
    if attributes:
        size += _check_attributes(attributes, limits)
    if ordering_key:
        if not isinstance(ordering_key, str):
            raise InvalidArgumentError("Ordering key must be a string")
        length = _utf8_length(ordering_key)
        if limits.ordering_key_max_bytes and length > limits.ordering_key_max_bytes:
            raise InvalidArgumentError(f"Ordering key exceeds maximum of {limits.ordering_key_max_bytes} bytes")
        size += length
    if limits.message_max_bytes and size > limits.message_max_bytes:
        most = limits.message_max_bytes
        allowed = f"{most // MIB}MB" if most % MIB == 0 else f"{most} bytes"
        raise InvalidArgumentError(f"Message size exceeds maximum of {allowed}")
    if draft.delay_seconds < 0 or draft.ttl_seconds < 0:
        raise InvalidArgumentError("Message delay and time to live must not be negative")
    return size


def _check_attributes(attributes: dict[str, str], limits: Limits) -> int:
    if type(attributes) is not dict:
        raise InvalidArgumentError("Message attributes must be a dictionary of strings")
    if limits.attributes_max and len(attributes) > limits.attributes_max:
        raise InvalidArgumentError(f"A message may have at most {limits.attributes_max} attributes")
    size = 0
    for key, value in attributes.items():
        if not isinstance(key, str):
            raise InvalidArgumentError("Attribute keys must be strings")
        if not key:
            raise InvalidArgumentError("Attribute keys must not be empty")
        if key.startswith(limits.reserved_prefixes):
            raise InvalidArgumentError(f"Attribute key uses a reserved prefix: {key[:64]}")
        length = _utf8_length(key)
        if length > limits.attribute_key_max_bytes:
            raise InvalidArgumentError(f"Attribute key exceeds maximum of {limits.attribute_key_max_bytes} bytes")
        if not isinstance(value, str):
            raise InvalidArgumentError(f"Attribute values must be strings: {key[:64]}")
        size += length
        length = _utf8_length(value)
        if length > limits.attribute_value_max_bytes:
            raise InvalidArgumentError(f"Attribute value exceeds maximum of {limits.attribute_value_max_bytes} bytes")
        size += length
    return size


def _utf8_length(text: str) -> int:
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError("Text must be valid Unicode, without lone surrogates") from None

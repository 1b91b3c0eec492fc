"""The limits of the broker and of doors, and the checks of drafts and labels against them.

0 means that a limit is not enforced. An error says what was too large and how much is allowed.
"""

from __future__ import annotations

import unicodedata
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from penstock.broker.model import Draft
from penstock.errors import InvalidArgumentError

MIB = 1024 * 1024

# The journal stores numbers of 64 bits. A larger one in a fact would stop the server.
NUMBER_MAX = (1 << 63) - 1
SECONDS_MAX = 1e10  # of a duration, so that the nanoseconds at its end fit as well

# Limits that doors check before they call the broker.
LABELS_MAX = 64
LABEL_CHARACTERS_MAX = 63  # of a key, and of a value
ATTRIBUTES_MAX = 100
ATTRIBUTE_KEY_BYTES_MAX = 256
ATTRIBUTE_VALUE_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True)
class Limits:
    message_max_bytes: int = 10 * MIB  # size of data, attributes and ordering key together
    attribute_key_max_bytes: int = ATTRIBUTE_KEY_BYTES_MAX
    attribute_value_max_bytes: int = ATTRIBUTE_VALUE_BYTES_MAX
    attributes_max: int = 0
    ordering_key_max_bytes: int = 1024
    reserved_prefixes: tuple[str, ...] = ()  # prefixes of attribute keys that publishers may not use
    queue_messages_max: int = 10_000  # unacked messages per subscription
    queue_bytes_max: int = 100 * MIB
    refuse_when_full: bool = False  # True: the publish fails. False: the subscription does not get the message
    retention_seconds: float = 0  # every topic keeps acked messages at least this long
    retention_bytes: int = 0  # the cap on acked messages of a topic that has no cap of its own
    seek_all: bool = False  # True: a seek to a time reaches all kept messages, not only those kept by the options
    snapshot_seconds: float = 7 * 86400  # lifetime of a snapshot, less the age of its backlog
    scan_max_messages: int = 10_000  # messages of the log that one pull looks at
    producer_idle_seconds: float = 7 * 86400  # how long an unused publish-once key is remembered

    # Names until 0.5, still accepted and readable.
    queue_max_messages = property(lambda self: self.queue_messages_max)
    queue_max_bytes = property(lambda self: self.queue_bytes_max)


OLD_NAMES = {"queue_max_messages": "queue_messages_max", "queue_max_bytes": "queue_bytes_max"}
_init = Limits.__init__


def _init_with_old_names(limits: Limits, *values: Any, **named: Any) -> None:
    _init(limits, *values, **{OLD_NAMES.get(name, name): value for name, value in named.items()})


Limits.__init__ = _init_with_old_names  # type: ignore[method-assign, assignment]


def check_draft(draft: Draft, limits: Limits) -> int:
    """Return the size of a draft in bytes, or raise InvalidArgumentError if it exceeds a limit."""
    data, attributes, ordering_key = draft[0], draft[1], draft[2]
    if type(data) is not bytes:
        raise InvalidArgumentError(f"Message data must be bytes, not {type(data).__name__}")
    size = len(data)
    if attributes:
        size += _check_attributes(attributes, limits)
    if ordering_key:
        if not isinstance(ordering_key, str):
            raise InvalidArgumentError("Ordering key must be a string")
        length = utf8_length(ordering_key)
        if limits.ordering_key_max_bytes and length > limits.ordering_key_max_bytes:
            raise InvalidArgumentError(f"Ordering key exceeds maximum of {limits.ordering_key_max_bytes} bytes")
        size += length
    if limits.message_max_bytes and size > limits.message_max_bytes:
        most = limits.message_max_bytes
        allowed = f"{most // MIB}MB" if most % MIB == 0 else f"{most} bytes"
        raise InvalidArgumentError(f"Message size exceeds maximum of {allowed}")
    delay, ttl = draft.delay_seconds, draft.ttl_seconds
    if (delay or ttl) and not (0 <= delay <= SECONDS_MAX and 0 <= ttl <= SECONDS_MAX):
        raise InvalidArgumentError(f"Message delay and time to live must be 0 to {SECONDS_MAX:.0f} seconds")
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
        length = utf8_length(key)
        if length > limits.attribute_key_max_bytes:
            raise InvalidArgumentError(f"Attribute key exceeds maximum of {limits.attribute_key_max_bytes} bytes")
        if not isinstance(value, str):
            raise InvalidArgumentError(f"Attribute values must be strings: {key[:64]}")
        size += length
        length = utf8_length(value)
        if length > limits.attribute_value_max_bytes:
            raise InvalidArgumentError(f"Attribute value exceeds maximum of {limits.attribute_value_max_bytes} bytes")
        size += length
    return size


def check_labels(labels: Mapping[str, str]) -> None:
    """Raise InvalidArgumentError if these labels are invalid."""
    if len(labels) > LABELS_MAX:
        raise InvalidArgumentError(f"A resource may have at most {LABELS_MAX} labels, not {len(labels)}")
    for key, value in labels.items():
        shown = key[:LABEL_CHARACTERS_MAX]
        if len(key) > LABEL_CHARACTERS_MAX or len(value) > LABEL_CHARACTERS_MAX:
            raise InvalidArgumentError(f"Label {shown}: a key or value has at most {LABEL_CHARACTERS_MAX} characters")
        if not key or not _is_lower(key[0]):
            raise InvalidArgumentError(f"Label {shown!r}: a key must begin with a lowercase letter")
        if not all(_is_lower(letter) or letter.isnumeric() or letter in "_-" for letter in key + value):
            allowed = "lowercase letters, digits, underscores and dashes"
            raise InvalidArgumentError(f"Label {shown!r}: a key or value may have {allowed} only")


def _is_lower(letter: str) -> bool:
    """Return whether a character is a lowercase letter, or a letter without case."""
    return unicodedata.category(letter) in ("Ll", "Lo")


def utf8_length(text: str) -> int:
    """Return the length of a text in bytes. Raise InvalidArgumentError for a lone surrogate."""
    if text.isascii():
        return len(text)
    try:
        return len(text.encode())
    except UnicodeEncodeError:
        raise InvalidArgumentError("Text must be valid Unicode, without lone surrogates") from None

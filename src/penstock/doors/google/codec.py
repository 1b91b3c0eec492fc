"""Conversion between the broker's records and the bytes of the most frequent messages.

Responses are built without message objects. Field numbers are those of google/pubsub/v1/pubsub.proto.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from penstock.broker.model import NO_ATTRIBUTES, SECOND, Draft
from penstock.engine.port import Appended, Delivery

_VARINTS_KNOWN = 4096


def varint(value: int) -> bytes:
    encoded = bytearray()
    while value >= 0x80:
        encoded.append(value & 0x7F | 0x80)
        value >>= 7
    encoded.append(value)
    return bytes(encoded)


_VARINTS = [varint(value) for value in range(_VARINTS_KNOWN)]


def _length(size: int) -> bytes:
    return _VARINTS[size] if size < _VARINTS_KNOWN else varint(size)


def field(tag: bytes, content: bytes) -> bytes:
    """Encode one length-delimited field."""
    return tag + _length(len(content)) + content


def drafts(messages: Iterable[Any]) -> list[Draft]:
    """Convert the PubsubMessages of a request to drafts."""
    new, result = tuple.__new__, []
    for message in messages:
        attributes = message.attributes
        copied = {key: attributes[key] for key in attributes} if attributes else NO_ATTRIBUTES
        result.append(new(Draft, (message.data, copied, message.ordering_key, 0, 0)))
    return result


def publish_response(appended: Appended) -> bytes:
    first = appended.first_id + appended.first
    ids = [b"%d" % key for key in range(first, first + appended.total)]
    return b"".join([b"\n" + _VARINTS[len(message_id)] + message_id for message_id in ids])


def received_messages(deliveries: Sequence[Delivery], *, with_attempts: bool) -> bytes:
    """Encode deliveries as ReceivedMessages, which are field 1 of PullResponse and of StreamingPullResponse.

    This is the hottest loop of the door, so it formats a whole message at once, with lengths computed before.
    """
    parts: list[bytes] = []
    instant, encoded_time, varints, tail = -1, b"", _VARINTS, b""
    pull_stamp, receipt_end = 0, b""
    for (data, attributes, key, publish_time, offset, _, _, _, _), subscription, first_id, stamp, attempt in deliveries:
        if publish_time != instant:
            instant, encoded_time = publish_time, field(b"\x22", timestamp(publish_time))
        if stamp != pull_stamp:  # all messages of a pull have the same stamp
            pull_stamp, receipt_end = stamp, b"-%d" % stamp
        number = b"%d" % (first_id + offset)
        receipt = b"%d-%d%b" % (subscription, offset, receipt_end)
        more = _attributes(attributes) if attributes else b""
        if key:
            more += field(b"\x2a", key.encode())
        if with_attempts:
            tail = b"\x18" + _length(attempt)
        size = len(data)
        data_length = varints[size] if size < _VARINTS_KNOWN else varint(size)
        size += len(data_length) + len(more) + len(number) + len(encoded_time) + 3
        body_length = varints[size] if size < _VARINTS_KNOWN else varint(size)
        size += len(body_length) + len(receipt) + len(tail) + 3
        whole_length = varints[size] if size < _VARINTS_KNOWN else varint(size)
        parts.append(
            b"\n%b\n%b%b\x12%b\n%b%b%b\x1a%b%b%b%b"
            % (
                whole_length,
                varints[len(receipt)],
                receipt,
                body_length,
                data_length,
                data,
                more,
                varints[len(number)],
                number,
                encoded_time,
                tail,
            )
        )
    return b"".join(parts)


def _attributes(attributes: dict[str, str]) -> bytes:
    encoded = b""
    for name, value in attributes.items():
        key, text = name.encode(), value.encode()
        entry = b"\n%b%b\x12%b%b" % (_length(len(key)), key, _length(len(text)), text)
        encoded += b"\x12%b%b" % (_length(len(entry)), entry)
    return encoded


def timestamp(instant: int) -> bytes:
    """Encode the content of a google.protobuf.Timestamp."""
    seconds, nanos = divmod(instant, SECOND)
    return b"\x08" + varint(seconds) + (b"\x10" + varint(nanos) if nanos else b"")


def subscription_properties(*, exactly_once: bool, ordering: bool) -> bytes:
    """Encode field 4 of StreamingPullResponse."""
    return field(b"\x22", (b"\x08\x01" if exactly_once else b"") + (b"\x10\x01" if ordering else b""))

"""The codec of messages and lists of queues: XML to text and back, without I/O.

Messages that XML cannot hold, published through another protocol, are encoded in Base64.
"""

from __future__ import annotations

import base64
import re
from collections.abc import Iterable

from penstock.broker.model import Message
from penstock.doors.azure.dates import expiry, rfc1123
from penstock.doors.azure.names import message_uuid, pop_receipt
from penstock.doors.azure.xml import DECLARATION, XmlError, decode, elements, escape, printable, read
from penstock.engine.port import Delivery

# A put without references, CDATA and control characters other than tab and line ends: its text needs no decoding.
_USUAL = re.compile(
    rb"(?:<\?xml version=(?:'1\.0' encoding='[Uu][Tt][Ff]-8'|\"1\.0\" encoding=\"[Uu][Tt][Ff]-8\")\?>)?[ \t\r\n]*"
    rb"<QueueMessage>[ \t\r\n]*<MessageText>([\t\n\r\x20-%'-;=?-\x7e]*)</MessageText>[ \t\r\n]*"
    rb"</QueueMessage>[ \t\r\n]*"
)
_EMPTY_LIST = f"{DECLARATION}<QueueMessagesList />".encode()


def read_message_text(body: bytes) -> str | None:
    """Return the text of <QueueMessage><MessageText>, None for <QueueMessage/>. XmlError for any other body."""
    usual = _USUAL.fullmatch(body)
    if usual is not None:
        return usual[1].decode("ascii")
    return read(body, "QueueMessage").values("MessageText").get("MessageText")


def text_of(data: bytes) -> str:
    """Return the text of a message, escaped for XML."""
    try:
        return escape(decode(data))
    except XmlError:
        return base64.b64encode(data).decode()


def put_answer(number: int, receipt: str, *, at: int, visible_at: int, expires_at: int) -> bytes:
    return (
        f"{DECLARATION}<QueueMessagesList><QueueMessage><MessageId>{message_uuid(number)}</MessageId>"
        f"<InsertionTime>{rfc1123(at)}</InsertionTime><ExpirationTime>{expiry(expires_at)}</ExpirationTime>"
        f"<PopReceipt>{pop_receipt(receipt)}</PopReceipt><TimeNextVisible>{rfc1123(visible_at)}</TimeNextVisible>"
        "</QueueMessage></QueueMessagesList>"
    ).encode()


def get_answer(deliveries: Iterable[Delivery], visible_at: int) -> bytes:
    visible = f"<TimeNextVisible>{rfc1123(visible_at)}</TimeNextVisible>"
    return _list(
        [
            _message(d.first_id, d.message, d.attempt, f"<PopReceipt>{pop_receipt(d.receipt)}</PopReceipt>{visible}")
            for d in deliveries
        ]
    )


def peek_answer(first_id: int, messages: Iterable[tuple[Message, int]]) -> bytes:
    return _list([_message(first_id, message, attempts) for message, attempts in messages])


def _message(first_id: int, message: Message, attempts: int, lease: str = "") -> str:
    return (
        f"<QueueMessage><MessageId>{message_uuid(first_id + message.offset)}</MessageId>"
        f"<InsertionTime>{rfc1123(message.publish_time)}</InsertionTime>"
        f"<ExpirationTime>{expiry(message.expires_at)}</ExpirationTime>{lease}"
        f"<DequeueCount>{attempts}</DequeueCount><MessageText>{text_of(message.data)}</MessageText>"
        "</QueueMessage>"
    )


def _list(items: list[str]) -> bytes:
    if not items:
        return _EMPTY_LIST
    return f"{DECLARATION}<QueueMessagesList>{''.join(items)}</QueueMessagesList>".encode()


# ---------------------------------------------------------------------- lists of queues


def queue_list(
    endpoint: str,
    queues: Iterable[tuple[str, dict[str, str] | None]],
    *,
    prefix: str,
    marker: str,
    max_results: int | None,
    next_marker: str,
) -> bytes:
    """Write EnumerationResults: each queue with its metadata, which is None if the client did not ask for it."""
    parameters = (("Prefix", prefix), ("Marker", marker), ("MaxResults", str(max_results or "")))
    head = elements((name, printable(value)) for name, value in parameters if value)
    service = escape(printable(endpoint)).replace('"', "&quot;")
    items = "".join(f"<Queue><Name>{name}</Name>{_metadata(metadata)}</Queue>" for name, metadata in queues)
    ending = f"<NextMarker>{escape(next_marker)}</NextMarker>" if next_marker else "<NextMarker />"
    return (
        f'{DECLARATION}<EnumerationResults ServiceEndpoint="{service}">{head}'
        f"<Queues>{items}</Queues>{ending}</EnumerationResults>"
    ).encode("utf-8", "replace")


def _metadata(metadata: dict[str, str] | None) -> str:
    return "" if metadata is None else f"<Metadata>{elements(metadata.items())}</Metadata>"

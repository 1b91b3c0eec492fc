"""The messages of a topic, found by data, attributes and ordering key, or by id."""

from __future__ import annotations

import base64
import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from penstock.admin.client import Client, path_of
from penstock.doors.azure.names import parse_message_uuid
from penstock.errors import UnavailableError
from penstock.wording import counted

__tracebackhide__ = True  # a failing test shows its own line, not this module

PAGE = 1000
LISTED_MAX = 20  # maximum messages in a failing assertion
SHOWN_MAX = 60  # maximum characters of data in it


class Message(NamedTuple):
    """A message as it was published."""

    id: str
    offset: int
    data: bytes
    attributes: Mapping[str, str]
    ordering_key: str
    published_at: datetime

    @property
    def text(self) -> str:
        """The data as text. Raises UnicodeDecodeError if it is not UTF-8."""
        return self.data.decode()

    def __str__(self) -> str:
        return f"{self.offset}: {show(self.data)}{_rest(self.attributes, self.ordering_key)}"


class Wanted(NamedTuple):
    """The expected data, attributes and ordering key. None matches anything. Other attributes are allowed."""

    data: bytes | str | None = None
    attributes: Mapping[str, str] | None = None
    ordering_key: str | None = None

    def differences(self, message: Message) -> list[str]:
        """Return the differences of a message. Empty: it matches."""
        differences = []
        if self.data is not None and _bytes(self.data) != message.data:
            differences.append("other data")
        if self.ordering_key not in (None, message.ordering_key):
            differences.append(f"ordering key {message.ordering_key!r}" if message.ordering_key else "no ordering key")
        for name, value in (self.attributes or {}).items():
            if name not in message.attributes:
                differences.append(f"no attribute {name}")
            elif message.attributes[name] != value:
                differences.append(f"{name} is {message.attributes[name]!r}")
        return differences

    def __str__(self) -> str:
        parts = [f"data {show(_bytes(self.data))}"] if self.data is not None else []
        parts += [f"attributes {dict(self.attributes)}"] if self.attributes else []
        parts += [f"ordering key {self.ordering_key!r}"] if self.ordering_key is not None else []
        return f" with {' and '.join(parts)}" if parts else ""


class Log(NamedTuple):
    """The stored messages of a topic."""

    messages: Sequence[Message]
    first: int  # offset of the first one


def read_log(admin: Client, topic: str) -> Log:
    return Log(list(_messages(admin, topic)), int(admin.get(path_of("topics", topic))["first_offset"]))


def _messages(admin: Client, topic: str) -> Iterator[Message]:
    offset, complete = 0, False
    while not complete:
        page = admin.get(path_of("topics", topic, "messages"), **{"from": offset, "max": PAGE})
        yield from map(message_of, page["messages"])
        offset, complete = page["next_offset"], page["complete"]


def message_of(record: dict[str, Any]) -> Message:
    data = record["data"].encode() if "data" in record else base64.b64decode(record["data_base64"])
    at = datetime.fromisoformat(record["publish_time"])
    return Message(record["id"], record["offset"], data, record["attributes"], record["ordering_key"], at)


def check_published(name: str, log: Log, wanted: Wanted, times: int | None) -> list[Message]:
    """Return the matching messages. Raise AssertionError unless there is one, or exactly `times` if it is set."""
    matching = [message for message in log.messages if not wanted.differences(message)]
    if len(matching) >= 1 if times is None else len(matching) == times and not log.first:
        return matching
    if log.first and (times is None or len(matching) <= times):
        first = "message" if log.first == 1 else f"{log.first:,} messages"
        raise UnavailableError(f"{name} no longer has its first {first}, so this cannot be checked")
    if times is None:
        summary = f"No message{wanted} was published to {name}"
    else:
        was = "was" if len(matching) == 1 else "were"
        summary = f"{counted(len(matching), 'message')}{wanted} {was} published to {name}, not {times}"
    raise AssertionError(f"{summary}. {list_messages(log.messages, wanted)}")


def list_messages(messages: Sequence[Message], wanted: Wanted) -> str:
    """Return a list of the messages. If there are too many, it has the most similar ones."""
    if not messages:
        return "The topic has no messages."
    lines = [(wanted.differences(message), message) for message in messages]
    if len(lines) > LISTED_MAX:
        lines = sorted(lines, key=lambda line: len(line[0]))[:LISTED_MAX]
    texts = [f"  {message}" + (f"  ({', '.join(unlike)})" if unlike else "") for unlike, message in lines]
    more = len(messages) - len(texts)
    return "\n".join(["The messages are:", *texts, *([f"  and {more} more"] if more else [])])


def id_of(message: object) -> int:
    """Return the number of a message, from its id or from a message object of a client."""
    received = getattr(message, "message", message)  # Google's ReceivedMessage
    text = str(getattr(received, "message_id", None) or getattr(received, "id", received))
    if re.fullmatch(r"[0-9]{1,20}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"[0-9a-f]{32}", text):  # id of the text protocol
        return int(text, 16)
    number = parse_message_uuid(text)
    if number is None:
        raise AssertionError(f"{text!r} is not a message id; pass an id, or a message that a client received")
    return number


def stamp(at: str) -> str:
    """Format a time of the admin API, with the date, because tests move time by days."""
    return datetime.fromisoformat(at).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def show(data: bytes) -> str:
    try:
        text = repr(data.decode())
    except UnicodeDecodeError:
        text = repr(data)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(data)} bytes)"


def _rest(attributes: Mapping[str, str], ordering_key: str) -> str:
    text = "".join(f" {name}={value!r}" for name, value in attributes.items())
    return f"{text} key={ordering_key!r}" if ordering_key else text


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data

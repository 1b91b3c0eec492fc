"""Messages as tests speak of them: by data, attributes and ordering key, or by the id that a client was given."""

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
LISTED_MAX = 20  # messages that a failing assertion lists
SHOWN_MAX = 60  # characters of data that it shows


class Message(NamedTuple):
    """As it was published."""

    id: str
    offset: int
    data: bytes
    attributes: Mapping[str, str]
    ordering_key: str
    published_at: datetime

    @property
    def text(self) -> str:
        return self.data.decode()

    def __str__(self) -> str:
        return f"{self.offset}: {shown(self.data)}{_rest(self.attributes, self.ordering_key)}"


class Wanted(NamedTuple):
    """What a message has to be like; what is not given may be anything. Attributes that are not named may be there."""

    data: bytes | str | None = None
    attributes: Mapping[str, str] | None = None
    ordering_key: str | None = None

    def differences(self, message: Message) -> list[str]:
        """In what a message is another one; empty if it is what was wanted."""
        found = []
        if self.data is not None and _bytes(self.data) != message.data:
            found.append("other data")
        if self.ordering_key not in (None, message.ordering_key):
            found.append(f"ordering key {message.ordering_key!r}" if message.ordering_key else "no ordering key")
        for name, value in (self.attributes or {}).items():
            if name not in message.attributes:
                found.append(f"no attribute {name}")
            elif message.attributes[name] != value:
                found.append(f"{name} is {message.attributes[name]!r}")
        return found

    def __str__(self) -> str:
        said = [f"data {shown(_bytes(self.data))}"] if self.data is not None else []
        said += [f"attributes {dict(self.attributes)}"] if self.attributes else []
        said += [f"ordering key {self.ordering_key!r}"] if self.ordering_key is not None else []
        return f" with {' and '.join(said)}" if said else ""


class Log(NamedTuple):
    """The messages of a topic that are kept; `first` is the first offset of them."""

    messages: Sequence[Message]
    first: int


def read_log(admin: Client, topic: str) -> Log:
    return Log(list(_messages(admin, topic)), int(admin.get(path_of("topics", topic))["first_offset"]))


def _messages(admin: Client, topic: str) -> Iterator[Message]:
    place, complete = 0, False
    while not complete:
        page = admin.get(path_of("topics", topic, "messages"), **{"from": place, "max": PAGE})
        yield from map(message_of, page["messages"])
        place, complete = page["next_offset"], page["complete"]


def message_of(record: dict[str, Any]) -> Message:
    data = record["data"].encode() if "data" in record else base64.b64decode(record["data_base64"])
    at = datetime.fromisoformat(record["publish_time"])
    return Message(record["id"], record["offset"], data, record["attributes"], record["ordering_key"], at)


def check_published(name: str, log: Log, wanted: Wanted, times: int | None) -> list[Message]:
    """Those that are as wanted: one at least, or so many as `times` says."""
    found = [each for each in log.messages if not wanted.differences(each)]
    if len(found) >= 1 if times is None else len(found) == times and not log.first:
        return found
    if log.first and (times is None or len(found) <= times):
        first = "message" if log.first == 1 else f"{log.first:,} messages"
        raise UnavailableError(f"{name} does not keep its first {first} any more: nobody can tell")
    if times is None:
        said = f"No message{wanted} was published to {name}"
    else:
        was = "was" if len(found) == 1 else "were"
        said = f"To {name}, {counted(len(found), 'message')}{wanted} {was} published, not {times}"
    raise AssertionError(f"{said}. {listed(log.messages, wanted)}")


def listed(messages: Sequence[Message], wanted: Wanted) -> str:
    """What there is instead, the most similar first where there is too much."""
    if not messages:
        return "Nothing was."
    lines = [(wanted.differences(each), each) for each in messages]
    if len(lines) > LISTED_MAX:
        lines = sorted(lines, key=lambda line: len(line[0]))[:LISTED_MAX]
    told = [f"  {each}" + (f"  ({', '.join(differences)})" if differences else "") for differences, each in lines]
    more = len(messages) - len(told)
    return "\n".join(["There are:", *told, *([f"  and {more} more"] if more else [])])


def id_of(message: object) -> int:
    """The number of a message that is given as a client has it: an id, or an object that has one."""
    received = getattr(message, "message", message)  # Google's ReceivedMessage
    given = getattr(received, "message_id", None) or getattr(received, "id", received)
    text = str(given)
    if re.fullmatch(r"[0-9]{1,20}", text, re.ASCII):
        return int(text)
    if re.fullmatch(r"[0-9a-f]{32}", text):  # of the text protocol
        return int(text, 16)
    number = parse_message_uuid(text)
    if number is None:
        raise AssertionError(f"{text!r} is not the id of a message; give one, or what a client received")
    return number


def stamp(at: str) -> str:
    """An instant of the admin API, for people; with the day, because tests let days pass."""
    return datetime.fromisoformat(at).strftime("%Y-%m-%d %H:%M:%S.%f")[:-3]


def shown(data: bytes) -> str:
    try:
        text = repr(data.decode())
    except UnicodeDecodeError:
        text = repr(data)
    return text if len(text) <= SHOWN_MAX else f"{text[:SHOWN_MAX]}... ({len(data)} bytes)"


def _rest(attributes: Mapping[str, str], ordering_key: str) -> str:
    said = "".join(f" {name}={value!r}" for name, value in attributes.items())
    return f"{said} key={ordering_key!r}" if ordering_key else said


def _bytes(data: bytes | str) -> bytes:
    return data.encode() if isinstance(data, str) else data

"""The JSON that Flight clients send (tickets, actions, commands of uploads), and their names of topics."""

from __future__ import annotations

import re
from typing import Annotated, NamedTuple, TypeVar

import msgspec

from penstock.errors import InvalidArgumentError

T = TypeVar("T")

TOPIC = re.compile(r"projects/[^/]+/topics/[^/]+")
RANGES_MAX = 10_000
Int64 = Annotated[int, msgspec.Meta(ge=-(1 << 63), le=(1 << 63) - 1)]  # MessagePack and the journal have no larger ones
CONSUMER = re.compile(r"[A-Za-z0-9][A-Za-z0-9._~+%-]{0,199}")


class Request(msgspec.Struct, forbid_unknown_fields=True):
    """A JSON object. Unknown fields are refused by name."""


class Range(Request):
    topic: str
    first: Int64
    until: Int64
    identity: str = ""  # of the topic. Empty: any topic of this name


class Ticket(Request):
    """One range, or several that are read one after the other."""

    topic: str | None = None
    first: Int64 | None = None
    until: Int64 | None = None
    columns: list[str] | None = None
    lossy: bool = False
    ranges: list[Range] | None = None


class Bounds(Request):
    topics: list[str] | None = None
    pattern: str | None = None
    project: str | None = None  # of topics whose short names the pattern may match. None: the default project
    after: dict[str, Int64] = {}
    wait_seconds: float = 0
    missing_ok: bool = False


class Find(Request):
    times: dict[str, int]  # of any size. The server cuts them to the times it knows


class Limit(Request, rename={"start": "from"}):
    start: dict[str, Int64]
    rows: Int64 | None = None
    bytes: Int64 | None = None
    until: dict[str, Int64] = {}


class Split(Request):
    ranges: list[Range]
    bytes: Int64
    rows: Int64 | None = None
    parts: Int64 = 1


class CursorMove(Request):
    name: str
    offsets: dict[str, Int64]
    many: bool = False
    identities: dict[str, str] = {}  # by topic. A topic with another identity is left out


class CursorList(Request):
    name: str = ""


class CursorDelete(Request):
    name: str


class CursorHold(Request):
    name: str
    owner: str  # any text that only this reader uses
    topics: list[str]
    reader: str = "no description"
    wait: bool = True  # if another reader holds a cursor, wait until it is known whether that reader is alive


class CursorRelease(Request):
    name: str
    owner: str


class TopicEnsure(Request):
    topic: str


class StagedRange(Request):
    first: Int64
    rows: Int64
    topic: str | None = None


class StageDecide(Request):
    query: str
    epoch: Int64
    parts: list[list[StagedRange]]


class StageLast(Request):
    query: str


class OnceKey(Request):
    producer: str
    epoch: Int64


class UploadCommand(Request):
    """The command of a DoPut."""

    topic: str | None = None
    once: OnceKey | None = None
    stage: bool = False


class PublishEnd(OnceKey):
    requests: dict[str, Int64]  # by topic
    topic: str | None = None  # the one topic of the upload. None: its rows named their topics


class BatchKey(Request):
    """The metadata of each record batch of an upload with a publish-once key."""

    sequence: Int64


class Action(NamedTuple):
    request: type[Request]
    help: str


ACTIONS = {
    "bounds": Action(Bounds, "Head, tail and kept bytes of topics. Can wait for more messages."),
    "find": Action(Find, "The first offset published at or after a time, by topic."),
    "limit": Action(Limit, "Where to read until, within limits in rows and bytes."),
    "split": Action(Split, "Split ranges into parts, by stored bytes."),
    "cursor.open": Action(CursorMove, "Create named cursors, or return their offsets."),
    "cursor.advance": Action(CursorMove, "Move named cursors forward."),
    "cursor.hold": Action(CursorHold, "Reserve named cursors for one reader, for a few seconds at a time."),
    "cursor.release": Action(CursorRelease, "Release reserved cursors."),
    "cursor.list": Action(CursorList, "Named cursors, their offsets and their lag."),
    "cursor.delete": Action(CursorDelete, "Delete the cursors of a consumer."),
    "topic.ensure": Action(TopicEnsure, "Create a topic if it does not exist."),
    "publish.end": Action(PublishEnd, "Check that a publish-once key has no more requests than its repeat."),
    "stage.decide": Action(StageDecide, "Publish staged rows of an epoch, once."),
    "stage.last": Action(StageLast, "The last decided epoch of a query."),
    "help": Action(Request, "List the actions."),
}


def ranges_of(ticket: Ticket) -> list[Range]:
    topic, first, until = ticket.topic, ticket.first, ticket.until
    if ticket.ranges is not None:
        if (topic, first, until) != (None, None, None):
            raise InvalidArgumentError("ticket: ranges and topic, first and until exclude each other")
        if not 0 < len(ticket.ranges) <= RANGES_MAX:
            raise InvalidArgumentError(f"ticket: there are 1 to {RANGES_MAX} ranges")
        return ticket.ranges
    if topic is None or first is None or until is None:
        missing = next(name for name in ("topic", "first", "until") if getattr(ticket, name) is None)
        raise InvalidArgumentError(f"ticket: object missing required field `{missing}`")
    return [Range(topic, first, until)]


def read(body: bytes, kind: type[T], what: str) -> T:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        text = str(error)
        raise InvalidArgumentError(f"{what}: {text[:1].lower()}{text[1:]}") from None
    except RecursionError:
        raise InvalidArgumentError(f"{what}: this JSON is nested too deeply") from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidArgumentError(f"{what}: this is not JSON") from None


write = msgspec.json.encode


class Names:
    def __init__(self, project: str) -> None:
        self._project = project

    def topic(self, name: str) -> str:
        full = name if "/" in name else f"projects/{self._project}/topics/{name}"
        if not TOPIC.fullmatch(full):
            raise InvalidArgumentError(
                f"A topic is named projects/PROJECT/topics/TOPIC or just TOPIC, not {name[:100]}"
            )
        return full

    def short(self, topic: str, project: str | None) -> str:
        """Return the part of a topic's name that is enough in this project, or its whole name elsewhere."""
        return topic.removeprefix(f"projects/{project or self._project}/topics/")

    def topics(self, names: dict[str, T]) -> dict[str, T]:
        return {self.topic(name): value for name, value in names.items()}


def cursor_name(consumer: str, topic: str, *, many: bool) -> str:
    """Return the name of the subscription for a cursor, in the project of the topic."""
    if not CONSUMER.fullmatch(consumer):
        raise InvalidArgumentError(
            "The name of a consumer has up to 200 letters, digits and . _ ~ + % -, and begins with a letter or digit"
        )
    _, project, _, topic_id = topic.split("/", 3)
    return f"projects/{project}/subscriptions/{consumer}{f'-{topic_id}' if many else ''}"

"""Options as programs write them: each is declared once, and reading, checking and showing follow from that.

A record of options declares them as the settings of the server are declared (fields.py): one line for each field, with
the kind of its values, its default and its name. For the broker's own records, which know no such names, the lines
stand here. An option is refused by its name as the caller wrote it, and a value out of range says its range.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields, replace
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias, TypeVar

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.errors import InvalidArgumentError

ACK_DEADLINE_MIN_SECONDS = 1
ACK_DEADLINE_MAX_SECONDS = 600

Kind: TypeAlias = Callable[[Any, str], Any]  # of a value and its name: the value as it is kept, or what it should be
R = TypeVar("R")


# ---------------------------------------------------------------------- kinds of values


class NotOfKindError(InvalidArgumentError):
    """A value is of another type than it should be."""

    def __init__(self, message: str | None = None, plain: str = "") -> None:
        """`plain`: the same for people who write documents, without Python's words."""
        super().__init__(message)
        self.plain = plain


def _not_of_kind(sentence: str, value: object, plain: str = "") -> NotOfKindError:
    return NotOfKindError(f"{sentence}, not {type(value).__name__}", plain or sentence)


def seconds(value: object, name: str) -> float:
    """A duration given as seconds, a timedelta, or {"seconds": ..., "nanos": ...}."""
    if isinstance(value, timedelta):
        return value.total_seconds()
    if isinstance(value, Mapping):
        unknown = [str(key) for key in value if key not in ("seconds", "nanos")]
        if unknown:
            raise InvalidArgumentError(f"{name}: unknown part of a duration: {unknown[0]}")
        return seconds(value.get("seconds", 0), name) + seconds(value.get("nanos", 0), name) / 1e9
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise _not_of_kind(f"{name} must be a number of seconds", value)
    if not 0 <= value < 1e10:
        raise InvalidArgumentError(f"{name} must not be negative or beyond reason: {value}")
    return float(value)


def seconds_within(least: float, most: float, refusal: str) -> Kind:
    def read(value: object, name: str) -> float:
        duration = seconds(value, name)
        if not least <= duration <= most:
            raise InvalidArgumentError(refusal)
        return duration

    return read


ack_deadline = seconds_within(
    ACK_DEADLINE_MIN_SECONDS,
    ACK_DEADLINE_MAX_SECONDS,
    f"Ack deadline must be between {ACK_DEADLINE_MIN_SECONDS} and {ACK_DEADLINE_MAX_SECONDS} seconds",
)


def milliseconds(value: object, name: str) -> float:
    """Kept in seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise InvalidArgumentError(f"{name} must be a number, at least 0")
    return value / 1000


def count(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise InvalidArgumentError(f"{name} must be a whole number, at least 1")
    return value


def flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise _not_of_kind(f"{name} must be True or False", value, f"{name} must be true or false")
    return value


def text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _not_of_kind(f"{name} must be a string", value, f"{name} must be text")
    return value


def strings(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for item in value.items() for each in item):
        raise NotOfKindError(f"{name} must be a dictionary of strings", f"{name} must be a table of names and texts")
    return dict(value)


def one_of(*choices: str) -> Kind:
    def read(value: object, name: str) -> str:
        if value not in choices:
            raise InvalidArgumentError(f"{name} must be one of {', '.join(choices)}: {value!r}")
        return str(value)

    return read


# ---------------------------------------------------------------------- declarations


class Option(NamedTuple):
    kind: Kind
    name: str  # "retry_policy.minimum_backoff" is a part of the dictionary "retry_policy"
    alias: str = ""
    unset: object = None  # what a part is where its dictionary is given without it; None: as before


def option(default: R, kind: Kind, name: str, alias: str = "") -> R:
    """A field of a record of options."""
    made: R = field(default=default, metadata={"option": Option(kind, name, alias)})
    return made


def declared(record: type) -> dict[str, Option]:
    return {each.name: each.metadata["option"] for each in fields(record)}


class Options:
    """The options of one record, by the names of programs."""

    def __init__(self, what: str, options: Mapping[str, Option], unknown_part: str = "Unknown option: {0}.{1}") -> None:
        self._what = what
        self.options = options  # by the field that keeps them
        self._unknown_part = unknown_part
        self._plain: dict[str, str] = {}  # name -> field
        self._parts: dict[str, dict[str, str]] = {}  # dictionary -> part -> field
        for kept_in, each in options.items():
            for name in filter(None, (each.name, each.alias)):
                whole, _, part = name.partition(".")
                (self._parts.setdefault(whole, {}) if part else self._plain)[part or whole] = kept_in
        self.names = {*self._plain, *self._parts}

    def read(self, given: Mapping[str, Any], start: R, others: Collection[str] = ()) -> R:
        """The record with what was given, where None means not given. `others`: names that are known elsewhere."""
        changes: dict[str, Any] = {}
        for name, value in given.items():
            if name not in self.names and name not in others:
                raise InvalidArgumentError(f"Unknown {self._what}: {name}")
            if name in self._parts and value is not None:
                self._read_parts(name, value, changes)
            elif name in self._plain:
                self._read_one(name, value, self._plain[name], changes)
        return replace(start, **changes)  # type: ignore[type-var]

    def _read_parts(self, whole: str, value: object, changes: dict[str, Any]) -> None:
        if not isinstance(value, Mapping):
            raise _not_of_kind(f"{whole} must be a dictionary", value, f"{whole} must be an object with its parts")
        for kept_in in self._parts[whole].values():
            if self.options[kept_in].unset is not None:
                changes[kept_in] = self.options[kept_in].unset
        for part, each in value.items():
            if part not in self._parts[whole]:
                raise InvalidArgumentError(self._unknown_part.format(whole, part))
            self._read_one(f"{whole}.{part}", each, self._parts[whole][part], changes)

    def _read_one(self, name: str, value: object, kept_in: str, changes: dict[str, Any]) -> None:
        if value is not None:
            read = self.options[kept_in].kind(value, name)
            if name != self.options[kept_in].alias or kept_in not in changes:
                changes[kept_in] = read

    def show(self, record: Any) -> dict[str, Any]:
        """What a program would write to get this record; None for a dictionary that would change nothing."""
        default, shown = type(record)(), {}
        for kept_in, each in self.options.items():
            if "." not in each.name:
                value = getattr(record, kept_in)
                shown[each.name] = dict(value) if isinstance(value, dict) else value
        for whole, parts in self._parts.items():
            on = any(getattr(record, kept_in) and not getattr(default, kept_in) for kept_in in parts.values())
            values = {part: getattr(record, kept_in) for part, kept_in in parts.items()}
            needed = {
                part: each for part, each in values.items() if each or self.options[parts[part]].unset is not None
            }
            shown[whole] = needed if on else None
        return shown


# ---------------------------------------------------------------------- the broker's options

SUBSCRIPTION = Options(
    "subscription option",
    {
        "lease_seconds": Option(ack_deadline, "ack_deadline_seconds", alias="ack_deadline"),
        "ordering": Option(flag, "enable_message_ordering", alias="message_ordering"),
        "exactly_once": Option(flag, "enable_exactly_once_delivery"),
        "filter": Option(text, "filter"),
        "flow_max_messages": Option(count, "flow_control.max_messages"),
        "flow_max_bytes": Option(count, "flow_control.max_bytes"),
        "retry_minimum_seconds": Option(seconds, "retry_policy.minimum_backoff", unset=10.0),
        "retry_maximum_seconds": Option(seconds, "retry_policy.maximum_backoff", unset=600.0),
        "dead_letter_topic": Option(text, "dead_letter_policy.dead_letter_topic"),
        "max_delivery_attempts": Option(count, "dead_letter_policy.max_delivery_attempts", unset=5),
        "retention_seconds": Option(seconds, "message_retention_duration"),
        "retain_acked": Option(flag, "retain_acked_messages"),
        "expiration_seconds": Option(seconds, "expiration_policy.ttl"),
        "labels": Option(strings, "labels"),
    },
    unknown_part="Unknown part of {0}: {1}",
)

TOPIC = Options(
    "topic option",
    {
        "labels": Option(strings, "labels"),
        "retention_seconds": Option(seconds, "message_retention_duration"),
    },
)


def named(given: object) -> Mapping[str, Any]:
    """What a caller gave as its options, if that is a mapping."""
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"Options must be given by name, not as {type(given).__name__}")
    return given


def subscription_options(given: Mapping[str, Any]) -> SubscriptionOptions:
    """The broker's options for what a caller wrote."""
    return SUBSCRIPTION.read(given, SubscriptionOptions())


def topic_options(given: Mapping[str, Any]) -> TopicOptions:
    """The same for a topic. Its name and time of creation, as its metadata shows them, may be among them."""
    return TOPIC.read(named(given), TopicOptions(), others=("name", "created"))


def shown_options(options: SubscriptionOptions) -> dict[str, Any]:
    """What a program would write to get these options; the ordering by both of its names."""
    return {**SUBSCRIPTION.show(options), "message_ordering": options.ordering}

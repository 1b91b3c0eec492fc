"""Options as programs write them, which are read, checked and shown by name.

Every option is declared once, with its name and the kind of its values: the options of the broker in `broker/model.py`,
those of consumers and publishers in `pubsub/options.py`. An error names the option as the caller wrote it, and an error
about a value out of range says the range.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, fields, replace
from datetime import timedelta
from typing import Any, NamedTuple, TypeAlias, TypeVar

from penstock.broker.limits import NUMBER_MAX
from penstock.broker.model import Options as BrokerOptions
from penstock.broker.model import OptionSpec, SubscriptionOptions, TopicOptions, option_specs
from penstock.errors import InvalidArgumentError

Kind: TypeAlias = Callable[[Any, str], Any]  # (value, name) -> the value to store, or InvalidArgumentError
R = TypeVar("R")


# ---------------------------------------------------------------------- kinds of values


class NotOfKindError(InvalidArgumentError):
    """A value has the wrong type."""

    def __init__(self, message: str | None = None, plain: str = "") -> None:
        """Set `plain` to the same sentence without Python terms, for authors of documents."""
        super().__init__(message)
        self.plain = plain


def _not_of_kind(sentence: str, value: object, plain: str = "") -> NotOfKindError:
    return NotOfKindError(f"{sentence}, not {type(value).__name__}", plain or sentence)


def seconds(value: object, name: str) -> float:
    """Read a duration: a number of seconds, a timedelta, or {"seconds": ..., "nanos": ...}."""
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


def milliseconds(value: object, name: str) -> float:
    """Read a number of milliseconds and convert it to seconds."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise InvalidArgumentError(f"{name} must be a number, at least 0")
    return value / 1000


def whole_number(least: int, most: int | None = None) -> Kind:
    """Return a kind of whole numbers. Without `most` they may have 64 bits, as in the journal."""
    greatest = NUMBER_MAX if most is None else most

    def read(value: object, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= greatest:
            is_huge = isinstance(value, int) and value > NUMBER_MAX
            limits = f"at least {least}" + (f" and at most {greatest}" if most is not None or is_huge else "")
            raise InvalidArgumentError(f"{name} must be a whole number, {limits}")
        return value

    return read


count = whole_number(1)


def flag(value: object, name: str) -> bool:
    if not isinstance(value, bool):
        raise _not_of_kind(f"{name} must be True or False", value, f"{name} must be true or false")
    return value


def text(value: object, name: str) -> str:
    if not isinstance(value, str):
        raise _not_of_kind(f"{name} must be a string", value, f"{name} must be text")
    return value


def strings(value: object, name: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(text, str) for item in value.items() for text in item):
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
    unset: object = None  # value of a part when its dictionary is given without it. None: unchanged


def option(default: R, kind: Kind, name: str, alias: str = "") -> R:
    """Declare a field of a record of options."""
    made: R = field(default=default, metadata={"option": Option(kind, name, alias)})
    return made


def declared(record: type) -> dict[str, Option]:
    return {field.name: field.metadata["option"] for field in fields(record)}


class Options:
    """The options of one record, by the names of programs."""

    def __init__(self, what: str, options: Mapping[str, Option], unknown_part: str = "Unknown option: {0}.{1}") -> None:
        self._what = what
        self.options = options  # by the name of their field
        self._unknown_part = unknown_part
        self._plain: dict[str, str] = {}  # name -> field
        self._parts: dict[str, dict[str, str]] = {}  # dictionary -> part -> field
        for kept_in, option in options.items():
            for name in filter(None, (option.name, option.alias)):
                whole, _, part = name.partition(".")
                (self._parts.setdefault(whole, {}) if part else self._plain)[part or whole] = kept_in
        self.names = {*self._plain, *self._parts}

    def read(self, given: Mapping[str, Any], start: R, others: Collection[str] = ()) -> R:
        """Return the record changed by the given options. None means not given. `others`: more names to accept."""
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
        for part, inner in value.items():
            if part not in self._parts[whole]:
                raise InvalidArgumentError(self._unknown_part.format(whole, part))
            self._read_one(f"{whole}.{part}", inner, self._parts[whole][part], changes)

    def _read_one(self, name: str, value: object, kept_in: str, changes: dict[str, Any]) -> None:
        if value is not None:
            read = self.options[kept_in].kind(value, name)
            if name != self.options[kept_in].alias or kept_in not in changes:
                changes[kept_in] = read

    def show(self, record: Any) -> dict[str, Any]:
        """Return the options that produce this record. A dictionary that would change nothing is None."""
        default, shown = type(record)(), {}
        for kept_in, option in self.options.items():
            if "." not in option.name:
                value = getattr(record, kept_in)
                shown[option.name] = dict(value) if isinstance(value, dict) else value
        for whole, parts in self._parts.items():
            on = any(getattr(record, kept_in) and not getattr(default, kept_in) for kept_in in parts.values())
            values = {part: getattr(record, kept_in) for part, kept_in in parts.items()}
            needed = {
                part: inner for part, inner in values.items() if inner or self.options[parts[part]].unset is not None
            }
            shown[whole] = needed if on else None
        return shown


# ---------------------------------------------------------------------- the broker's options


def _reader(spec: OptionSpec) -> Kind:
    """Return the function that checks a value of an option and converts it to what the broker stores."""
    if spec.kind == "duration" and spec.most is not None:
        return seconds_within(
            spec.least, spec.most, f"{spec.title} must be between {spec.least:.0f} and {spec.most:.0f} seconds"
        )
    if spec.kind in ("count", "bytes"):
        return whole_number(int(spec.least), None if spec.most is None else int(spec.most))
    return _READERS[spec.kind]


_READERS: dict[str, Kind] = {"duration": seconds, "text": text, "topic": text, "switch": flag, "labels": strings}


def public_options(record: type[BrokerOptions]) -> dict[str, Option]:
    """Return all public options of a record of the broker, by the names of their fields."""
    specs = option_specs(record).items()
    return {name: Option(_reader(spec), spec.name, spec.alias, spec.part_default) for name, spec in specs}


def _writable_options(record: type[BrokerOptions]) -> dict[str, Option]:
    """Return the options of a record that programs can set, with their names in the Python API."""
    specs, public = option_specs(record), public_options(record)
    names = {name: spec.name if spec.python_name is None else spec.python_name for name, spec in specs.items()}
    return {
        name: public[name]._replace(name=names[name])
        for name, spec in specs.items()
        if names[name] and not spec.read_only
    }


ACK_DEADLINE = option_specs(SubscriptionOptions)["lease_seconds"]
ACK_DEADLINE_MAX_SECONDS = int(ACK_DEADLINE.most or 0)
ack_deadline = _reader(ACK_DEADLINE)

SUBSCRIPTION = Options(
    "subscription option", _writable_options(SubscriptionOptions), unknown_part="Unknown part of {0}: {1}"
)
TOPIC = Options("topic option", _writable_options(TopicOptions))


def require_mapping(given: object) -> Mapping[str, Any]:
    """Return the options of a caller if they are a mapping, or raise InvalidArgumentError."""
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"Options must be given by name, not as {type(given).__name__}")
    return given


def subscription_options(given: Mapping[str, Any]) -> SubscriptionOptions:
    """Return the broker's options for the options of a caller."""
    return SUBSCRIPTION.read(given, SubscriptionOptions())


def topic_options(given: Mapping[str, Any]) -> TopicOptions:
    """Return the broker's options of a topic. The fields `name` and `created` of its metadata are accepted."""
    return TOPIC.read(require_mapping(given), TopicOptions(), others=("name", "created"))


def shown_options(options: SubscriptionOptions) -> dict[str, Any]:
    """Return the options that produce this record, with the ordering by both of its names."""
    return {**SUBSCRIPTION.show(options), "message_ordering": options.ordering}

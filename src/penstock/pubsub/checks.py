"""The values of options, checked: each function gives back what it was given, or says what it should have been.

The rule kept here: an option is refused by its full name, as the caller wrote it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

from penstock.engine.options import seconds
from penstock.errors import InvalidArgumentError

Check: TypeAlias = Callable[[Any, str], Any]


def whole(least: int) -> Check:
    def check(value: Any, name: str) -> int:
        if isinstance(value, bool) or not isinstance(value, int) or value < least:
            raise InvalidArgumentError(f"{name} must be a whole number, at least {least}")
        return value

    return check


def flag(value: Any, name: str) -> bool:
    if not isinstance(value, bool):
        raise InvalidArgumentError(f"{name} must be True or False, not {type(value).__name__}")
    return value


def number(value: Any, name: str) -> float:
    """A number that is not a duration in seconds by itself (milliseconds, say)."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise InvalidArgumentError(f"{name} must be a number, at least 0")
    return float(value)


def one_of(*choices: str) -> Check:
    def check(value: Any, name: str) -> str:
        if value not in choices:
            raise InvalidArgumentError(f"{name} must be one of {', '.join(choices)}: {value!r}")
        return str(value)

    return check


def strings(value: Any, name: str) -> dict[str, str]:
    if not isinstance(value, Mapping) or not all(isinstance(each, str) for item in value.items() for each in item):
        raise InvalidArgumentError(f"{name} must be a dictionary of strings")
    return dict(value)


def anything(value: Any, name: str) -> Any:
    return value


def bounded_seconds(least: float, most: float, refusal: str) -> Check:
    def check(value: Any, name: str) -> float:
        duration = seconds(value, name)
        if not least <= duration <= most:
            raise InvalidArgumentError(refusal)
        return duration

    return check


def checked(given: Mapping[str, Any], checks: Mapping[str, Check], what: str, within: str = "") -> dict[str, Any]:
    """The options that were given, checked; None means not given, an unknown name is an error."""
    if not isinstance(given, Mapping):
        raise InvalidArgumentError(f"{within or what} must be a dictionary, not {type(given).__name__}")
    result = {}
    for name, value in given.items():
        if name not in checks:
            raise InvalidArgumentError(f"Unknown {what}: {within + '.' if within else ''}{name}")
        if value is not None:
            result[name] = checks[name](value, f"{within}.{name}" if within else name)
    return result

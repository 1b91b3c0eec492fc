"""Queries and bodies decoded to records, or refused with one sentence."""

from __future__ import annotations

import re
from typing import Any, TypeVar
from urllib.parse import parse_qsl, unquote_to_bytes

import msgspec

from penstock.errors import InvalidArgumentError

T = TypeVar("T")

PARAMETERS_MAX = 100
DEPTH_SENTENCE = "The body is nested too deeply"
PROBLEM_CHARACTERS_MAX = 1000  # of an error, at its beginning and at its end; a name in it may be as long as the body

_PLACE = re.compile(r"(?P<what>.*?)(?: - at `(?:key in )?\$\.?(?P<place>[^`]*)`)?", re.DOTALL)
_UNKNOWN = re.compile(r"Object contains unknown field `(.*)`", re.DOTALL)
_MISSING = re.compile(r"Object missing required field `(.*)`", re.DOTALL)
_BOUND = re.compile(
    r"Expected `(?P<kind>\w+)`(?P<length> of length)? (?P<sign><=|>=|<|>|==|in) ?(?P<bound>.*)", re.DOTALL
)
_KIND = re.compile(r"Expected `(?P<kind>[^`]*)`", re.DOTALL)
_KINDS = {
    "int": "a whole number",
    "float": "a number",
    "str": "text",
    "bool": "true or false",
    "object": "an object",
    "array": "a list",
    "null": "null",
}
_SIGNS = {"<=": "at most", ">=": "at least", "<": "less than", ">": "more than", "==": "exactly", "in": "in"}


def unquote_segment(segment: str) -> str:
    """Return a segment of a path or of a query with its percent escapes decoded."""
    try:
        return unquote_to_bytes(segment.encode("latin-1")).decode()
    except UnicodeDecodeError:
        raise InvalidArgumentError("The path is not UTF-8") from None


def read_query(kind: type[T], text: str) -> T:
    try:
        pairs = parse_qsl(text, keep_blank_values=True, errors="strict", max_num_fields=PARAMETERS_MAX)
    except UnicodeDecodeError:
        raise InvalidArgumentError("The query is not UTF-8") from None
    except ValueError:
        raise InvalidArgumentError(f"A query has at most {PARAMETERS_MAX} parameters") from None
    values: dict[str, str] = {}
    for name, value in pairs:
        if name in values:
            raise InvalidArgumentError(f"The parameter {name} is given twice")
        values[name] = value
    try:
        return msgspec.convert(values, kind, strict=False)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(explain(str(error), "parameter", kind)) from None


def read_body(kind: type[T], body: bytes) -> T:
    try:
        return msgspec.json.decode(body or b"{}", type=kind)
    except msgspec.ValidationError as error:
        raise InvalidArgumentError(explain(str(error), "field", kind)) from None
    except RecursionError:
        raise InvalidArgumentError(DEPTH_SENTENCE) from None
    except (msgspec.DecodeError, UnicodeDecodeError):
        raise InvalidArgumentError("The body is not JSON") from None


def explain(problem: str, what: str, kind: Any = None) -> str:
    """Return a validation error of msgspec in the words of this API."""
    if len(problem) > 2 * PROBLEM_CHARACTERS_MAX:  # the patterns below would walk all of it
        problem = f"{problem[:PROBLEM_CHARACTERS_MAX]}...{problem[-PROBLEM_CHARACTERS_MAX:]}"
    match = _PLACE.fullmatch(problem)
    assert match is not None, "the pattern takes any text"
    place, problem = match["place"] or "", match["what"]
    if unknown := _UNKNOWN.fullmatch(problem):
        return f"Unknown {what}: {_join(place, unknown[1])[:200]}"
    if missing := _MISSING.fullmatch(problem):
        return f"The {what} {_join(place, missing[1])[:200]} is missing"
    if place.endswith("[...]"):
        place = f"Each value in {place}"
    place = place.replace("[...]", "")[:200] or "The body"
    if bound := _BOUND.fullmatch(problem):
        return f"{place} must be {_describe_bound(bound)}"
    if expected := _KIND.match(problem):
        kinds = [word.strip() for word in expected["kind"].split("|")]
        if what == "parameter":  # a query cannot express null
            kinds = [word for word in kinds if word != "null"] or kinds
        return f"{place} must be {' or '.join(_KINDS.get(word, word) for word in kinds)}"
    if problem.startswith("Invalid enum value") and (choices := _choices(kind, place)):
        return f"{place} must be {', '.join(choices[:-1])} or {choices[-1]}"
    return f"{place}: {problem[:1].lower()}{problem[1:]}".replace("`", "")[:300]


def _join(place: str, name: str) -> str:
    place = place.replace("[...]", "")
    return f"{place}.{name}" if place else name


def _describe_bound(bound: re.Match[str]) -> str:
    kind, sign, most = (
        _KINDS.get(bound["kind"], bound["kind"]),
        _SIGNS[bound["sign"]],
        bound["bound"].removesuffix(".0"),
    )
    return f"{kind} of {sign} {most}" if bound["length"] else f"{kind}, {sign} {most}"


def _choices(kind: Any, field: str) -> list[str]:
    known = record_schema(kind)["properties"].get(field, {}) if isinstance(kind, type) else {}
    choices = {str(value) for part in [known, *known.get("anyOf", [])] for value in part.get("enum", [])}
    return sorted(choices, key=lambda choice: (choice.lstrip("-"), choice.startswith("-")))


def record_schema(kind: Any) -> dict[str, Any]:
    _, components = msgspec.json.schema_components([kind])
    return dict(components[kind.__name__])

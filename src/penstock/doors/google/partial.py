"""Partial responses of REST: `fields=topics(name,labels/team),nextPageToken` says what of an answer is sent. Pure.

The grammar is that of Google's APIs: fields separated by commas, `/` or a point for a field inside, parentheses for
several of them, `*` for all. What is inside a list is chosen from each of its entries.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from penstock.doors.google.errors import CallError, invalid

Selection: TypeAlias = "dict[str, Selection]"  # by the name of a field; an empty one is all of it

ALL = "*"
_TOKEN = re.compile(r"[^\s,./()]+|[,./()]")
_SIGNS = frozenset(",./()")
_INSIDE = (["/"], ["."])
_DEPTH_MAX = 20
_MASK_CHARACTERS_MAX = 4096


def parse_fields(mask: str, kind: Any) -> Selection:
    """CallError if it is no mask, or names what a message with the descriptor `kind` does not have."""
    tokens = _TOKEN.findall(mask[: _MASK_CHARACTERS_MAX + 1])
    try:
        selection, rest = _fields(tokens, 0)
    except IndexError:  # it ended too early, or goes too deep
        raise _wrong(mask) from None
    if rest or len(mask) > _MASK_CHARACTERS_MAX:
        raise _wrong(mask)
    return _known(selection, kind)


def chosen(value: Any, selection: Selection) -> Any:
    """What of a JSON value is selected."""
    if isinstance(value, list):
        return [chosen(each, selection) for each in value]
    if not selection or not isinstance(value, dict):
        return value
    wanted = {name: selection.get(name, selection.get(ALL)) for name in value}
    return {name: chosen(value[name], inner) for name, inner in wanted.items() if inner is not None}


def _fields(tokens: list[str], depth: int) -> tuple[Selection, list[str]]:
    """Fields up to a closing parenthesis or the end, and what follows."""
    selection: Selection = {}
    while True:
        tokens = _field(tokens, selection, depth)
        if tokens[:1] != [","]:
            return selection, tokens
        tokens = tokens[1:]


def _field(tokens: list[str], into: Selection, depth: int) -> list[str]:
    """One field, with what is chosen inside it."""
    name, tokens = tokens[0], tokens[1:]
    if name in _SIGNS or depth > _DEPTH_MAX:
        raise IndexError
    inner: Selection = {}
    if tokens[:1] in _INSIDE:
        tokens = _field(tokens[1:], inner, depth + 1)
    elif tokens[:1] == ["("]:
        inner, tokens = _fields(tokens[1:], depth + 1)
        if tokens[0] != ")":
            raise IndexError
        tokens = tokens[1:]
    _join(into, name, inner)
    return tokens


def _join(into: Selection, name: str, inner: Selection) -> None:
    """A field that is named twice gives both; all of it wins."""
    known = into.get(name)
    if known is None:
        into[name] = inner
    elif not known or not inner:
        into[name] = {}
    else:
        for each, deeper in inner.items():
            _join(known, each, deeper)


def _known(selection: Selection, kind: Any) -> Selection:
    """The same by the names that JSON has, which may also be given as the .proto has them."""
    known: Selection = {}
    for name, inner in selection.items():
        field = kind.fields_by_camelcase_name.get(name) or kind.fields_by_name.get(name)
        if name == ALL:
            known[ALL] = inner
        elif field is None or (inner and field.message_type is None):
            raise _wrong(name)
        else:
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            known[field.camelcase_name] = inner if is_map or not inner else _known(inner, field.message_type)
    return known


def _wrong(mask: str) -> CallError:
    return invalid(f"Invalid field selection {mask[:100]}")

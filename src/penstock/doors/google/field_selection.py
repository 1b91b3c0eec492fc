"""Partial responses of REST: `fields=topics(name,labels/team),nextPageToken` selects the parts of an answer. Pure.

The grammar is that of Google's APIs: commas separate fields, `/` or a dot selects a field inside, parentheses select
several fields inside, and `*` selects all. A selection inside a list applies to each of its entries.
"""

from __future__ import annotations

import re
from typing import Any, TypeAlias

from penstock.doors.google.errors import CallError, invalid

Selection: TypeAlias = "dict[str, Selection]"  # by the name of a field. An empty selection selects everything

ALL = "*"
_TOKEN = re.compile(r"[^\s,./()]+|[,./()]")
_SIGNS = frozenset(",./()")
_INSIDE = (["/"], ["."])
_DEPTH_MAX = 20
_MASK_CHARACTERS_MAX = 4096


def parse_fields(mask: str, kind: Any) -> Selection:
    """Parse a mask. Raise CallError if it is invalid or names a field that the descriptor `kind` does not have."""
    tokens = _TOKEN.findall(mask[: _MASK_CHARACTERS_MAX + 1])
    try:
        selection, rest = _parse_list(tokens, 0)
    except IndexError:  # the mask ends too early, or is nested too deeply
        raise _invalid(mask) from None
    if rest or len(mask) > _MASK_CHARACTERS_MAX:
        raise _invalid(mask)
    return _resolve_names(selection, kind)


def select_fields(value: Any, selection: Selection) -> Any:
    """Return the selected part of a JSON value."""
    if isinstance(value, list):
        return [select_fields(item, selection) for item in value]
    if not selection or not isinstance(value, dict):
        return value
    wanted = {name: selection.get(name, selection.get(ALL)) for name in value}
    return {name: select_fields(value[name], inner) for name, inner in wanted.items() if inner is not None}


def _parse_list(tokens: list[str], depth: int) -> tuple[Selection, list[str]]:
    """Parse fields up to a closing parenthesis or the end. Return them and the remaining tokens."""
    selection: Selection = {}
    while True:
        tokens = _parse_field(tokens, selection, depth)
        if tokens[:1] != [","]:
            return selection, tokens
        tokens = tokens[1:]


def _parse_field(tokens: list[str], into: Selection, depth: int) -> list[str]:
    """Parse one field with the selection inside it. Return the remaining tokens."""
    name, tokens = tokens[0], tokens[1:]
    if name in _SIGNS or depth > _DEPTH_MAX:
        raise IndexError
    inner: Selection = {}
    if tokens[:1] in _INSIDE:
        tokens = _parse_field(tokens[1:], inner, depth + 1)
    elif tokens[:1] == ["("]:
        inner, tokens = _parse_list(tokens[1:], depth + 1)
        if tokens[0] != ")":
            raise IndexError
        tokens = tokens[1:]
    _join(into, name, inner)
    return tokens


def _join(into: Selection, name: str, inner: Selection) -> None:
    """Add a field to a selection. The selections of a field that is named twice are combined."""
    present = into.get(name)
    if present is None:
        into[name] = inner
    elif not present or not inner:
        into[name] = {}  # everything
    else:
        for inner_name, deeper in inner.items():
            _join(present, inner_name, deeper)


def _resolve_names(selection: Selection, kind: Any) -> Selection:
    """Replace the names of the .proto file by those of JSON. Raise CallError for an unknown field."""
    resolved: Selection = {}
    for name, inner in selection.items():
        field = kind.fields_by_camelcase_name.get(name) or kind.fields_by_name.get(name)
        if name == ALL:
            resolved[ALL] = inner
        elif field is None or (inner and field.message_type is None):
            raise _invalid(name)
        else:
            is_map = field.message_type is not None and field.message_type.GetOptions().map_entry
            by_name = inner if is_map or not inner else _resolve_names(inner, field.message_type)
            resolved[field.camelcase_name] = by_name
    return resolved


def _invalid(mask: str) -> CallError:
    return invalid(f"Invalid field selection {mask[:100]}")

"""A document as TOML, as a person would write it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

_BARE = re.compile(r"[A-Za-z0-9_-]+", re.ASCII)
_ESCAPES = {'"': '\\"', "\\": "\\\\", "\b": "\\b", "\t": "\\t", "\n": "\\n", "\f": "\\f", "\r": "\\r"}


def to_toml(document: Mapping[str, Any]) -> str:
    """Top-level values, then lists of tables, each with its own tables below it."""
    blocks = ["\n".join(f"{_key(name)} = {_value(each)}" for name, each in document.items() if not _tables(each))]
    for name, each in document.items():
        blocks += ["\n".join(_table(f"[[{_key(name)}]]", _key(name), item)) for item in (each if _tables(each) else [])]
    return "\n\n".join(filter(None, blocks)) + "\n"


def _table(header: str, path: str, table: Mapping[str, Any]) -> Iterator[str]:
    """Tables inside it that have tables themselves, or are long, get a header of their own."""
    yield header
    apart = {name: each for name, each in table.items() if _is_apart(each)}
    for name, each in table.items():
        if name not in apart:
            yield f"{_key(name)} = {_value(each)}"
    for name, each in apart.items():
        inner = f"{path}.{_key(name)}"
        for item in each if isinstance(each, list) else [each]:
            yield from _table(f"[[{inner}]]" if isinstance(each, list) else f"[{inner}]", inner, item)


def _is_apart(value: object) -> bool:
    if _tables(value):
        return True
    return isinstance(value, Mapping) and any(isinstance(each, Mapping) or _tables(each) for each in value.values())


def _tables(value: object) -> bool:
    return isinstance(value, list) and bool(value) and all(isinstance(each, Mapping) for each in value)


def _key(name: str) -> str:
    return name if _BARE.fullmatch(name) else _text(name)


def _value(value: Any) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, list):
        return f"[{', '.join(map(_value, value))}]"
    if isinstance(value, Mapping):
        return f"{{ {', '.join(f'{_key(name)} = {_value(each)}' for name, each in value.items())} }}" if value else "{}"
    return _text(str(value))


def _text(text: str) -> str:
    if "\n" in text.strip("\n") and text.isprintable() is False and "'''" not in text and _is_plain(text):
        return f"'''\n{text}'''"
    return '"' + "".join(_ESCAPES.get(each) or _escaped(each) for each in text) + '"'


def _is_plain(text: str) -> bool:
    """Whether a text of several lines can be shown as it is."""
    return all(each.isprintable() or each in "\n\t" for each in text) and not text.endswith("'")


def _escaped(letter: str) -> str:
    if letter.isprintable():
        return letter
    return f"\\u{ord(letter):04X}" if ord(letter) < 0x10000 else f"\\U{ord(letter):08X}"

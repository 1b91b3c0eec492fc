"""On which line of a file a value stands, by its place; for files that were read already and are well formed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TypeAlias

from penstock.seeding.topology import Place

Lines: TypeAlias = Mapping[Place, int]

_DOTTED = r"""((?:[\w-]+|"[^"]*"|'[^']*')(?:\s*\.\s*(?:[\w-]+|"[^"]*"|'[^']*'))*)"""
_HEADER = re.compile(rf"\s*(\[\[?)\s*{_DOTTED}\s*\]\]?\s*$")
_KEY = re.compile(rf"\s*{_DOTTED}\s*=")
_PART = re.compile(r"""[\w-]+|"[^"]*"|'[^']*'""")
_TEXT = re.compile(r"\"\"\".*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|#[^\n]*", re.DOTALL)
_TOKEN = re.compile(r'"(?:[^"\\]|\\.)*"|[{}\[\],:]|\n')


def toml_lines(text: str) -> Lines:
    """Of tables and of keys in them. A value inside a list or an inline table is on the line of its key, or later."""
    found: dict[Place, int] = {}
    counts: dict[Place, int] = {}  # of the tables in a list of tables, so far
    table: Place = ()
    for number, line in enumerate(_TEXT.sub(_blanked, text).split("\n"), 1):
        if header := _HEADER.match(line):
            *parents, last = _parts(header[2])
            place: Place = ()
            for part in parents:
                place = (*place, part)
                place = (*place, counts[place] - 1) if place in counts else place
            table = (*place, last)
            if header[1] == "[[":
                counts[table] = counts.get(table, 0) + 1
                table = (*table, counts[table] - 1)
            found[table] = number
        elif key := _KEY.match(line):
            found.setdefault((*table, *_parts(key[1])), number)
    return found


def _blanked(text: re.Match[str]) -> str:
    """A text or comment without what could be taken for a header or key; keys in quotes stay as they are."""
    if text[0].startswith(('"""', "'''", "#")) or "\n" in text[0]:
        return "\n" * text[0].count("\n")
    return text[0]


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]


def json_lines(text: str) -> Lines:
    """Of every object, list and key."""
    found: dict[Place, int] = {}
    for place, number in _json_places(text):
        found.setdefault(place, number)
    return found


def _json_places(text: str) -> Iterator[tuple[Place, int]]:
    stack: list[str | int] = []  # where we are: a key or an index for every open object or list
    number, last = 1, ""
    for mark in (match[0] for match in _TOKEN.finditer(text)):
        if mark == "\n":
            number += 1
        elif mark in "{[":
            yield tuple(stack), number
            stack.append(0 if mark == "[" else "")
        elif mark in "}]":
            stack.pop()
        elif mark == "," and stack and isinstance(top := stack[-1], int):
            stack[-1] = top + 1
        elif mark == ":":
            stack[-1] = last
            yield tuple(stack), number
        elif mark.startswith('"'):
            last = mark[1:-1]
            number += mark.count("\n")


def line_of(lines: Lines, place: Place) -> int | None:
    """The line of a value, or of the nearest thing around it that has one."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place)

"""The line numbers of values in a TOML or JSON text that is known to be valid."""

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
    """Return the line number of every table and key. Values in lists and inline tables have none of their own."""
    lines: dict[Place, int] = {}
    counts: dict[Place, int] = {}  # number of tables so far in each list of tables
    table: Place = ()
    for number, line in enumerate(_TEXT.sub(_blank, text).split("\n"), 1):
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
            lines[table] = number
        elif key := _KEY.match(line):
            lines.setdefault((*table, *_parts(key[1])), number)
    return lines


def _blank(text: re.Match[str]) -> str:
    """Blank a comment or a string of several lines, which may look like a header or a key. Keep quoted keys."""
    if text[0].startswith(('"""', "'''", "#")) or "\n" in text[0]:
        return "\n" * text[0].count("\n")
    return text[0]


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]


def json_lines(text: str) -> Lines:
    """Return the line number of every object, list and key."""
    lines: dict[Place, int] = {}
    for place, number in _json_places(text):
        lines.setdefault(place, number)
    return lines


def _json_places(text: str) -> Iterator[tuple[Place, int]]:
    stack: list[str | int] = []  # current place: a key or index for each open object or list
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
    """Return the line of a value, or of the nearest value around it that has a line."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place)

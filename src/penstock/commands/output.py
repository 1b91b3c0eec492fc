"""The output of commands: tables on a terminal, lines with tabs in a pipe, JSON lines with --json.

In a pipe values are exact. Tabs and line ends inside a value are escaped, so that every record is one line.
"""

from __future__ import annotations

import os
import shutil
import sys
import textwrap
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from datetime import datetime
from itertools import chain, islice, zip_longest
from typing import Any, NamedTuple
from unicodedata import combining, east_asian_width

from penstock.commands.templates import Message, Piece, attributes, body, parse_template, render
from penstock.terminal import escape_controls, safe_json, safe_text, tell

TABLE_ROWS = 1000  # per table on a terminal, because the widths depend on all rows
GAP, LEAST_WIDTH = "  ", 4  # between columns, and of a folded column
BODY_CHARACTERS = 2000  # of a message on a terminal, unless a template is given

Row = Mapping[str, Any]


class Column(NamedTuple):
    title: str
    key: str  # "options.filter" is the key of an inner object
    shown: Callable[[Any], str] | None = None  # formats the value for a terminal; None: as in a pipe
    right: bool = False
    resource: bool = False  # a full name, which a terminal shortens if the project is the user's own


class Output:
    def __init__(self, *, json: bool = False, template: str | None = None) -> None:
        self.json = json
        self.terminal = sys.stdout.isatty()
        self.home = ""  # the project of names that a terminal shows short
        self._template: list[Piece] | None = parse_template(template) if template is not None else None

    # ------------------------------------------------------------------ records

    def table(self, rows: Iterable[Row], columns: Sequence[Column], empty: str = "") -> int:
        """Print rows and return their number. If there are none, print `empty` on a terminal."""
        printed = 0
        for part in chunks(rows, TABLE_ROWS if self.terminal and not self.json else 1):
            if self.json:
                self.line(part[0])
            elif self.terminal:
                head, *lines = table_lines(part, columns, shutil.get_terminal_size().columns, self.home)
                print(self.style(head, "bold"), *lines, sep="\n")
            else:
                print("\t".join(plain(lookup(part[0], column.key)) for column in columns))
            printed += len(part)
        if not printed and empty and self.terminal and not self.json:
            print(empty)
        return printed

    def record(self, row: Row, columns: Sequence[Column]) -> None:
        """Print all fields of a record: the fields in `columns` first, then the others."""
        _ = row[columns[0].key.partition(".")[0]]  # raises if the answer is not from Penstock
        if self.json:
            return self.line(row)
        named = {column.key.partition(".")[0] for column in columns}
        rest = [Column(key.replace("_", " "), key) for key in row if key not in named]
        for column in chain(columns, rest):
            value = lookup(row, column.key)
            if not self.terminal:
                print(f"{plain(column.key)}\t{plain(value)}")
                continue
            for title, part in _parts(column.title, value):
                shown = column.shown(part) if column.shown else plain(part)
                self.titled(title, shown)

    def line(self, row: object) -> None:
        """Print a line of JSON."""
        import msgspec

        data = msgspec.json.encode(row)
        write((safe_json(data.decode()).encode() if self.terminal else data) + b"\n")

    def say(self, sentence: str, row: object) -> None:
        """Print a sentence about the result, or the record with --json."""
        self.line(row) if self.json else tell(sentence)

    def titled(self, title: str, value: str) -> None:
        """Print a field of a record on a terminal."""
        print(self.style(safe_text(f"{title:<20}"), "bold"), safe_text(value))

    def escape(self, text: str) -> str:
        return safe_text(text) if self.terminal else escape_controls(text)

    def style(self, text: str, style: str) -> str:
        codes = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
        return f"\x1b[{codes[style]}m{text}\x1b[0m" if self.terminal and colours() else text

    # ------------------------------------------------------------------ messages

    def message(self, message: Message, note: str = "") -> None:
        """Print a message with the template, else as JSON, as its body in a pipe, or as a summary on a terminal."""
        if self._template is not None:
            write(render(self._template, message, safe=self.terminal))
        elif self.json:
            self.line(message)
        elif not self.terminal:
            write(body(message) + b"\n")
        else:
            print(self._format_message(message, note), flush=True)

    def _format_message(self, message: Message, note: str) -> str:
        data = body(message)
        text = data[: 4 * BODY_CHARACTERS].decode("utf-8", "backslashreplace")[:BODY_CHARACTERS]
        problem = (message.get("decoded") or {}).get("problem")
        cut = self.style(f" ({len(data):,} bytes)", "dim") if len(data) > len(text.encode()) else ""
        parts = [
            self.style(f"{message['offset']:>8}", "cyan"),
            self.style(clock_time(message["publish_time"]), "dim"),
            self.style(safe_text(str(message["ordering_key"])), "yellow") if message.get("ordering_key") else "",
            self.style(safe_text(attributes(message)), "green") if message.get("attributes") else "",
            note,
            self.style(safe_text(problem), "red") if problem else "",
            safe_text(text) + cut,
        ]
        return "  ".join(filter(None, parts))


def write(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


@contextmanager
def whole_screen() -> Iterator[None]:
    """Switch to the other screen of the terminal, without a cursor, and back at the end."""
    print("\x1b[?1049h\x1b[?25l", end="", flush=True)
    try:
        yield
    finally:
        print("\x1b[?25h\x1b[?1049l", end="", flush=True)


def draw(lines: Iterable[str]) -> None:
    """Write safe lines over the whole screen."""
    print("\x1b[H" + "\x1b[K\n".join(lines), end="\x1b[K\x1b[J", flush=True)


def colours() -> bool:
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def table_lines(rows: Iterable[Row], columns: Sequence[Column], width: int, home: str = "") -> Iterator[str]:
    """Yield a line of titles and then the rows, in aligned columns. Cells are folded if the lines are too long."""
    table = [[column.title for column in columns], *([_cell(row, column, home) for column in columns] for row in rows)]
    widths = [max(map(display_width, cells)) for cells in zip(*table, strict=True)]
    while sum(widths) > width - len(GAP) * (len(columns) - 1) and max(widths) > LEAST_WIDTH:
        widths[widths.index(max(widths))] -= 1
    for cells in table:
        for parts in zip_longest(*map(_fold, cells, widths), fillvalue=""):
            yield GAP.join(map(_pad, parts, widths, columns)).rstrip()


def _fold(text: str, width: int) -> list[str]:
    return [text] if display_width(text) <= width else textwrap.wrap(text, width, break_on_hyphens=False)


def _pad(text: str, width: int, column: Column) -> str:
    space = " " * (width - display_width(text))
    return space + text if column.right else text + space


def display_width(text: str) -> int:
    """Return how many columns of a terminal the text takes."""
    if text.isascii():
        return len(text)
    return sum(0 if combining(character) else 2 if east_asian_width(character) in "FW" else 1 for character in text)


def _cell(row: Row, column: Column, home: str) -> str:
    value = lookup(row, column.key)
    if value is None:
        return "-"
    if column.resource and home and str(value).startswith(f"projects/{home}/"):
        return safe_text(str(value).rpartition("/")[2])
    return safe_text(column.shown(value) if column.shown else plain(value))


def _parts(title: str, value: Any) -> Iterator[tuple[str, Any]]:
    """Yield the titles and values of the lines for a value: one for each part of an object, none if it is empty."""
    if isinstance(value, Mapping):
        for name, part in value.items():
            yield from _parts(f"{title} {str(name).replace('_', ' ')}", part)
    elif value not in (None, "", []):
        yield title, value


def lookup(row: Row, key: str) -> Any:
    value: Any = row
    for part in key.split("."):
        value = value.get(part) if isinstance(value, Mapping) else None
    return value


def plain(value: Any) -> str:
    """Return a value as a field of a line, with tabs and line ends escaped."""
    if value is None:
        return ""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, Mapping | list | tuple):
        import msgspec

        return msgspec.json.encode(value).decode() if value else ""
    return escape_controls(str(value))


# ---------------------------------------------------------------------- values for people


def count(value: float) -> str:
    return f"{value:,.0f}"


def rate(value: float) -> str:
    return f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def size(value: float) -> str:
    for unit in ("B", "KiB", "MiB", "GiB"):
        if abs(value) < 1024:
            return f"{value:.0f} {unit}" if unit == "B" or value >= 100 else f"{value:.1f} {unit}"
        value /= 1024
    return f"{value:.1f} TiB"


def age(value: float) -> str:
    """Return an age with at most two units: `850ms`, `12s`, `3m12s`, `5h20m`, `2d3h`."""
    if 0 < value < 1:
        return f"{value * 1000:.3g}ms"
    if value < 60:
        return f"{value:.0f}s"
    units = [("d", 86400), ("h", 3600), ("m", 60), ("s", 1)]
    whole = int(value)
    first = next(index for index, (_, seconds) in enumerate(units) if whole >= seconds)
    (large, large_seconds), (small, small_seconds) = units[first : first + 2]
    rest = whole % large_seconds // small_seconds
    return f"{whole // large_seconds}{large}{f'{rest}{small}' if rest else ''}"


def moment(value: str) -> str:
    """Return a time in the local time zone, to the second."""
    return datetime.fromisoformat(value).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def clock_time(value: str) -> str:
    return datetime.fromisoformat(value).astimezone().strftime("%m-%d %H:%M:%S.%f")[:-3]


def yes_no(value: object) -> str:
    return "yes" if value else "no"


def chunks(items: Iterable[Any], most: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while some := list(islice(rest, most)):
        yield some

"""What commands print: tables with colour on a terminal, lines with tabs in a pipe, JSON lines where asked.

In a pipe a value is exact and never cut; what has a tab or a line end inside is escaped, so that a line is a record.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, NamedTuple

from penstock.commands.templates import Message, Piece, attributes, body, parse_template, render
from penstock.logs import escape_controls

if TYPE_CHECKING:
    from rich.console import Console

TABLE_ROWS = 1000  # a table on a terminal needs all of its rows at once
BODY_CHARACTERS = 2000  # of a message on a terminal, unless a template asks for all

Row = Mapping[str, Any]


class Column(NamedTuple):
    title: str
    key: str  # "options.filter" is a part of a part
    shown: Callable[[Any], str] | None = None  # on a terminal; None: as in a pipe
    right: bool = False
    resource: bool = False  # a full name, of which a terminal shows the end where the project is the reader's own


class Output:
    def __init__(self, *, json: bool = False, template: str | None = None) -> None:
        self.json = json
        self.terminal = sys.stdout.isatty()
        self.home = ""  # the project whose things are shown by their short names on a terminal
        self._template: list[Piece] | None = parse_template(template) if template is not None else None
        self._console: Console | None = None

    @property
    def console(self) -> Console:
        """Rich's, made when it is needed: importing it takes longer than most commands."""
        if self._console is None:
            from rich.console import Console

            self._console = Console(highlight=False, emoji=False, markup=False, soft_wrap=False)
        return self._console

    # ------------------------------------------------------------------ records

    def table(self, rows: Iterable[Row], columns: Sequence[Column], empty: str = "") -> int:
        """Print rows; how many there were. `empty` is said on a terminal where there are none."""
        printed = 0
        for part in chunks(rows, TABLE_ROWS if self.terminal and not self.json else 1):
            if self.json:
                self.line(part[0])
            elif self.terminal:
                self.console.print(rich_table(part, columns, self.home))
            else:
                print("\t".join(plain(lookup(part[0], column.key)) for column in columns))
            printed += len(part)
        if not printed and empty and self.terminal and not self.json:
            print(empty)
        return printed

    def record(self, row: Row, columns: Sequence[Column] = ()) -> None:
        """One thing with all its fields: those of `columns` first and as they say, then the others."""
        if self.json:
            return self.line(row)
        named = {column.key.partition(".")[0] for column in columns}
        rest = [Column(key.replace("_", " "), key) for key in row if key not in named]
        for column in chain(columns, rest):
            value = lookup(row, column.key)
            if not self.terminal:
                print(f"{column.key}\t{plain(value)}")
                continue
            for title, each in _parts(column.title, value):
                shown = column.shown(each) if column.shown else plain(each)
                print(f"{self.style(f'{title:<20}', 'bold')} {escape_controls(shown)}")

    def line(self, row: object) -> None:
        """One line of JSON."""
        import msgspec

        write(msgspec.json.encode(row) + b"\n")

    def say(self, sentence: str, row: object) -> None:
        """What was done: a sentence, or the record behind it as JSON."""
        self.line(row) if self.json else print(sentence)

    def style(self, text: str, style: str) -> str:
        codes = {"bold": "1", "dim": "2", "red": "31", "green": "32", "yellow": "33", "cyan": "36"}
        return f"\x1b[{codes[style]}m{text}\x1b[0m" if self.terminal and colours() else text

    # ------------------------------------------------------------------ messages

    def message(self, message: Message, note: str = "") -> None:
        """A template says how; without one, JSON or, in a pipe, the body as a line. On a terminal, what fits."""
        if self._template is not None:
            write(render(self._template, message))
        elif self.json:
            self.line(message)
        elif not self.terminal:
            write(body(message) + b"\n")
        else:
            print(self._shown(message, note), flush=True)

    def _shown(self, message: Message, note: str) -> str:
        data = body(message)
        text = data[: 4 * BODY_CHARACTERS].decode("utf-8", "backslashreplace")[:BODY_CHARACTERS]
        problem = (message.get("decoded") or {}).get("problem")
        cut = self.style(f" ({len(data):,} bytes)", "dim") if len(data) > len(text.encode()) else ""
        parts = [
            self.style(f"{message['offset']:>8}", "cyan"),
            self.style(clock_time(message["publish_time"]), "dim"),
            self.style(escape_controls(str(message["ordering_key"])), "yellow") if message.get("ordering_key") else "",
            self.style(escape_controls(attributes(message)), "green") if message.get("attributes") else "",
            note,
            self.style(escape_controls(problem), "red") if problem else "",
            escape_controls(text) + cut,
        ]
        return "  ".join(filter(None, parts))


def write(data: bytes) -> None:
    sys.stdout.flush()
    sys.stdout.buffer.write(data)
    sys.stdout.buffer.flush()


def colours() -> bool:
    return "NO_COLOR" not in os.environ and os.environ.get("TERM") != "dumb"


def rich_table(rows: Iterable[Row], columns: Sequence[Column], home: str = "") -> Any:
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, header_style="bold", padding=(0, 2, 0, 0))
    for column in columns:
        table.add_column(column.title, justify="right" if column.right else "left", overflow="fold")
    for row in rows:
        table.add_row(*(Text(_cell(row, column, home)) for column in columns))
    return table


def _cell(row: Row, column: Column, home: str) -> str:
    value = lookup(row, column.key)
    if value is None:
        return "-"
    if column.resource and home and str(value).startswith(f"projects/{home}/"):
        return escape_controls(str(value).rpartition("/")[2])
    return escape_controls(column.shown(value) if column.shown else plain(value))


def _parts(title: str, value: Any) -> Iterator[tuple[str, Any]]:
    """What is worth a line on a terminal: an object has one for each of its parts, and what is empty none."""
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
    """A value as a field of a line: exact, and without tabs and line ends."""
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
    """`850ms`, `12s`, `3m12s`, `5h20m`, `2d3h`: two units at most."""
    if 0 < value < 1:
        return f"{value * 1000:.3g}ms"
    if value < 60:
        return f"{value:.0f}s"
    units = [("d", 86400), ("h", 3600), ("m", 60), ("s", 1)]
    whole = int(value)
    first = next(index for index, (_, each) in enumerate(units) if whole >= each)
    (large, large_seconds), (small, small_seconds) = units[first : first + 2]
    rest = whole % large_seconds // small_seconds
    return f"{whole // large_seconds}{large}{f'{rest}{small}' if rest else ''}"


def moment(value: str) -> str:
    """An instant in the reader's own time zone, to the second."""
    return datetime.fromisoformat(value).astimezone().strftime("%Y-%m-%d %H:%M:%S")


def clock_time(value: str) -> str:
    return datetime.fromisoformat(value).astimezone().strftime("%m-%d %H:%M:%S.%f")[:-3]


def yes_no(value: object) -> str:
    return "yes" if value else "no"


def chunks(items: Iterable[Any], most: int) -> Iterator[list[Any]]:
    rest = iter(items)
    while some := list(islice(rest, most)):
        yield some

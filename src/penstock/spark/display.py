"""What a user sees of a run: bars on a terminal, a line every ten seconds elsewhere, tables at the end.

The rule kept here: this module only shows; it is handed numbers and asks nobody.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from rich.console import Console
from rich.progress import BarColumn, Progress, TaskID, TextColumn, TimeElapsedColumn
from rich.table import Table

from penstock.spark.runs import Standing

LINE_SECONDS = 10.0


class Summary(NamedTuple):
    """A small table a flow shows at its end."""

    title: str
    columns: Sequence[str]
    rows: Sequence[Sequence[object]]


class Bars:
    """One bar per flow: rows done, to go, rate, and the lag behind the topic's end."""

    def __init__(self, console: Console, names: Sequence[str]) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(bar_width=30),
            TextColumn("{task.fields[told]}"),
            TimeElapsedColumn(),
            console=console,
            refresh_per_second=4,
        )
        self._tasks: dict[str, TaskID] = {
            name: self._progress.add_task(name, total=None, told="starting") for name in names
        }
        self._progress.start()

    def show(self, standings: Mapping[str, Standing], now: float) -> None:
        for name, standing in standings.items():
            total = standing.rows_in + standing.to_go if standing.to_go is not None else None
            if not standing.active:
                total = standing.rows_in or 1
            completed = standing.rows_in if standing.rows_in or standing.active else 1
            self._progress.update(self._tasks[name], completed=completed, total=total, told=told(standing))

    def close(self) -> None:
        self._progress.stop()


class Lines:
    """Where nobody can draw: the same numbers as plain lines."""

    def __init__(self, console: Console, names: Sequence[str]) -> None:
        self._console = console
        self._next: float | None = None
        self._ended: set[str] = set()

    def show(self, standings: Mapping[str, Standing], now: float) -> None:
        due = self._next is not None and now >= self._next
        for name, standing in standings.items():
            ended = not standing.active and name not in self._ended
            if ended or (due and standing.active):
                self._console.print(f"{name}: {told(standing)}", markup=False, highlight=False, soft_wrap=True)
            if ended:
                self._ended.add(name)
        if due or self._next is None:
            self._next = now + LINE_SECONDS

    def close(self) -> None:
        """Every line is written."""


def told(standing: Standing) -> str:
    """'12,000 rows, 3,000 to go, 4,000/s, batch 3' or how it ended."""
    if standing.failure is not None:
        return "failed"
    rate = standing.rows_in / standing.seconds if standing.seconds > 0 else 0
    parts = [f"{standing.rows_in:,} rows"]
    if standing.active and standing.to_go is not None:
        parts.append(f"{standing.to_go:,} to go")
    parts.append(f"{rate:,.0f}/s")
    end = "stopped" if standing.stopped else "done"
    return ", ".join([*parts, f"{standing.batches} batches" if standing.active else end])


def table_of(standings: Mapping[str, Standing], places: Mapping[str, str]) -> Table:
    """The end of a run: what each flow did, and where its rows are."""
    table = Table("flow", box=None, pad_edge=False, header_style="bold")
    for title in ("rows in", "rows out", "batches", "seconds"):
        table.add_column(title, justify="right")
    table.add_column("output", overflow="fold")
    for name, standing in standings.items():
        out = f"{standing.rows_out:,}" if standing.rows_out is not None else "-"
        place = "failed" if standing.failure is not None else places[name]
        numbers = (f"{standing.rows_in:,}", out, str(standing.batches), f"{standing.seconds:.1f}")
        table.add_row(name, *numbers, place)
    return table


def summary_table(summary: Summary) -> Table:
    table = Table(*summary.columns, title=summary.title, title_justify="left", box=None, pad_edge=False)
    for row in summary.rows:
        table.add_row(*("" if value is None else str(value) for value in row))
    return table

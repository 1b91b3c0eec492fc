"""The display of a run: bars on a terminal, otherwise a line every ten seconds, and tables at the end."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich import progress as rich_progress
from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from penstock.spark.runs import Progress, Summary
from penstock.terminal import safe_text
from penstock.wording import counted

LINE_SECONDS = 10.0


class Bars:
    """One progress bar per flow: rows done, rows to go, rate, batches."""

    def __init__(self, console: Console, names: Sequence[str]) -> None:
        self._progress = rich_progress.Progress(
            rich_progress.TextColumn("{task.description}"),
            rich_progress.BarColumn(bar_width=30),
            rich_progress.TextColumn("{task.fields[numbers]}"),
            rich_progress.TimeElapsedColumn(),
            console=console,
            refresh_per_second=4,
        )
        self._tasks: dict[str, rich_progress.TaskID] = {
            name: self._progress.add_task(escape(safe_text(name)), total=None, numbers="starting") for name in names
        }
        self._progress.start()

    def show(self, flows: Mapping[str, Progress], now: float) -> None:
        for name, progress in flows.items():
            total = progress.rows_in + progress.to_go if progress.to_go is not None else None
            if not progress.active:
                total = progress.rows_in or 1
            completed = progress.rows_in if progress.rows_in or progress.active else 1
            self._progress.update(self._tasks[name], completed=completed, total=total, numbers=numbers_of(progress))

    def close(self) -> None:
        self._progress.stop()


class Lines:
    """The same numbers as plain lines, for output that is not a terminal."""

    def __init__(self, console: Console, names: Sequence[str]) -> None:
        self._console = console
        self._next: float | None = None
        self._ended: set[str] = set()

    def show(self, flows: Mapping[str, Progress], now: float) -> None:
        due = self._next is not None and now >= self._next
        for name, progress in flows.items():
            ended = not progress.active and name not in self._ended
            if ended or (due and progress.active):
                self._console.print(
                    safe_text(f"{name}: {numbers_of(progress)}"), markup=False, highlight=False, soft_wrap=True
                )
            if ended:
                self._ended.add(name)
        if due or self._next is None:
            self._next = now + LINE_SECONDS

    def close(self) -> None:
        """Do nothing: all lines are written."""


def numbers_of(progress: Progress) -> str:
    """Return '12,000 rows, 3,000 to go, 4,000/s, 3 batches', or the same with how the flow ended."""
    if progress.failure is not None:
        return "failed"
    rate = progress.rows_in / progress.seconds if progress.seconds > 0 else 0
    parts = [counted(progress.rows_in, "row")]
    if progress.active and progress.to_go is not None:
        parts.append(f"{progress.to_go:,} to go")
    parts.append(f"{rate:,.0f}/s")
    end = "stopped" if progress.stopped else "done"
    return ", ".join([*parts, counted(progress.batches, "batch", "batches") if progress.active else end])


def table_of(flows: Mapping[str, Progress], outputs: Mapping[str, str]) -> Table:
    """Return the table at the end of a run: the numbers of each flow, and its output."""
    table = Table("flow", box=None, pad_edge=False, header_style="bold")
    for title in ("rows in", "rows out", "batches", "seconds"):
        table.add_column(title, justify="right")
    table.add_column("output", overflow="fold")
    for name, progress in flows.items():
        out = f"{progress.rows_out:,}" if progress.rows_out is not None else "-"
        output = "failed" if progress.failure is not None else outputs[name]
        numbers = (f"{progress.rows_in:,}", out, str(progress.batches), f"{progress.seconds:.1f}")
        table.add_row(Text(safe_text(name)), *numbers, Text(safe_text(output)))
    return table


def summary_table(summary: Summary) -> Table:
    table = Table(*summary.columns, title=summary.title, title_justify="left", box=None, pad_edge=False)
    for row in summary.rows:
        table.add_row(*(Text("" if value is None else safe_text(str(value))) for value in row))
    return table

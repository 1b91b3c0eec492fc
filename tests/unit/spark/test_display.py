"""The display of a run."""

from __future__ import annotations

import io

from rich.console import Console

from penstock.spark.display import LINE_SECONDS, Bars, Lines, numbers_of, summary_table, table_of
from penstock.spark.runs import Failure, Progress, Summary

HALF = Progress(rows_in=1500, rows_out=700, to_go=500, batches=3, seconds=3.0)


def shown(*, terminal: bool = False) -> tuple[Console, io.StringIO]:
    out = io.StringIO()
    return Console(file=out, force_terminal=terminal, width=120), out


def test_numbers_are_formatted() -> None:
    assert numbers_of(HALF) == "1,500 rows, 500 to go, 500/s, 3 batches"
    assert numbers_of(HALF._replace(to_go=None)) == "1,500 rows, 500/s, 3 batches"
    assert numbers_of(HALF._replace(rows_in=1, to_go=None, batches=1)) == "1 row, 0/s, 1 batch"
    assert numbers_of(HALF._replace(active=False)) == "1,500 rows, 500/s, done"
    assert numbers_of(HALF._replace(active=False, stopped=True)) == "1,500 rows, 500/s, stopped"
    assert numbers_of(HALF._replace(active=False, failure=Failure("x", "y"))) == "failed"


def test_a_line_every_ten_seconds_and_one_at_the_end() -> None:
    console, out = shown()
    lines = Lines(console, ["one"])
    for second in range(25):
        lines.show({"one": HALF}, float(second))
    assert out.getvalue().count("one: 1,500 rows") == 24 // LINE_SECONDS
    lines.show({"one": HALF._replace(active=False)}, 25.0)
    lines.show({"one": HALF._replace(active=False)}, 50.0)
    assert out.getvalue().count("done") == 1


def test_a_bar_for_each_flow() -> None:
    console, out = shown(terminal=True)
    bars = Bars(console, ["one", "two"])
    bars.show({"one": HALF, "two": Progress(active=False, failure=Failure("x", "y"))}, 1.0)
    bars.close()
    assert "1,500 rows, 500 to go, 500/s" in out.getvalue()
    assert "failed" in out.getvalue()


def test_the_table_at_the_end() -> None:
    console, out = shown()
    progress = {"one": HALF, "two": Progress(failure=Failure("x", "y"))}
    console.print(table_of(progress, {"one": "/lake", "two": "topic t"}))
    head, one, two = out.getvalue().splitlines()
    assert head.split() == ["flow", "rows", "in", "rows", "out", "batches", "seconds", "output"]
    assert one.split() == ["one", "1,500", "700", "3", "3.0", "/lake"]
    assert two.split() == ["two", "0", "-", "0", "0.0", "failed"]


def test_a_summary() -> None:
    console, out = shown()
    console.print(summary_table(Summary("failed deliveries", ["subscription", "reason"], [("s", None)])))
    assert "failed deliveries" in out.getvalue()
    assert "None" not in out.getvalue()

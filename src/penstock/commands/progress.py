"""A bar for what takes more than a second: on standard error, and only where that is a terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import TracebackType
from typing import Any, Self

PATIENCE_SECONDS = 1.0
STEP_SECONDS = 0.1


class Progress:
    """`with Progress("Publishing", total) as bar: bar.add(100)`."""

    def __init__(self, title: str, total: int | None = None) -> None:
        self.done = 0
        self._title, self.total = title, total
        self._began = self._shown = time.monotonic()
        self._wanted = sys.stderr.isatty()
        self._bar: Any = None
        self._task: Any = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, where: TracebackType | None) -> None:
        self.hide()

    def hide(self) -> None:
        """Before something is printed; the next step shows it again."""
        if self._bar is not None:
            self._bar.stop()
            self._bar = None

    def add(self, count: int) -> None:
        self.at(self.done + count)

    def at(self, done: int, total: int | None = None, title: str = "") -> None:
        self.done = done
        self.total = total if total is not None else self.total
        self._title = title or self._title
        now = time.monotonic()
        if self._wanted and now - self._began > PATIENCE_SECONDS and now - self._shown > STEP_SECONDS:
            self._shown = now
            self._show()

    def wait(self) -> Timer | None:
        """Show it when its time has come, though nothing is known of how far things are."""
        if not self._wanted:
            return None
        timer = Timer(PATIENCE_SECONDS, self._show)
        timer.start()
        return timer

    def _show(self) -> None:
        if self._bar is None:
            self._bar = _bar()
            self._task = self._bar.add_task(self._title, total=self.total)
            self._bar.start()
        self._bar.update(self._task, description=self._title, completed=self.done, total=self.total)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """For a request that may take long: a bar that only moves."""
    bar = Progress(title)
    timer = bar.wait()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()
        bar.hide()


def _bar() -> Any:
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
    from rich.progress import Progress as RichProgress

    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn()]
    console = Console(stderr=True)
    # Standard output stays what it is: it may be a file, into which the bar does not belong.
    return RichProgress(*columns, console=console, transient=True, redirect_stdout=False, redirect_stderr=False)

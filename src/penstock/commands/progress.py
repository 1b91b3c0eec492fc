"""Progress on standard error: a bar on a terminal, lines elsewhere."""

from __future__ import annotations

import shutil
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from threading import Timer
from types import TracebackType
from typing import Self

from penstock.terminal import tell

DELAY_SECONDS = 1.0
STEP_SECONDS = 0.1
BAR_WIDTH = 30
LINE_SECONDS = 3.0  # between two lines if standard error is not a terminal


class Progress:
    """A progress bar: `with Progress("Publishing", total) as bar: bar.add(100)`.

    The bar appears after a second. With `lines`, a line is printed every few seconds if standard error is not a
    terminal.
    """

    def __init__(self, title: str, total: int | None = None, *, lines: bool = False) -> None:
        self.done = 0
        self._title, self.total = title, total
        self._began = self._shown = time.monotonic()
        self._wanted = sys.stderr.isatty()
        self._lines = lines and not self._wanted
        self._visible = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, value: object, where: TracebackType | None) -> None:
        self.hide()

    def hide(self) -> None:
        """Hide the bar before other output. The next step shows it again."""
        if self._visible:
            print("\r\x1b[K", end="", file=sys.stderr, flush=True)
            self._visible = False

    def add(self, count: int) -> None:
        self.at(self.done + count)

    def at(self, done: int, total: int | None = None, title: str = "") -> None:
        self.done = done
        self.total = total if total is not None else self.total
        self._title = title or self._title
        now = time.monotonic()
        if self._wanted and now - self._began > DELAY_SECONDS and now - self._shown > STEP_SECONDS:
            self._shown = now
            self._show()
        elif self._lines and now - self._shown >= LINE_SECONDS:
            self._shown = now
            of_total = f" of {self.total:,}" if self.total is not None else ""
            tell(f"{self._title}: {self.done:,}{of_total}", file=sys.stderr)

    def wait(self) -> Timer | None:
        """Show the bar after the usual delay, without any progress."""
        if not self._wanted:
            return None
        timer = Timer(DELAY_SECONDS, self._show)
        timer.start()
        return timer

    def _show(self) -> None:
        self._visible = True
        line = f"{self._title} {self.done:,}"
        if self.total:
            part = min(1.0, self.done / self.total)
            left = (time.monotonic() - self._began) * (1 - part) / part if part else 0
            bar = "#" * round(part * BAR_WIDTH)
            line = f"{self._title} [{bar:.<{BAR_WIDTH}}] {self.done:,}/{self.total:,}, {left:,.0f} s left"
        width = shutil.get_terminal_size().columns
        print("\r\x1b[K", end="", file=sys.stderr)
        tell(line[: width - 1], end="", file=sys.stderr)


@contextmanager
def waiting(title: str) -> Iterator[None]:
    """Show a title while a long request runs."""
    bar = Progress(title)
    timer = bar.wait()
    try:
        yield
    finally:
        if timer is not None:
            timer.cancel()
            timer.join()
        bar.hide()

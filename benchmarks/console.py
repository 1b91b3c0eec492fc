"""The console beside a server at full speed: the publish rate with and without an open page, and the page's heap.

Run as `python -m benchmarks console [--quick]`. One client of the text door sends and takes windows of 100 messages as
fast as it can. Turns with the page alternate with turns without it, 120 of each. The order within a pair alternates,
too, so that other load of the machine affects both. Their ratio is printed with its standard error. Then the page stays
open for ten minutes, and its heap is read each minute after a collection.

The server has a processor of its own. The browser, which usually runs on another machine, has the lowest priority on
the processor of the client. So the benchmark measures the work of the server for the page. If the scheduler chose the
processors, the rates of two turns of 3 s would differ by 12 % without any page, and by 5 % in this setting.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.sharedctypes import Synchronized
from pathlib import Path
from statistics import mean, median, stdev
from typing import NamedTuple

import psutil
from playwright.sync_api import CDPSession, Page, sync_playwright

from benchmarks.gauge import Lap, mebibytes, row
from benchmarks.text_clients import TextClient
from tests.console.browser import FLAGS, HELP, find
from tests.server_process import ServerProcess

SHARE, STEP = 10_000, 1_000  # messages that are sent and then taken; messages between two counts
SETTLE = 1000  # milliseconds between two turns


class Figures(NamedTuple):
    without: list[Lap]
    open: list[Lap]
    heaps: list[int]

    @property
    def _logs(self) -> list[float]:
        return [math.log(beside.rate / alone.rate) for alone, beside in zip(self.without, self.open, strict=True)]

    @property
    def ratio(self) -> float:
        """The geometric mean of the ratios of neighbouring turns."""
        return math.exp(mean(self._logs))

    @property
    def error(self) -> float:
        """The standard error of the ratio."""
        return stdev(self._logs) / math.sqrt(len(self._logs)) if len(self._logs) > 1 else math.inf

    @property
    def growth(self) -> float:
        """The growth of the heap, from the first third of the readings to the last."""
        third = max(1, len(self.heaps) // 3)
        return median(self.heaps[-third:]) / median(self.heaps[:third])


def main(quick: bool) -> None:
    figures = measure(*((10, 3, 4, 5) if quick else (120, 3, 10, 60)))
    cpu = [median(lap.cpu_us for lap in laps) for laps in (figures.without, figures.open)]
    print(row("without the page", _middle(figures.without)))
    print(row("the page is open", _middle(figures.open)) + f"  {figures.ratio:6.3f}x (+-{figures.error:.3f})")
    print(f"  server's CPU for a message  {cpu[1] / cpu[0]:.3f}x")
    print(f"  heap of the page  {', '.join(mebibytes(each) for each in figures.heaps)}: {figures.growth:.3f}x")


def _middle(laps: list[Lap]) -> Lap:
    return sorted(laps, key=lambda lap: lap.rate)[len(laps) // 2]


def measure(turns: int, seconds: float, looks: int, look_seconds: float) -> Figures:
    """Measure pairs of turns with and without the page, then the heap of a page that stays open."""
    with tempfile.TemporaryDirectory() as folder, running(Path(folder)) as (server, published, page):
        without, beside = list[Lap](), list[Lap]()
        for turn in range(turns):
            for laps in (without, beside) if turn % 2 else (beside, without):
                if laps is beside:
                    show(page, server)
                else:
                    page.goto("about:blank")
                page.wait_for_timeout(SETTLE)
                laps.append(lap(server, published, page, seconds))
        show(page, server)
        session = page.context.new_cdp_session(page)
        heaps = [heap(session)]
        for _ in range(looks):
            page.wait_for_timeout(1000 * look_seconds)
            heaps.append(heap(session))
        return Figures(without, beside, heaps[1:])


@contextmanager
def running(folder: Path) -> Iterator[tuple[ServerProcess, Synchronized[int], Page]]:
    """Yield a server at full speed, the number of messages it has taken, and a browser with a lower priority than
    both.
    """
    context = multiprocessing.get_context("fork")
    published = context.Value("q", 0)
    with apart(), ServerProcess(folder, f"--data={folder / 'data'}", doors=("http", "text")) as server:
        give_processor(server)
        load = context.Process(target=_load, args=(server.place("text")[1], published), daemon=True)
        load.start()
        path = find()
        assert path is not None, HELP
        with sync_playwright() as playwright:
            browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
            page = browser.new_page(viewport={"width": 1280, "height": 800})
            show(page, server)
            for each in psutil.Process().children(recursive=True):
                if "chrom" in each.name():
                    each.nice(19)
            yield server, published, page
            browser.close()
        assert load.is_alive(), "the client failed"
        load.kill()
        load.join()


@contextmanager
def apart() -> Iterator[None]:
    """Leave the first processor to the server, for all processes that are started in the block."""
    usual = os.sched_getaffinity(0)
    os.sched_setaffinity(0, sorted(usual)[1:] or usual)
    try:
        yield
    finally:
        os.sched_setaffinity(0, usual)


def give_processor(server: ServerProcess) -> None:
    for thread in psutil.Process(server.process.pid).threads():
        os.sched_setaffinity(thread.id, {0})


def _load(port: int, published: Synchronized[int]) -> None:
    while True:
        # a client that has begun to take continues to take, so each share has its own client
        client = TextClient(port, "work")
        for _ in range(SHARE // STEP):
            client.send(STEP)
            with published.get_lock():
                published.value += STEP
        client.take(SHARE)
        client.close()


def show(page: Page, server: ServerProcess) -> None:
    page.goto(f"http://{server.addresses['http']}/#/overview")
    page.locator(".connection.live").wait_for()
    page.locator(".chart").nth(7).wait_for()


def lap(server: ServerProcess, published: Synchronized[int], page: Page, seconds: float) -> Lap:
    began, cpu, before = time.perf_counter(), server.cpu_seconds(), published.value
    page.wait_for_timeout(1000 * seconds)
    return Lap(published.value - before, time.perf_counter() - began, server.cpu_seconds() - cpu)


def heap(session: CDPSession) -> int:
    session.send("HeapProfiler.collectGarbage")
    return int(session.send("Runtime.getHeapUsage")["usedSize"])

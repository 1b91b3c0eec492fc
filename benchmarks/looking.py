"""Reads of a topic of 1,000,000 messages while a client publishes: the admin API, the command, the console's page.

Run as `python -m benchmarks looking [--quick]`. Each question is asked 20 times, and the median and the second slowest
are printed. A command is a process of its own, so the time of `penstock --version` is printed for comparison. The page
is measured from the click to the rows. The peer of the publish rate is the same publishing without reads.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Self

from playwright.sync_api import expect, sync_playwright

from benchmarks.gauge import Lap, mebibytes, row
from penstock.admin.client import Client
from tests.console.browser import FLAGS, HELP, find
from tests.server_process import ServerProcess

TOPIC = "deep"
TIMES = 20
MESSAGE = {"data": '{"customer": {"id": 17}, "text": "' + "x" * 200 + '"}', "attributes": {"country": "FR"}}


def main(quick: bool) -> None:
    count = 50_000 if quick else 1_000_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with ServerProcess(folder, f"--data={folder / 'data'}", doors=("http",)) as server:
            address = server.addresses["http"]
            with Client(address) as client:
                client.post("/topics", {"name": TOPIC})
                client.post("/subscriptions", {"name": "reader", "topic": TOPIC})  # so that all messages are kept
                middle = fill(client, count)
                with Publisher(address, server) as publisher:
                    print(row("publishing, without looking", publisher.lap(5)))
                    ask_api(client, count, middle)
                    search(client, server)
                    run_commands(address, count, middle)
                    print(row("publishing, meanwhile", publisher.since()))
                    open_pages(address, count)


def fill(client: Client, count: int) -> datetime:
    """Publish the messages, and return the publish time of the middle one."""
    middle = datetime.now(UTC)
    for number in range(count // 1000):
        if number == count // 2000:
            middle = datetime.now(UTC)
        client.post(f"/topics/{TOPIC}/messages", {"messages": [MESSAGE] * 1000})
    return middle


class Publisher:
    """A client that publishes 100 messages at a time, and waits for each answer."""

    def __init__(self, address: str, server: ServerProcess) -> None:
        self._address, self._server = address, server
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self._published = 0
        self._start = (0, 0.0, 0.0)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()

    def _publish(self) -> None:
        with Client(self._address) as client:
            while not self._stop.is_set():
                client.post(f"/topics/{TOPIC}/messages", {"messages": [MESSAGE] * 100})
                self._published += 100

    def lap(self, seconds: float) -> Lap:
        self.since()
        time.sleep(seconds)
        return self.since()

    def since(self) -> Lap:
        """Return the lap since the last call."""
        before, self._start = self._start, (self._published, time.perf_counter(), self._server.cpu_seconds())
        return Lap(*(now - then for now, then in zip(self._start, before, strict=True)))


def ask_api(client: Client, count: int, middle: datetime) -> None:
    messages = f"/topics/{TOPIC}/messages"
    show("API: the last 100", lambda: client.get(messages, **{"from": -100}))
    show("API: 100 from an offset", lambda: client.get(messages, **{"from": count // 2}))
    show("API: 100 from a time", lambda: client.get(messages, at=middle.isoformat()))
    show("API: list of topics", lambda: client.get("/topics"))
    show("API: statistics", lambda: client.get("/statistics"))


def search(client: Client, server: ServerProcess) -> None:
    """Search all messages for a text that none of them has."""
    before, began = server.resident_bytes(), time.perf_counter()
    *_, last = client.stream(f"/topics/{TOPIC}/stream", **{"from": 0, "text": "not there"})
    took, grown = time.perf_counter() - began, mebibytes(server.resident_bytes() - before)
    print(f"  search through {last['progress']['scanned']:,} in {took:.1f} s; the server grew by {grown}")


def run_commands(address: str, count: int, middle: datetime) -> None:
    time_of = f"@{middle.isoformat()}"
    for words in (
        ["--version"],
        ["peek", TOPIC, "-o", str(count // 2), "-n", "10"],
        ["peek", TOPIC, "-o", time_of, "-n", "10"],
        ["tail", TOPIC, "-n", "10"],
        ["ls"],
        ["stats"],
    ):
        command = [sys.executable, "-m", "penstock", *words]
        command += [] if words == ["--version"] else ["--address", address]
        show(
            f"penstock {' '.join(words)}"[:40],
            lambda command=command: subprocess.run(command, check=True, stdout=subprocess.DEVNULL),
        )


def open_pages(address: str, count: int) -> None:
    with sync_playwright() as playwright:
        path = find()
        assert path is not None, HELP
        browser = playwright.chromium.launch(executable_path=path, args=FLAGS)
        page = browser.new_page(viewport={"width": 1280, "height": 800})
        first = page.locator("a.message .offset").first
        page.goto(f"http://{address}/#/topics/{TOPIC}/messages")
        first.wait_for()

        def jump(place: int) -> None:
            page.get_by_label("From", exact=True).fill(str(place))
            page.get_by_role("button", name="Show").click()
            expect(first).to_have_text(f"{place:,}")

        places = iter(range(0, count, count // (2 * TIMES)))
        show("page: 100 from an offset", lambda: jump(next(places)))

        def whole() -> None:
            page.goto("about:blank")
            page.goto(f"http://{address}/#/topics/{TOPIC}/messages")
            first.wait_for()

        show("page: opened again, the last 100", whole)
        browser.close()


def show(label: str, ask: Callable[[], object]) -> None:
    times = []
    for _ in range(TIMES):
        began = time.perf_counter()
        ask()
        times.append(time.perf_counter() - began)
    times.sort()
    print(f"  {label:<42} {times[TIMES // 2] * 1e3:6.0f} ms, second slowest {times[-2] * 1e3:6.0f} ms")

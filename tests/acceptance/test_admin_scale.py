"""The admin API with a deep topic and a busy server: answers are fast, searches are streamed, and memory is bounded."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Self

import psutil
import pytest

from penstock.admin.client import Client
from tests.acceptance.command_line import CommandLine
from tests.server_process import ServerProcess

SECONDS_MAX = 0.2  # seconds per answer, with a deep topic
ASKED = 20
MIB = 1 << 20


class Harness:
    def __init__(self, server: ServerProcess, messages: int) -> None:
        self.server = server
        self.messages = messages
        self.client = Client(server.addresses["http"])
        self.client.post("/topics", {"name": "deep"})
        self.client.post("/topics", {"name": "busy"})
        for first in range(0, messages, 1000):
            batch = [{"data": f'{{"n": {number}}}', "attributes": {"n": str(number)}} for number in self._batch(first)]
            self.client.post("/topics/deep/messages", {"messages": batch})

    def _batch(self, first: int) -> range:
        return range(first, min(first + 1000, self.messages))

    def busy(self) -> Busy:
        return Busy(self.server.addresses["http"])

    def resident_bytes(self) -> int:
        return int(psutil.Process(self.server.ready["pid"]).memory_info().rss)


class Busy:
    """A thread that publishes without a pause."""

    def __init__(self, address: str) -> None:
        self._client = Client(address)
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._publish)
        self.published = 0

    def __enter__(self) -> Busy:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        self._thread.join()
        self._client.close()

    def _publish(self) -> None:
        batch = {"messages": [{"data": "x" * 100}] * 100}
        while not self._stop.is_set():
            self._client.post("/topics/busy/messages", batch)
            self.published += 100


@pytest.fixture(scope="module")
def deep(tmp_path_factory: pytest.TempPathFactory, rounds: Callable[[int, int], int]) -> Iterator[Harness]:
    folder = tmp_path_factory.mktemp("deep")
    with ServerProcess(folder, f"--data={folder / 'data'}", doors=["http"]) as server:
        harness = Harness(server, rounds(20_000, 1_000_000))
        with harness.client:
            yield harness


def slowest(ask: Callable[[], Any]) -> float:
    times = []
    for _ in range(ASKED):
        start = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start)
    return sorted(times)[-2]  # without the slowest one, which may be due to the machine


def test_questions_about_a_deep_topic_are_answered_quickly(deep: Harness, tmp_path: Path) -> None:
    """The commands are measured, too, without the time that a process takes to start."""
    client, path = deep.client, "/topics/deep/messages"
    command = CommandLine(deep.server, tmp_path)
    middle = client.get(f"{path}/{deep.messages // 2}")
    earlier = datetime.fromisoformat(middle["publish_time"]) - timedelta(microseconds=1)
    at = earlier.isoformat().replace("+00:00", "Z")
    questions: dict[str, Callable[[], Any]] = {
        "from the end": lambda: client.get(path, **{"from": -100}),
        "from an offset": lambda: client.get(path, **{"from": deep.messages // 3}),
        "by time": lambda: client.get(path, at=at),
        "the last": lambda: client.get(path, order="desc", max=10),
        "topics": lambda: client.get("/topics"),
        "topic": lambda: client.get("/topics/deep"),
        "statistics": lambda: client.get("/statistics"),
    }
    questions |= {
        f"penstock {' '.join(words)}": partial(command, *words)
        for words in (
            ("peek", "deep", "-o", str(deep.messages // 3)),
            ("peek", "deep", "-o", f"@{at}"),
            ("tail", "deep"),
            ("ls",),
            ("stats",),
        )
    }
    assert [each["offset"] for each in client.get(path, **{"from": -2})["messages"]] == [
        deep.messages - 2,
        deep.messages - 1,
    ]
    assert client.get(path, at=at, max=1)["messages"][0]["publish_time"] == middle["publish_time"]
    with deep.busy() as busy:
        times = {name: slowest(ask) for name, ask in questions.items()}
        assert busy.published > 0
    print({name: f"{seconds * 1000:.1f} ms" for name, seconds in times.items()})
    if deep.messages >= 1_000_000:
        assert max(times.values()) < SECONDS_MAX, times


def test_a_search_streams_and_can_be_left_and_memory_stays(deep: Harness) -> None:
    client, last = deep.client, deep.messages - 1
    list(client.stream("/topics/deep/stream", text=f'"n": {last}}}'))  # load what the first search needs
    before = deep.resident_bytes()
    start = time.perf_counter()
    lines = list(client.stream("/topics/deep/stream", json=f"$.n={last}"))
    seconds = time.perf_counter() - start
    assert [line["offset"] for line in lines if "offset" in line] == [last]
    assert lines[-1]["progress"]["scanned"] == deep.messages
    everything = sum(1 for line in client.stream("/topics/deep/stream") if "offset" in line)
    assert everything == deep.messages
    grown = deep.resident_bytes() - before
    print(f"searched {deep.messages / seconds:,.0f} messages a second, grown by {grown / MIB:.1f} MiB")
    assert grown < 32 * MIB
    left = client.stream("/topics/deep/stream", text="nowhere", follow=True, **{"from": 0})
    next(left)
    left.close()
    assert client.get("/topics/deep")["messages"] == deep.messages


class Readers:
    """Programs that read the stream of a topic repeatedly, and connections that request it and never read."""

    def __init__(self, address: str, reading: int, idle: int) -> None:
        self._address = address
        self._stop = threading.Event()
        self._threads = [threading.Thread(target=self._read) for _ in range(reading)]
        self._idle = idle
        self._sockets: list[socket.socket] = []

    def __enter__(self) -> Self:
        host, _, port = self._address.rpartition(":")
        for _ in range(self._idle):
            opened = socket.create_connection((host, int(port)))
            opened.sendall(b"GET /admin/v1/topics/deep/stream HTTP/1.1\r\nHost: localhost\r\n\r\n")
            self._sockets.append(opened)
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join()
        for opened in self._sockets:
            opened.close()

    def _read(self) -> None:
        with Client(self._address) as client:
            while not self._stop.is_set():
                for _ in zip(client.stream("/topics/deep/stream"), iter(self._stop.is_set, True), strict=False):
                    pass


def middle_seconds(ask: Callable[[], Any]) -> float:
    times = []
    for _ in range(60):
        start = time.perf_counter()
        ask()
        times.append(time.perf_counter() - start)
    return sorted(times)[len(times) // 2]


def test_readers_of_streams_do_not_hold_up_other_clients(deep: Harness) -> None:
    """Design law: no client may hold up another."""
    with Client(deep.server.addresses["http"]) as client:

        def publish() -> None:
            client.post("/topics/busy/messages", {"messages": [{"data": "x"}]})

        alone = middle_seconds(publish)
        with Readers(deep.server.addresses["http"], reading=8, idle=60):
            beside, health = middle_seconds(publish), middle_seconds(lambda: client.get("/statistics"))
    print(
        f"publish {alone * 1000:.1f} ms alone, {beside * 1000:.1f} ms with readers; statistics {health * 1000:.1f} ms"
    )
    assert beside < 3 * alone + 0.015
    assert health < 0.1


def test_a_call_looks_at_a_limited_number_and_returns_where_to_continue(deep: Harness) -> None:
    client, path = deep.client, "/topics/deep/messages"
    place, calls, found = 0, 0, []
    while True:
        page = client.get(path, **{"from": place, "filter": f'attributes.n = "{deep.messages - 1}"'})
        calls += 1
        found += page["messages"]
        assert page["scanned"] <= 101_000
        if page["complete"]:
            break
        assert page["next_offset"] > place
        place = page["next_offset"]
    assert [each["offset"] for each in found] == [deep.messages - 1]
    assert calls >= deep.messages // 101_000

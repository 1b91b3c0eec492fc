"""A driver killed again and again in the middle of a stream: no message is lost or duplicated.

A driver is killed when some of its rows have reached a sink and more wait at the source, at a time from a printed seed.
The checkpoint then tells in which stage it died.
"""

from __future__ import annotations

import json
import os
import random
import threading
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.spark.drivers import SECONDS, Driver, started
from tests.spark.servers import Server

Rounds = Callable[[int, int], int]

SOURCE = "projects/penstock/topics/source"
PLAIN = "projects/penstock/topics/plain"
SHUFFLED = "projects/penstock/topics/shuffled"
SINKS = (PLAIN, SHUFFLED)
LEAD = 200  # number of messages published ahead of the plain sink, so that a driver always has input


class Feed(threading.Thread):
    """A thread that publishes numbers to the source, always a little ahead of the sink."""

    def __init__(self, server: Server) -> None:
        super().__init__(daemon=True)
        self.published = 0
        self._server = server
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.is_set():
            tail = self._server.tail(PLAIN)
            if self.published < tail + LEAD:
                self._server.publish(SOURCE, [b"%d" % number for number in range(self.published, self.published + 20)])
                self.published += 20
            else:
                self._server.ask("bounds", topics=[PLAIN], after={PLAIN: tail}, wait_seconds=1)

    def stop(self) -> None:
        self._enough.set()
        self.join(SECONDS)


@pytest.mark.kill
def test_a_driver_killed_in_the_middle_of_a_stream_doubles_and_loses_nothing(tmp_path: Path, rounds: Rounds) -> None:
    seed = int(os.environ.get("PENSTOCK_MODEL_SEED") or random.randrange(1 << 32))
    print(f"PENSTOCK_MODEL_SEED={seed}")
    chance = random.Random(seed)
    with ExitStack() as stack:
        server = stack.enter_context(Server(tmp_path, "--data", str(tmp_path / "data")))
        for topic in (SOURCE, *SINKS):
            server.ask("topic.ensure", topic=topic)
        feed = Feed(server)
        feed.start()
        deaths, survivor = _storm(stack, server, tmp_path, chance, rounds(3, 40))
        feed.stop()
        _drain(survivor)
        _check(server, feed.published)
    print(f"{feed.published} messages; killed {dict(deaths)}")
    # Otherwise all kills came between batches, and proved nothing.
    assert deaths["in a batch"] >= sum(deaths.values()) / 4
    assert deaths["with rows of it published"] >= 1


def _storm(
    stack: ExitStack, server: Server, folder: Path, chance: random.Random, rounds: int
) -> tuple[Counter[str], Driver]:
    """Kill this many drivers. Return the stages in which they died, and a driver that is ready to continue."""
    deaths: Counter[str] = Counter()
    following = _driver(stack, server, folder, SINKS)
    for number in range(rounds):
        watched = SHUFFLED if number % 3 == 0 else PLAIN
        driver = following
        # The next driver starts meanwhile. A transaction costs as much again, so it is only in every third round.
        following = _driver(stack, server, folder, [PLAIN] if (number + 1) % 3 and number + 1 < rounds else SINKS)
        base = server.tail(watched)
        driver.hear("session")
        driver.say("go")
        _await_rows(server, driver, watched, base + chance.randint(1, 120))
        # Visible rows belong to a batch that is not done yet. Every other driver dies at once, and the others at any
        # time.
        threading.Event().wait(number % 2 * 0.6 * chance.random())
        driver.kill()
        deaths.update(_died_in(server, folder, watched))
    return deaths, following


def _driver(stack: ExitStack, server: Server, folder: Path, sinks: Sequence[str]) -> Driver:
    relays = [f"{sink.rpartition('/')[2]}:{SOURCE}:{sink}" for sink in sinks]
    return stack.enter_context(started(folder, "relay.py", server.endpoint, str(folder), *relays))


def _await_rows(server: Server, driver: Driver, topic: str, wanted: int) -> None:
    waited = 0.0
    while (
        server.ask("bounds", topics=[topic], after={topic: wanted - 1}, wait_seconds=1)["topics"][topic]["tail"]
        < wanted
    ):
        waited += 1
        assert driver.process.poll() is None, driver.complained()
        assert waited < SECONDS, driver.complained()


def _died_in(server: Server, folder: Path, sink: str) -> list[str]:
    """Return the stage in which the query died, from its checkpoint."""
    checkpoint = folder / f"checkpoint-{sink.rpartition('/')[2]}"
    planned, done = _last(checkpoint / "offsets"), _last(checkpoint / "commits")
    if planned == done:
        return ["between batches"]
    seen = server.tail(sink) > _end_of(checkpoint, done)
    return ["in a batch", "with rows of it published"] if seen else ["in a batch"]


def _last(folder: Path) -> int:
    return max((int(path.name) for path in folder.glob("*") if path.name.isdigit()), default=-1)


def _end_of(checkpoint: Path, batch: int) -> int:
    """Return the end offset of a batch, which is the number of rows until then."""
    if batch < 0:
        return 0
    return int(json.loads((checkpoint / f"offsets/{batch}").read_text().splitlines()[-1])[SOURCE])


def _drain(driver: Driver) -> None:
    driver.hear("session")
    driver.say("drain")
    driver.hear("started")
    driver.finish()


def _check(server: Server, published: int) -> None:
    numbers = range(published)
    assert sorted(server.data(PLAIN)) == sorted(b"got %d" % number for number in numbers)
    assert sorted(int(data.split()[0]) for data in server.data(SHUFFLED)) == list(numbers)

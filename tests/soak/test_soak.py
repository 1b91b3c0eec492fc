"""All doors at once, with several consumers for each subscription, tiny caches and unreliable clients.

The soak takes twenty seconds in `make test` and thirty minutes in `make nightly` (PENSTOCK_SOAK_SECONDS sets another
time). At the end all subscriptions are drained, and `tests/soak/history.py` checks the history of all clients. Memory
and open files of the server must not have grown, the server must be healthy, and must have no internal errors.
"""

from __future__ import annotations

import json
import os
import signal
import statistics
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import psutil
import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.doors.google import messages as m
from tests.server_process import SECONDS, ServerProcess
from tests.soak.actors import Actor, Consumer, Harness, Publisher
from tests.soak.google import PUBLISHER, SUBSCRIBER, Grpc, Pull, Rest, Streaming
from tests.soak.history import Expected, problems
from tests.soak.others import Azure, FlightReader, FlightUpload, HalfWay, Text

DRAIN_SECONDS = 120  # only a failing soak waits this long
LONG_SECONDS = 120  # memory is measured from here on, because it grows while the server warms up
GARBAGE_MAX = 1000  # objects in cycles, after tens of thousands of requests; a request must not create any
TOPICS, SUBSCRIPTIONS = "projects/p/topics/", "projects/p/subscriptions/"
NOTES_TOPIC, NOTES = "projects/penstock/topics/notes", "projects/penstock/subscriptions/notes"

EXPECTED = [
    Expected("plain", "plain"),
    Expected("rest", "plain"),
    Expected("tried", "plain", dead_letters="dead"),
    Expected("ordered", "keyed", ordered=True),
    Expected("once", "keyed", exactly_once=True),
    Expected("orders", "orders"),
    Expected("notes", "notes"),
    Expected("flight", "plain", log=True),
]


def never_acked(body: str) -> bool:
    return body.endswith("7")


# ---------------------------------------------------------------------- the server


class Server(ServerProcess):
    def __init__(self, folder: Path) -> None:
        self._garbage = folder / "garbage.json"
        command = ("tests.soak.serve", str(self._garbage))
        super().__init__(folder, f"--data={folder / 'data'}", "--retention-seconds=5", command=command)

    def get(self, path: str) -> str:
        with urllib.request.urlopen(f"http://{self.addresses['http']}{path}", timeout=SECONDS) as answer:
            text: str = answer.read().decode()
        return text

    def metrics(self) -> dict[str, float]:
        """Return every metric, with the sum of all series of a name."""
        found: dict[str, float] = {}
        for family in text_string_to_metric_families(self.get("/metrics")):
            for sample in family.samples:
                found[sample.name] = found.get(sample.name, 0) + sample.value
        return found

    def garbage(self) -> dict[str, int]:
        """Return the objects that only the garbage collector can free, by class.

        It runs rarely, and they stay until then.
        """
        self.process.send_signal(signal.SIGUSR1)
        assert wait(self._garbage.exists, SECONDS)
        found: dict[str, int] = json.loads(self._garbage.read_text())
        return found


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server(tmp_path) as server:
        yield server


class Scales(threading.Thread):
    """The memory in MB and the open files of the server and its reader process over time."""

    def __init__(self, pid: int, every_seconds: float) -> None:
        super().__init__(daemon=True)
        self.seen: dict[str, list[float]] = {"server MB": [], "server files": [], "reader MB": []}
        self._process = psutil.Process(pid)
        self._every_seconds = every_seconds
        self._enough = threading.Event()

    def run(self) -> None:
        while not self._enough.wait(self._every_seconds):
            self.seen["server MB"].append(self._process.memory_info().rss / (1 << 20))
            self.seen["server files"].append(self._process.num_fds())
            self.seen["reader MB"].append(
                sum(child.memory_info().rss for child in self._process.children()) / (1 << 20)
            )

    def stop(self) -> None:
        self._enough.set()
        self.join()

    def growth(self) -> dict[str, tuple[float, float]]:
        """Return the medians of the first and the last third, without the first fifth."""
        found = {}
        for name, values in self.seen.items():
            warm = values[len(values) // 5 :]
            third = max(1, len(warm) // 3)
            found[name] = statistics.median(warm[:third]), statistics.median(warm[-third:])
        return found


# ---------------------------------------------------------------------- the actors


def prepare(harness: Harness) -> None:
    client = Grpc(harness.addresses["pubsub"])
    for name in ("plain", "keyed", "dead"):
        client.call(PUBLISHER + "CreateTopic", m.Topic(name=TOPICS + name))
    policy = m.message("google.pubsub.v1.DeadLetterPolicy")(dead_letter_topic=TOPICS + "dead", max_delivery_attempts=5)
    backoff = m.message("google.pubsub.v1.RetryPolicy")
    backoff = backoff(minimum_backoff={"nanos": 100_000_000}, maximum_backoff={"seconds": 1})
    subscriptions = [
        m.Subscription(name="dead", topic="dead"),
        m.Subscription(name="plain", topic="plain"),
        m.Subscription(name="rest", topic="plain"),
        m.Subscription(name="tried", topic="plain", dead_letter_policy=policy, retry_policy=backoff),
        m.Subscription(name="ordered", topic="keyed", enable_message_ordering=True),
        m.Subscription(name="once", topic="keyed", enable_exactly_once_delivery=True),
    ]
    for each in subscriptions:
        each.name, each.topic = SUBSCRIPTIONS + each.name, TOPICS + each.topic
        each.ack_deadline_seconds = 10
        client.call(SUBSCRIBER + "CreateSubscription", each)
    client.hang_up()
    azure, text = Azure(harness.address("azure"), "orders"), Text(harness.addresses["text"], "notes")
    azure.create()
    harness.history.attempt("notes", "first")
    text.publish(["first"])  # the first message creates a queue of this door
    harness.history.accept("notes", "first")
    azure.hang_up()
    text.hang_up()


def publishers(harness: Harness) -> list[Actor]:
    pubsub, rest, azure = harness.addresses["pubsub"], harness.address("pubsub"), harness.address("azure")

    def to(name: str, place: str, client: Grpc | Rest, topic: str, pause_seconds: float, keys: int = 0) -> Publisher:
        def publish(bodies: list[str]) -> None:
            client.publish(place, bodies)

        return Publisher(harness, name, topic, publish, hang_up=client.hang_up, pause_seconds=pause_seconds, keys=keys)

    def direct(name: str, client: Azure | Text | FlightUpload, topic: str, pause_seconds: float) -> Publisher:
        return Publisher(harness, name, topic, client.publish, hang_up=client.hang_up, pause_seconds=pause_seconds)

    return [
        to("grpc", TOPICS + "plain", Grpc(pubsub), "plain", 0.1),
        to("http", TOPICS + "plain", Rest(rest), "plain", 0.2),
        to("keys", TOPICS + "keyed", Grpc(pubsub), "keyed", 0.1, keys=5),
        to("cross", NOTES_TOPIC, Grpc(pubsub), "notes", 0.5),
        direct("upload", FlightUpload(harness.addresses["flight"], TOPICS + "plain"), "plain", 0.3),
        direct("queue", Azure(azure, "orders"), "orders", 0.2),
        direct("text", Text(harness.addresses["text"], "notes"), "notes", 0.1),
        HalfWay(harness, "half", pause_seconds=0.2),
    ]


def consumers(harness: Harness) -> list[Actor]:
    pubsub, text, rest = harness.addresses["pubsub"], harness.addresses["text"], harness.address("pubsub")
    azure = harness.address("azure")

    def on(name: str, kind: Callable[[str, str], Pull | Streaming]) -> Callable[[], Pull | Streaming]:
        return lambda: kind(pubsub, SUBSCRIPTIONS + name)

    return [
        Consumer(harness, "plain-1", "plain", on("plain", Pull)),
        Consumer(harness, "plain-2", "plain", on("plain", Streaming)),
        Consumer(harness, "plain-3", "plain", on("plain", Streaming)),
        Consumer(harness, "rest-1", "rest", lambda: Rest(rest, SUBSCRIPTIONS + "rest")),
        Consumer(harness, "rest-2", "rest", lambda: Rest(rest, SUBSCRIPTIONS + "rest")),
        Consumer(harness, "tried-1", "tried", on("tried", Pull), refuse=never_acked),
        Consumer(harness, "tried-2", "tried", on("tried", Streaming), refuse=never_acked),
        Consumer(harness, "dead-1", "dead", on("dead", Pull)),
        Consumer(harness, "ordered-1", "ordered", on("ordered", Streaming)),
        Consumer(harness, "ordered-2", "ordered", on("ordered", Streaming)),
        Consumer(harness, "once-1", "once", on("once", Pull)),
        Consumer(harness, "once-2", "once", on("once", Pull)),
        Consumer(harness, "orders-1", "orders", lambda: Azure(azure, "orders")),
        Consumer(harness, "orders-2", "orders", lambda: Azure(azure, "orders")),
        Consumer(harness, "notes-1", "notes", lambda: Text(text, "notes")),
        Consumer(harness, "notes-2", "notes", lambda: Text(text, "notes")),
        Consumer(harness, "notes-3", "notes", lambda: Pull(pubsub, NOTES)),
        FlightReader(harness, "flight", TOPICS + "plain"),
    ]


# ---------------------------------------------------------------------- the soak


def test_all_doors_keep_their_promises_for_long(server: Server, rounds: Callable[[int, int], int]) -> None:
    seconds = int(os.environ.get("PENSTOCK_SOAK_SECONDS") or rounds(10, 1800))
    harness = Harness(server.addresses, seed=int(os.environ.get("PENSTOCK_SOAK_SEED") or 1))
    prepare(harness)
    publishing, consuming = publishers(harness), consumers(harness)
    scales = Scales(server.process.pid, max(0.2, seconds / 600))
    for actor in (*publishing, *consuming):
        actor.start()
    scales.start()
    wait(lambda: bool(harness.failures), seconds)
    scales.stop()
    harness.calm.set()
    for actor in publishing:
        actor.join(SECONDS)
    drained = drain(harness, server)
    harness.stop.set()
    for actor in consuming:
        actor.join(SECONDS)
    assert not harness.failures, "\n".join(harness.failures) + server.log()
    print(harness.history.count(), scales.growth())
    assert drained, server.get("/metrics")
    assert problems(harness.history, EXPECTED) == []
    check_health(server)
    check_growth(scales, seconds)
    assert server.stop() == 0, server.log()


def drain(harness: Harness, server: Server) -> bool:
    """Wait until every message is settled, however slow the clients are. A backlog that no longer shrinks is stuck."""
    left, until = float("inf"), time.monotonic() + DRAIN_SECONDS
    while left and not harness.failures and time.monotonic() < until:
        time.sleep(0.5)  # a backlog has no event, so it is polled
        before, left = left, server.metrics()["penstock_backlog_messages"]
        until = time.monotonic() + DRAIN_SECONDS if left < before else until
    return not left


def check_health(server: Server) -> None:
    """Check that the server holds nothing for clients that have disconnected."""
    assert wait(lambda: server.metrics()["penstock_buffer_bytes"] == 0, SECONDS)
    assert '"ok"' in server.get("/health")
    assert not {name: value for name, value in server.metrics().items() if "internal" in name and value}
    assert " ERROR " not in server.log(), server.log()
    assert sum(server.garbage().values()) < GARBAGE_MAX, server.garbage()


def check_growth(scales: Scales, seconds: int) -> None:
    if seconds >= LONG_SECONDS:
        for name, (before, after) in scales.growth().items():
            assert after <= before * 1.1 + 10, f"{name} grew from {before} to {after}"


def wait(condition: Callable[[], bool], seconds: float) -> bool:
    """Check a condition twice a second, and return whether it became true in time."""
    until = time.monotonic() + seconds
    while time.monotonic() < until:
        if condition():
            return True
        time.sleep(min(0.5, max(0.0, until - time.monotonic())))
    return condition()

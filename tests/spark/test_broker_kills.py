"""A broker killed and restarted under running queries, which continue, or fail and continue after a restart.

The next broker has the same port and folder, so the queries only see calls that fail.
"""

from __future__ import annotations

import os
import random
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.spark.queries import SECONDS, sentence, wait_until
from tests.spark.servers import Server

Rounds = Callable[[int, int], int]

SOURCE, PLAIN, SHUFFLED = (f"projects/penstock/topics/{name}" for name in ("source", "plain", "shuffled"))
ROWS = 60  # published in the lifetime of one broker


def relay(spark: Any, endpoint: str, folder: Path, sink: str, retry_seconds: int, **trigger: Any) -> Any:
    """Start a query from the source to a sink: rows as they are, or shuffled rows in a transaction."""
    shuffled = sink == SHUFFLED
    access = {"endpoint": endpoint, "retryTimeoutSeconds": retry_seconds}
    rows = (
        spark.readStream.format("penstock")
        .options(**access, topic=SOURCE, startingOffsets="earliest", consumerName=f"relay-{shuffled}".lower())
        .options(maxOffsetsPerTrigger=15, minPartitions=2)
        .load()
        .select("data")
    )
    rows = rows.repartition(2, "data") if shuffled else rows
    writer = rows.writeStream.format("penstock").options(**access, topic=sink, transactional=str(shuffled).lower())
    writer = writer.option("checkpointLocation", str(folder / sink.rpartition("/")[2]))
    return (writer.trigger(**trigger) if trigger else writer).start()


def data(rounds: int) -> list[bytes]:
    return [b"%06d" % number for number in range(rounds * ROWS)]


@pytest.mark.kill
def test_queries_outlive_a_broker_that_is_killed(spark: Any, tmp_path: Path, rounds: Rounds) -> None:
    seed = int(os.environ.get("PENSTOCK_MODEL_SEED") or random.randrange(1 << 32))
    print(f"PENSTOCK_MODEL_SEED={seed}")
    chance = random.Random(seed)
    lives = rounds(4, 40)
    ports: dict[str, str] = {}
    queries: list[Any] = []
    try:
        for life in range(lives):
            with Server(tmp_path, "--data", str(tmp_path / "data"), ports=ports) as server:
                if not life:
                    ports = prepare(server)
                    queries.append(relay(spark, server.endpoint, tmp_path, PLAIN, 60))
                server.publish(SOURCE, data(lives)[life * ROWS : (life + 1) * ROWS])
                if not life:
                    # The second query starts later, because Spark fails when two queries of a session send their first
                    # tasks together.
                    wait_until(lambda: bool(queries[0].recentProgress) or not queries[0].isActive)
                    queries.append(relay(spark, server.endpoint, tmp_path, SHUFFLED, 60))
                if life < lives - 1:
                    die_in_the_middle(server, queries, (life + 1) * ROWS, chance)
                else:
                    finish(server, queries, data(lives))
    finally:
        for query in queries:
            query.stop()


def prepare(server: Server) -> dict[str, str]:
    for topic in (SOURCE, PLAIN, SHUFFLED):
        server.ask("topic.ensure", topic=topic)
    return {door: address.rpartition(":")[2] for door, address in server.addresses.items()}


def die_in_the_middle(server: Server, queries: list[Any], published: int, chance: random.Random) -> None:
    """Kill the broker when a sink has some more rows, or all published rows."""
    watched = chance.choice([PLAIN, SHUFFLED])
    wanted = min(server.tail(watched) + chance.randint(1, 40), published)
    wait_until(lambda: has_come(server, watched, wanted) or not all(query.isActive for query in queries))
    threading.Event().wait(chance.choice([0.0, 0.5]) * chance.random())
    assert [query.exception() for query in queries] == [None, None]
    server.kill()


def has_come(server: Server, topic: str, tail: int) -> bool:
    """Return whether a topic has this tail, after a short wait in the broker."""
    known = server.ask("bounds", topics=[topic], after={topic: tail - 1}, wait_seconds=0.5)
    return bool(known["topics"][topic]["tail"] >= tail)


def finish(server: Server, queries: list[Any], expected: list[bytes]) -> None:
    for topic in (PLAIN, SHUFFLED):
        wait_until(lambda topic=topic: has_come(server, topic, len(expected)))  # type: ignore[misc]
    for query in queries:
        query.processAllAvailable()
    assert [query.exception() for query in queries] == [None, None]
    assert sorted(server.data(PLAIN)) == expected
    assert sorted(server.data(SHUFFLED)) == expected


@pytest.mark.kill
def test_a_query_that_gives_up_says_so_and_continues_when_it_is_restarted(spark: Any, tmp_path: Path) -> None:
    ports: dict[str, str] = {}
    expected = data(2)
    with Server(tmp_path, "--data", str(tmp_path / "data")) as server:
        ports = prepare(server)
        server.publish(SOURCE, expected[:ROWS])
        query = relay(spark, server.endpoint, tmp_path, PLAIN, 1)
        wait_until(lambda: has_come(server, PLAIN, 1) or not query.isActive)
        server.kill()
        wait_until(lambda: not query.isActive)
        text = sentence(str(query.exception()))
        assert text.startswith(f"cannot reach the broker at {server.endpoint} (")
        assert "is it running" in text
    with Server(tmp_path, "--data", str(tmp_path / "data"), ports=ports) as server:
        server.publish(SOURCE, expected[ROWS:])
        query = relay(spark, server.endpoint, tmp_path, PLAIN, 1, availableNow=True)
        assert query.awaitTermination(SECONDS)
        assert sorted(server.data(PLAIN)) == expected

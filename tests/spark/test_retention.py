"""Retention that removes unread messages: a query fails or continues, and a named cursor prevents the loss.

The broker drops messages by size, so the test only has to publish enough. The interval between its looks depends on
the retention time. A hundred seconds make it one second.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from pyspark_penstock.options import parse
from pyspark_penstock.stream_reader import PenstockStreamReader
from tests.spark.queries import failure, run, sentence, sizes, wait_until
from tests.spark.servers import Server

KEEP = ("--retention-bytes", "20000", "--retention-seconds", "100")
KEPT = 20  # messages of a flooded topic


@pytest.fixture(scope="module")
def forgetful(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Yield a server that keeps 20 kB of a topic."""
    folder = tmp_path_factory.mktemp("forgetful")
    with Server(folder, "--data", str(folder / "data"), *KEEP) as server:
        yield server


@pytest.fixture
def topic(forgetful: Server, request: pytest.FixtureRequest) -> str:
    name = f"projects/penstock/topics/{request.node.name.replace('_', '-')}"
    forgetful.ask("topic.ensure", topic=name)
    forgetful.publish(name, [b"%d" % number for number in range(3)])
    return name


def stream(spark: Any, server: Server, topic: str, **options: str) -> Any:
    chosen = {"endpoint": server.endpoint, "topic": topic, "startingOffsets": "earliest"} | options
    return spark.readStream.format("penstock").options(**chosen).load()


def head(server: Server, topic: str) -> int:
    return int(server.ask("bounds", topics=[topic])["topics"][topic]["head"])


def flood(server: Server, topic: str) -> None:
    for _ in range(6):
        server.publish(topic, [b"x" * 1000] * 10)


def wait_until_trimmed(server: Server, topic: str) -> None:
    """Wait until retention has nothing left to remove. It may run before a flood ends, and then runs once more."""
    wait_until(lambda: server.tail(topic) - head(server, topic) <= KEPT)


def test_a_query_overtaken_by_retention_fails_or_continues(
    spark: Any, forgetful: Server, topic: str, checkpoint: str
) -> None:
    assert sizes(run(stream(spark, forgetful, topic), checkpoint)) == [3]
    flood(forgetful, topic)
    wait_until_trimmed(forgetful, topic)
    text = sentence(failure(lambda: run(stream(spark, forgetful, topic), checkpoint)))
    assert text == (
        f"messages of {topic} from offset 3 on were removed before they were read; the earliest offset now is "
        f"{head(forgetful, topic)}. Set failOnDataLoss to false to continue from there"
    )
    left = forgetful.tail(topic) - head(forgetful, topic)
    lax = stream(spark, forgetful, topic, failOnDataLoss="false")
    assert sum(sizes(run(lax, checkpoint))) == left
    forgetful.publish(topic, [b"after"])
    assert sizes(run(stream(spark, forgetful, topic), checkpoint)) == [1]


def test_continuing_after_a_loss_is_logged(forgetful: Server, topic: str, caplog: pytest.LogCaptureFixture) -> None:
    flood(forgetful, topic)
    wait_until_trimmed(forgetful, topic)
    asked = parse({"endpoint": forgetful.endpoint, "topic": topic, "failOnDataLoss": "false"})
    reader = PenstockStreamReader(asked, asked.columns)
    end = reader.latestOffset({topic: 3}, ReadAllAvailable())
    with caplog.at_level(logging.WARNING):
        reader.partitions({topic: 3}, end)  # as Spark does it
    gone = head(forgetful, topic) - 1
    assert f"messages 3 to {gone} of {topic} were removed before they were read" in caplog.text


def test_a_cursor_keeps_unread_messages(spark: Any, forgetful: Server, topic: str, checkpoint: str) -> None:
    named = {"consumerName": "patient"}
    assert sizes(run(stream(spark, forgetful, topic, **named), checkpoint)) == [3]
    unnamed = f"{topic}-unnamed"
    forgetful.ask("topic.ensure", topic=unnamed)
    for name in (topic, unnamed):
        flood(forgetful, name)
    wait_until_trimmed(forgetful, unnamed)
    flood(forgetful, topic)
    assert sum(sizes(run(stream(spark, forgetful, topic, **named), checkpoint))) == 120
    forgetful.ask("cursor.delete", name="patient")
    wait_until_trimmed(forgetful, topic)

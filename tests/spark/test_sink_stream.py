"""Publishing a stream: a repeated batch publishes nothing twice."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.spark.conftest import MakeTopic
from tests.spark.queries import failing, failure, into, run, sentence, sizes, uncommit
from tests.spark.servers import Server

Load = Callable[..., Any]


def numbers(count: int) -> list[bytes]:
    return [b"%04d" % number for number in range(count)]


def test_a_batch_that_runs_again_publishes_nothing_twice(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str
) -> None:
    topic, copy = make_topic(*numbers(300)), make_topic()
    sink = into(server, copy, maxRowsPerRequest=30)
    frame = read_stream(topic, minPartitions=2).select("data")
    assert sizes(run(frame, checkpoint, sink)) == [300]
    assert uncommit(checkpoint) == 0
    assert sizes(run(frame, checkpoint, sink)) == [300]
    assert sorted(server.data(copy)) == numbers(300)
    server.publish(topic, [b"new"])
    run(frame, checkpoint, sink)
    assert sorted(server.data(copy)) == [*numbers(300), b"new"]


def test_a_batch_that_fails_half_way_is_completed(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str, tmp_path: Path
) -> None:
    topic, copy = make_topic(*numbers(300)), make_topic()
    sink = into(server, copy, maxRowsPerRequest=30)
    # The second partition fails. The first may or may not be published by then.
    frame = failing(read_stream(topic, minPartitions=2), tmp_path / "failed", on="0280")
    assert "as the test wants it" in failure(lambda: run(frame, checkpoint, sink))
    assert server.tail(copy) < 300
    run(frame, checkpoint, sink)
    assert sorted(server.data(copy)) == numbers(300)


def test_a_transaction_counts_once_whatever_the_rows_of_a_second_run(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str, tmp_path: Path
) -> None:
    from pyspark.sql import functions

    topic, copy = make_topic(*numbers(200)), make_topic()
    sink = into(server, copy, transactional="true", maxRowsPerRequest=30)
    loaded = read_stream(topic, maxOffsetsPerTrigger=100, minPartitions=2)

    def shuffled(flag: str, on: str) -> Any:
        mixed = failing(loaded, tmp_path / flag, on).repartition(2, functions.rand())
        return failing(mixed, tmp_path / flag, on)

    # A task fails, and the staged rows of the others are never published.
    assert "as the test wants it" in failure(lambda: run(shuffled("one", "0010"), checkpoint, sink))
    assert server.tail(copy) == 0
    run(shuffled("one", "0010"), checkpoint, sink)
    assert sorted(server.data(copy)) == numbers(200)
    first_run = server.data(copy)
    # A published batch is repeated, and its rows are in other partitions and in another order.
    uncommit(checkpoint)
    run(shuffled("one", "0010"), checkpoint, sink)
    assert server.data(copy) == first_run


@pytest.mark.parametrize("size", [30, 5000], ids=["other counts", "same counts"])
def test_a_plan_that_is_not_repeatable_is_refused_and_can_be_moved_to_transactions(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str, size: int
) -> None:
    from pyspark.sql import functions

    topic, copy = make_topic(*numbers(200)), make_topic()
    loaded = read_stream(topic).select("data")

    def mixed() -> Any:
        """Return a frame whose rows are in other partitions, or in another order, at each evaluation."""
        if size == 30:
            return loaded.repartition(2, functions.rand())
        return loaded.select(functions.concat("data", functions.lit(uuid.uuid4().bytes)).alias("data"))

    sink = into(server, copy, maxRowsPerRequest=size)
    run(mixed(), checkpoint, sink)
    uncommit(checkpoint)
    published = server.data(copy)
    for _ in range(2):
        text = sentence(failure(lambda: run(mixed(), checkpoint, sink)))
        assert "published before with different rows" in text
        assert "set transactional=true and restart the query with the same checkpoint" in text
    before = server.tail(copy)
    server.publish(topic, [b"last"])
    run(mixed(), checkpoint, sink | {"transactional": "true"})
    assert server.data(copy)[: len(published)] == published
    assert sorted(data[:4] for data in server.data(copy)[before:]) == [*numbers(200), b"last"]


def test_the_rows_of_a_request_may_come_again_in_another_order(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str
) -> None:
    topic, copy = make_topic(*numbers(200)), make_topic()
    loaded = read_stream(topic).select("data").coalesce(1)

    def reverse(batches: Iterator[Any]) -> Iterator[Any]:
        for batch in batches:
            yield batch.take(list(range(batch.num_rows - 1, -1, -1)))

    run(loaded, checkpoint, into(server, copy))
    uncommit(checkpoint)
    run(loaded.mapInArrow(reverse, "data binary"), checkpoint, into(server, copy))
    assert server.data(copy) == numbers(200)


def test_an_invalid_sink_fails_with_one_sentence(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str
) -> None:
    topic = make_topic(b"a")
    frame = read_stream(topic)
    renamed = frame.withColumnRenamed("offset", "partition")
    text = sentence(failure(lambda: run(renamed, checkpoint, into(server, topic))))
    assert text.startswith("column partition (bigint) cannot be published (topics have no partitions)")
    only = frame.select("data")
    text = sentence(failure(lambda: run(only, checkpoint + "-2", into(server, topic, startingOffset="1"))))
    assert text.startswith("unknown option startingoffset; did you mean startingOffsets?")
    text = sentence(failure(lambda: run(only, checkpoint + "-3", into(server, "not-there"))))
    assert text.startswith("topic not found: projects/penstock/topics/not-there")


def test_a_complete_result_is_refused(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str
) -> None:
    counts = read_stream(make_topic(b"a")).groupBy("data").count().select("data")
    writer = (
        counts.writeStream.outputMode("complete").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    )
    query = writer.format("penstock").options(**into(server, make_topic())).start
    text = sentence(failure(lambda: query().awaitTermination(60)))
    assert text.startswith("rows can only be appended to a topic: use outputMode('append')")

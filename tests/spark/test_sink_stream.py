"""Publishing a stream: a batch that Spark runs again publishes nothing twice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

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
    # The second partition fails; the first may be published by then, or not.
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

    # A task fails: what the others have staged is never seen.
    assert "as the test wants it" in failure(lambda: run(shuffled("one", "0010"), checkpoint, sink))
    assert server.tail(copy) == 0
    run(shuffled("one", "0010"), checkpoint, sink)
    assert sorted(server.data(copy)) == numbers(200)
    first_run = server.data(copy)
    # A batch that was published is run again, its rows fall into other partitions and in another order.
    uncommit(checkpoint)
    run(shuffled("one", "0010"), checkpoint, sink)
    assert server.data(copy) == first_run


def test_what_is_wrong_with_a_sink_is_one_sentence(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str
) -> None:
    topic = make_topic(b"a")
    frame = read_stream(topic)
    renamed = frame.withColumnRenamed("offset", "partition")
    said = sentence(failure(lambda: run(renamed, checkpoint, into(server, topic))))
    assert said.startswith("column partition (bigint) cannot be published (a topic has no partitions)")
    only = frame.select("data")
    said = sentence(failure(lambda: run(only, checkpoint + "-2", into(server, topic, startingOffset="1"))))
    assert said.startswith("unknown option startingoffset; did you mean startingOffsets?")
    said = sentence(failure(lambda: run(only, checkpoint + "-3", into(server, "not-there"))))
    assert said.startswith("topic not found: projects/penstock/topics/not-there")


def test_a_complete_result_is_refused(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str
) -> None:
    counts = read_stream(make_topic(b"a")).groupBy("data").count().select("data")
    writer = (
        counts.writeStream.outputMode("complete").option("checkpointLocation", checkpoint).trigger(availableNow=True)
    )
    query = writer.format("penstock").options(**into(server, make_topic())).start
    said = sentence(failure(lambda: query().awaitTermination(60)))
    assert said.startswith("a topic is only ever appended to: use outputMode('append')")

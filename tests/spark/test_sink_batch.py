"""Publishing a DataFrame as a batch: columns, topics, errors, task attempts, other protocols."""

from __future__ import annotations

import base64
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from pyspark_penstock.chunks import chunks
from pyspark_penstock.client import BrokerClient
from pyspark_penstock.errors import PenstockError
from pyspark_penstock.options import parse
from pyspark_penstock.publishing import Upload
from tests.spark.conftest import MakeTopic
from tests.spark.queries import failure, sentence, uncommit
from tests.spark.servers import Server


def write(frame: Any, server: Server, topic: str | None = None, mode: str = "append", **options: Any) -> None:
    chosen = {"endpoint": server.endpoint} | ({"topic": topic} if topic else {}) | options
    frame.write.format("penstock").mode(mode).options(**chosen).save()


def test_every_column_arrives(spark: Any, server: Server, make_topic: MakeTopic) -> None:
    one, other = make_topic(), make_topic()
    rows = [("a", {"n": "1"}, "k", None), ("b", None, None, other), ("c", {}, "", one.rsplit("/", 1)[1])]
    schema = "data string, attributes map<string,string>, ordering_key string, topic string"
    write(spark.createDataFrame(rows, schema).coalesce(1), server, one)
    found = [(row["data"], row["attributes"], row["ordering_key"]) for row in server.rows(one)]
    assert found == [(b"a", [("n", "1")], "k"), (b"c", [], "")]
    assert [(row["data"], row["attributes"], row["ordering_key"]) for row in server.rows(other)] == [(b"b", [], "")]


def test_binary_data_and_a_topic_as_the_path(spark: Any, server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic()
    frame = spark.createDataFrame([(b"\x00\xff",)], "data binary")
    frame.write.format("penstock").mode("append").option("endpoint", server.endpoint).save(topic)
    assert server.data(topic) == [b"\x00\xff"]


def test_an_empty_frame_publishes_nothing(spark: Any, server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic()
    write(spark.createDataFrame([], "data string"), server, topic)
    assert server.tail(topic) == 0


@pytest.mark.parametrize("transactional", ["false", "true"])
def test_create_topics_creates_missing_topics(spark: Any, server: Server, transactional: str) -> None:
    name = f"made-{transactional}"
    frame = spark.createDataFrame([("a", None), ("b", f"{name}-2")], "data string, topic string")
    write(frame, server, name, createTopics="true", transactional=transactional)
    assert (server.data(name), server.data(f"{name}-2")) == ([b"a"], [b"b"])


@pytest.mark.parametrize(
    ("query", "options", "text"),
    [
        ("'x' AS data", {"topic": "not-there"}, "topic not found: projects/penstock/topics/not-there"),
        ("'x' AS data", {}, "no topic to publish to"),
        ("'x' AS value", {"topic": "t"}, "column value (string) cannot be published (the broker calls it data)"),
        ("1 AS data", {"topic": "t"}, "column data must be binary or string, not int"),
        ("CAST(NULL AS STRING) AS data", {"topic": "SOME"}, "column data has a null"),
        (
            "'x' AS data",
            {"topic": "t", "mode": "overwrite"},
            "rows can only be appended to a topic: use mode('append')",
        ),
        (
            "'x' AS data",
            {"topic": "t", "consumerName": "c"},
            "option consumerName is for a stream read, not for a write",
        ),
        (
            "'x' AS data",
            {"topic": "t", "createTopic": "true"},
            "unknown option createtopic; did you mean createTopics?",
        ),
        (
            "'x' AS data",
            {"topic": "t", "endpoint": "127.0.0.1:1", "retryTimeoutSeconds": "0.5"},
            "cannot reach the broker at 127.0.0.1:1 (connection refused); is it running, and is --flight-port open?",
        ),
    ],
)
def test_invalid_writes_are_refused_in_one_sentence(
    spark: Any, server: Server, make_topic: MakeTopic, query: str, options: dict[str, str], text: str
) -> None:
    if options.get("topic") == "SOME":
        options = options | {"topic": make_topic()}
    assert sentence(failure(lambda: write(spark.sql(f"SELECT {query}"), server, **options))).startswith(text)


def test_messages_from_spark_reach_clients_of_other_protocols(
    spark: Any, server: Server, make_topic: MakeTopic
) -> None:
    from penstock.text import Client

    topic = make_topic()
    server.rest("PUT", "projects/penstock/subscriptions/from-spark", {"topic": topic})
    with Client(server.addresses["text"]) as client:
        client.send("spark-queue", b"from the text door")
        frame = spark.createDataFrame(
            [("x", {"a": "b"}, "k")], "data string, attributes map<string,string>, ordering_key string"
        )
        write(frame, server, topic)
        write(frame.select("data"), server, "spark-queue")
        pulled = server.rest("POST", "projects/penstock/subscriptions/from-spark:pull", {"maxMessages": 10})
        [message] = [each["message"] for each in pulled["receivedMessages"]]
        assert base64.b64decode(message["data"]) == b"x"
        assert (message["attributes"], message["orderingKey"]) == ({"a": "b"}, "k")
        seen = [message.content for message in islice(client.consume("spark-queue", wait_seconds=30), 2)]
    assert sorted(seen) == [b"from the text door", b"x"]
    source = spark.read.format("penstock").options(endpoint=server.endpoint, topic="spark-queue").load()
    assert {bytes(row.data) for row in source.collect()} == {b"from the text door", b"x"}


# ---------------------------------------------------------------------- requests


def upload(server: Server, topic: str, epoch: int, rows: list[bytes], size: int = 2) -> list[dict[str, Any]]:
    import pyarrow as pa

    broker = BrokerClient(parse({"endpoint": server.endpoint}).access)
    sender = Upload(broker, {"topic": topic, "once": {"producer": "spark/query/0", "epoch": epoch}, "stage": False})
    sender.send(chunks([pa.record_batch({"data": pa.array(rows)})], size))
    return sender.published


def test_requests_have_at_most_max_rows(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic()
    assert [each["rows"] for each in upload(server, topic, 0, [b"x"] * 7, size=3)] == [3, 3, 1]


def test_a_task_that_runs_again_publishes_nothing_twice_and_a_late_one_is_refused(
    server: Server, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    rows = [b"%d" % number for number in range(5)]
    assert not any(each["repeated"] for each in upload(server, topic, 7, rows[:4]))
    again = upload(server, topic, 7, rows)
    assert [each["repeated"] for each in again] == [True, True, False]
    assert server.data(topic) == rows
    upload(server, topic, 8, [b"next"])
    with pytest.raises(PenstockError, match=r"^penstock: .*epoch"):
        upload(server, topic, 7, rows)
    assert server.data(topic) == [*rows, b"next"]


def test_an_upload_continues_after_a_broker_restart(tmp_path: Path) -> None:
    """The broker is killed with requests in flight.

    Stored ones are repeated with their numbers, and not stored again.
    """
    import pyarrow as pa

    rows = [b"%06d" % number for number in range(20_000)]
    flags = ("--data", str(tmp_path / "data"))
    with ExitStack() as later:
        first = later.enter_context(Server(tmp_path, *flags))
        first.ask("topic.ensure", topic="rows")
        ports = {"flight": first.endpoint.rpartition(":")[2]}
        servers = [first]

        def batches() -> Iterator[pa.RecordBatch]:
            for start in range(0, len(rows), 1000):
                if start == 10_000:
                    first.kill()
                    servers.append(later.enter_context(Server(tmp_path, *flags, ports=ports)))
                yield pa.record_batch({"data": pa.array(rows[start : start + 1000])})

        asked = parse({"endpoint": first.endpoint, "retryTimeoutSeconds": "30"})
        command = {"topic": "rows", "once": {"producer": "spark/query/0", "epoch": 0}, "stage": False}
        upload = Upload(BrokerClient(asked.access), command)
        upload.send(batches())
        assert servers[-1].data("rows") == rows


RETRIED = """
import json, pathlib, sys, time
from pyarrow import flight
from pyspark.sql import SparkSession, functions
endpoint, folder, *targets = sys.argv[1:]
spark = (
    SparkSession.builder.master("local[2, 3]").config("spark.ui.enabled", "false").config("spark.driver.memory", "1g")
    .config("spark.sql.warehouse.dir", folder).config("spark.sql.execution.arrow.maxRecordsPerBatch", "50")
    .getOrCreate()
)
spark.sparkContext.setLogLevel("OFF")

def tail(topic):
    try:
        with flight.FlightClient("grpc://" + endpoint) as client:
            [answer] = client.do_action(flight.Action("bounds", json.dumps({"topics": [topic]}).encode()))
    except flight.FlightServerError:
        return 0  # not there yet
    return json.loads(answer.body.to_pybytes())["topics"][topic]["tail"]

def publish(target, transactional):
    watched = "projects/penstock/topics/penstock-staging" if transactional else target
    flag, before = pathlib.Path(folder, target.replace("/", "-")), tail(watched)

    @functions.udf("string")
    def fail_once(number):
        if number % 500 == 400 and not flag.exists():
            flag.touch()
            until = time.monotonic() + 60
            while tail(watched) == before and time.monotonic() < until:
                time.sleep(0.05)  # in an executor: the tail can only be asked for
            flag.write_text(str(tail(watched) - before))
            raise RuntimeError("an attempt that fails when something is published")
        return str(number).zfill(4000)  # Spark hands rows on when it has 64 KiB of them

    spark.range(0, 1000, 1, 2).select(fail_once("id").alias("data")).write.format("penstock").mode("append").options(
        endpoint=endpoint, topic=target, maxRowsPerRequest=50, transactional=str(transactional)
    ).save()
    assert int(flag.read_text()) > 0

publish(targets[0], False)
publish(targets[1], True)
spark.stop()
"""


def test_attempts_of_a_task_publish_once(server: Server, make_topic: MakeTopic, tmp_path: Path) -> None:
    """The session retries tasks. The first attempt of one task fails when half of its rows are published."""
    topic, staged = make_topic(), make_topic()
    command = [sys.executable, "-W", "ignore", "-c", RETRIED, server.endpoint, str(tmp_path), topic, staged]
    environment = os.environ | {"SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(command, capture_output=True, env=environment, timeout=300)
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    for target in (topic, staged):
        assert sorted(int(data) for data in server.data(target)) == list(range(1000))


def test_rows_that_were_read_can_be_written(
    spark: Any, server: Server, make_topic: MakeTopic, read: Callable[..., Any]
) -> None:
    topic, target = make_topic(b"a", b"b"), make_topic()
    write(read(topic), server, target)
    assert (server.data(target), server.tail(topic)) == ([b"a", b"b"], 2)


def test_a_write_inside_foreach_batch_is_stored_once(
    spark: Any, server: Server, make_topic: MakeTopic, read_stream: Callable[..., Any], checkpoint: str
) -> None:
    topic, target = make_topic(b"a", b"b"), make_topic()

    def publish(frame: Any, batch: int) -> None:
        write(frame.select("data"), server, target, txnAppId="foreach", txnVersion=batch)

    for _ in range(2):
        query = read_stream(topic).writeStream.foreachBatch(publish).option("checkpointLocation", checkpoint)
        assert query.trigger(availableNow=True).start().awaitTermination(120)
        uncommit(checkpoint)
    assert server.data(target) == [b"a", b"b"]

"""The writers' tasks and driver, without Spark."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pyarrow as pa
import pytest

from pyspark_penstock import writing
from pyspark_penstock.errors import PenstockError
from pyspark_penstock.options import parse
from pyspark_penstock.writing import PenstockWriter
from tests.spark.conftest import MakeTopic
from tests.spark.queries import arrow_schema
from tests.spark.servers import Server


@pytest.fixture(autouse=True)
def _task(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writing, "_context", lambda: SimpleNamespace(partitionId=lambda: 0))


def run(server: Server, topic: str, rows: list[bytes], **options: Any) -> None:
    """Run a job with one task."""
    write(server, topic, [pa.record_batch({"data": pa.array(rows, pa.binary())})], **options)


def write(server: Server, topic: str, batches: list[pa.RecordBatch], **options: Any) -> None:
    raw = {"endpoint": server.endpoint, "topic": topic} | {name: str(value) for name, value in options.items()}
    writer = PenstockWriter(parse(raw))
    writer.commit([writer.write(iter(batches))])


@pytest.mark.parametrize("transactional", ["false", "true"])
def test_a_version_is_stored_once(server: Server, make_topic: MakeTopic, transactional: str) -> None:
    topic = make_topic()
    named = {"txnAppId": f"app/{uuid.uuid4()} of mine", "transactional": transactional}
    run(server, topic, [b"a", b"b"], txnVersion=3, **named)
    run(server, topic, [b"a", b"b"], txnVersion=3, **named)
    run(server, topic, [b"other", b"rows", b"this time"], txnVersion=3, **named)
    run(server, topic, [b"older"], txnVersion=2, **named)
    assert server.data(topic) == [b"a", b"b"]
    run(server, topic, [b"c"], txnVersion=4, **named)
    run(server, topic, [b"of another"], **(named | {"txnAppId": f"{uuid.uuid4()}", "txnVersion": "0"}))
    assert server.data(topic) == [b"a", b"b", b"c", b"of another"]


@pytest.mark.parametrize("transactional", ["false", "true"])
def test_a_version_counts_for_each_topic_by_itself(server: Server, make_topic: MakeTopic, transactional: str) -> None:
    """A function writes a batch to two topics under one name, as with Delta tables."""
    first, second = make_topic(), make_topic()
    named = {"txnAppId": str(uuid.uuid4()), "txnVersion": 0, "transactional": transactional}
    for _ in range(2):
        run(server, first, [b"a"], **named)
        run(server, second, [b"b"], **named)
        run(server, second.rpartition("/")[2], [b"b"], **named)
    assert (server.data(first), server.data(second)) == ([b"a"], [b"b"])


def test_a_version_of_a_topic_that_was_deleted_is_forgotten(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic()
    named = {"txnAppId": str(uuid.uuid4()), "txnVersion": 0}
    run(server, topic, [b"a"], **named)
    server.rest("DELETE", topic)
    run(server, topic, [b"b"], createTopics="true", **named)
    assert server.data(topic) == [b"b"]


def test_a_version_that_was_stored_in_part_is_completed(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic()
    raw = {"endpoint": server.endpoint, "topic": topic, "txnAppId": str(uuid.uuid4()), "txnVersion": "0"}
    writer = PenstockWriter(parse(raw | {"maxRowsPerRequest": "2"}))
    writer.write(iter([pa.record_batch({"data": pa.array([b"a", b"b"])})]))  # no commit follows, because the job failed
    again = PenstockWriter(parse(raw | {"maxRowsPerRequest": "2"}))
    again.commit([again.write(iter([pa.record_batch({"data": pa.array([b"a", b"b", b"c"])})]))])
    assert server.data(topic) == [b"a", b"b", b"c"]


def test_a_job_without_a_transaction_is_a_new_one_each_time(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic()
    run(server, topic, [b"a"])
    run(server, topic, [b"a"])
    assert server.data(topic) == [b"a", b"a"]


def test_a_topic_is_created_without_rows(server: Server) -> None:
    topic = f"projects/penstock/topics/empty-{uuid.uuid4().hex[:8]}"
    write(server, topic, [], createTopics="true")
    assert server.tail(topic) == 0


def test_rows_that_were_read_are_published_unchanged(server: Server, make_topic: MakeTopic) -> None:
    topic, target = make_topic(), make_topic()
    server.publish(topic, [b"a", b"b"], [{"k": "v"}, {}])
    rows = pa.RecordBatch.from_pylist(server.rows(topic), arrow_schema())
    write(server, target, [rows])
    assert [(row["data"], row["attributes"]) for row in server.rows(target)] == [(b"a", [("k", "v")]), (b"b", [])]
    assert server.tail(topic) == 2


@pytest.mark.parametrize("rows", [[], [b"a"], [b"a", b"b"]], ids=len)
def test_a_repeated_task_with_fewer_requests_is_refused(
    server: Server, make_topic: MakeTopic, rows: list[bytes]
) -> None:
    """If the plan is not repeatable, the missing rows are in another task, and would be published twice."""

    def batches(chosen: list[bytes]) -> Iterator[pa.RecordBatch]:
        return iter([pa.record_batch({"data": pa.array([row], pa.binary())}) for row in chosen])

    topic = make_topic()
    writer = PenstockWriter(parse({"endpoint": server.endpoint, "topic": topic, "maxRowsPerRequest": "1"}))
    for _ in range(2):
        writer.write(batches([b"a", b"b", b"c"]))
    with pytest.raises(
        PenstockError, match=rf"3 requests were stored in .*, and the repeat has {len(rows)}\); set transact"
    ):
        writer.write(batches(rows))
    writer.epoch += 1
    writer.write(batches(rows))
    assert server.data(topic) == [b"a", b"b", b"c", *rows]


def test_the_requests_of_each_topic_are_counted(server: Server, make_topic: MakeTopic) -> None:
    one, other = make_topic(), make_topic()
    writer = PenstockWriter(parse({"endpoint": server.endpoint, "maxRowsPerRequest": "1"}))

    def batch(*topics: str) -> Iterator[pa.RecordBatch]:
        data = pa.array([b"x"] * len(topics), pa.binary())
        return iter([pa.record_batch({"data": data, "topic": pa.array(topics, pa.string())})])

    writer.write(batch(one, other, one))
    writer.write(batch(one, other, one))
    with pytest.raises(PenstockError, match="published before with different rows"):
        writer.write(batch(one, other))


@pytest.mark.parametrize(("count", "default"), [(0, False), (3, False), (3, True)])
def test_a_repeat_whose_rows_go_to_other_topics_is_refused(
    server: Server, make_topic: MakeTopic, count: int, default: bool
) -> None:
    """Otherwise rows of the first run would stay in a topic that the repeat does not know, and be published twice."""
    one, other = make_topic(), make_topic()
    writer = PenstockWriter(parse({"endpoint": server.endpoint} | ({"topic": make_topic()} if default else {})))

    def batch(topic: str, count: int) -> Iterator[pa.RecordBatch]:
        columns = {"data": pa.array([b"x"] * count, pa.binary()), "topic": pa.array([topic] * count, pa.string())}
        return iter([pa.record_batch(columns)])

    writer.write(batch(one, 3))
    for _ in range(2):
        with pytest.raises(PenstockError, match=f"1 requests were stored in {one}, and the repeat has 0"):
            writer.write(batch(other, count))
    writer.epoch += 1
    writer.write(batch(other, count))

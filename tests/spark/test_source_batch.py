"""Reading a topic as a batch: ranges, columns and partitions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tests.spark.conftest import MakeTopic
from tests.spark.servers import Server

Read = Callable[..., Any]


def data_of(frame: Any) -> list[bytes]:
    return [bytes(row["data"]) for row in frame.orderBy("topic", "offset").select("data").collect()]


def test_a_topic_is_a_table_of_its_messages(server: Server, make_topic: MakeTopic, read: Read) -> None:
    topic = make_topic()
    first = server.rest_publish(topic, b"one", {"kind": "a"}, key="k")
    server.publish(topic, [b"two", b"three"])
    rows = read(topic).orderBy("offset").collect()
    assert [(row.topic, row.offset, bytes(row.data), row.ordering_key) for row in rows] == [
        (topic, 0, b"one", "k"),
        (topic, 1, b"two", ""),
        (topic, 2, b"three", ""),
    ]
    assert rows[0].message_id == first
    assert rows[0].attributes == {"kind": "a"}
    assert rows[1].attributes == {}
    assert rows[0].publish_time <= rows[2].publish_time


def test_an_empty_topic_is_an_empty_table(make_topic: MakeTopic, read: Read) -> None:
    assert read(make_topic()).count() == 0

"""Leases of a consumerName: a second live query is refused, and a killed one can be replaced."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable

from penstock.doors.flight.cursor_leases import LEASE_SECONDS
from pyspark_penstock.errors import PenstockError
from pyspark_penstock.leases import Lease
from pyspark_penstock.options import parse
from pyspark_penstock.positions import offsets_in
from pyspark_penstock.stream_reader import PenstockStreamReader
from tests.spark.conftest import MakeTopic
from tests.spark.queries import failure, into, run, sentence, start, wait_until
from tests.spark.servers import Server

ALL = ReadAllAvailable()
Reader = Callable[..., PenstockStreamReader]


@pytest.fixture
def reader(server: Server) -> Iterator[Reader]:
    made: list[PenstockStreamReader] = []

    def make(topic: str, name: str) -> PenstockStreamReader:
        raw = {"endpoint": server.endpoint, "topic": topic, "consumerName": name, "startingOffsets": "earliest"}
        asked = parse(raw)
        made.append(PenstockStreamReader(asked, asked.columns))
        return made[-1]

    yield make
    for each in made:
        each.stop()


def kill(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stop all renewals and releases of leases, as when every process of a query is killed."""
    monkeypatch.setattr(Lease, "_renew", lambda self: None)
    monkeypatch.setattr(Lease, "release", lambda self: None)


def test_a_second_live_query_is_refused_by_name(make_topic: MakeTopic, reader: Reader) -> None:
    topic = make_topic(*[b"x"] * 10)
    name = f"one-{topic[-12:]}"
    first, second = reader(topic, name), reader(topic, name)
    begin = first.initialOffset()
    refusal = rf"the consumer {name} of {topic} is used by another live query \(on .*, process \d+\): stop that query"
    with pytest.raises(PenstockError, match=refusal):
        second.initialOffset()
    with pytest.raises(PenstockError, match=refusal):  # also with a checkpoint of its own
        second.latestOffset(begin, ALL)
    end = first.latestOffset(begin, ALL)
    assert first.partitions(begin, end)
    first.commit(end)
    first.stop()
    assert offsets_in(second.initialOffset()) == {topic: 10}


def test_a_killed_query_can_be_replaced(make_topic: MakeTopic, reader: Reader, monkeypatch: pytest.MonkeyPatch) -> None:
    topic = make_topic(*[b"x"] * 10)
    with monkeypatch.context() as patched:
        kill(patched)
        dead = reader(topic, f"gone-{topic[-12:]}")
        begin = dead.initialOffset()
        end = dead.latestOffset(begin, ALL)
        dead.stop()
    again = reader(topic, f"gone-{topic[-12:]}")
    done = threading.Event()
    threading.Thread(target=lambda: (again.latestOffset(end, ALL), done.set())).start()
    assert done.wait(LEASE_SECONDS + 10)


def test_a_query_that_lost_its_cursor_to_another_ends(
    make_topic: MakeTopic, reader: Reader, server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(b"x")
    name = f"lost-{topic[-12:]}"
    monkeypatch.setattr("pyspark_penstock.leases.RENEW_SECONDS", LEASE_SECONDS + 3)  # like a suspended one
    suspended = reader(topic, name)
    begin = suspended.initialOffset()
    server.ask("cursor.hold", name=name, owner="other", topics=[topic], reader="elsewhere")

    def go_on() -> None:
        while True:
            server.ask("cursor.hold", name=name, owner="other", topics=[topic], reader="elsewhere")
            suspended.latestOffset(begin, ALL)

    with pytest.raises(PenstockError, match=r"is used by another live query \(elsewhere\)"):
        go_on()


def test_a_pickled_reader_has_no_lease(make_topic: MakeTopic, reader: Reader) -> None:
    topic = make_topic(b"x")
    here = reader(topic, f"away-{topic[-12:]}")
    begin = here.initialOffset()
    there = pickle.loads(pickle.dumps(here))
    assert there.partitions(begin, {topic: 1})


def test_two_live_queries_of_spark(server: Server, make_topic: MakeTopic, read_stream: Any, checkpoint: str) -> None:
    topic, copy = make_topic(*[b"%d" % number for number in range(10)]), make_topic()
    named = read_stream(topic, consumerName=f"two-{topic[-12:]}", maxOffsetsPerTrigger=5).select("data")
    query = start(named, checkpoint, into(server, copy), processingTime="0 seconds")
    try:
        wait_until(lambda: server.tail(copy) == 10)
        text = failure(lambda: run(named, f"{checkpoint}-2", into(server, copy)))
        assert "is used by another live query" in sentence(text)
    finally:
        query.stop()
    server.publish(topic, [b"10"])
    run(named, checkpoint, into(server, copy))  # the query itself continues at once
    assert server.data(copy) == [b"%d" % number for number in range(11)]

"""The stream reader without Spark: its start, the ends of batches, waiting and recovery."""

from __future__ import annotations

import json
import threading
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql.streaming.datasource import ReadAllAvailable, ReadMaxBytes, ReadMaxRows, ReadMinRows

from pyspark_penstock import stream_reader
from pyspark_penstock.batch_reader import PenstockReader, RangePartition
from pyspark_penstock.client import BrokerClient, Retries, Span
from pyspark_penstock.errors import DataLossError, PenstockError, UnreachableError
from pyspark_penstock.options import parse
from pyspark_penstock.positions import offsets_in
from pyspark_penstock.schema import COLUMNS
from pyspark_penstock.stream_reader import PenstockStreamReader
from tests.spark.conftest import MakeTopic
from tests.spark.servers import Server

ALL = ReadAllAvailable()
_named: dict[str, PenstockStreamReader] = {}


def reader(server: Server, topic: str | None = None, **options: Any) -> PenstockStreamReader:
    raw = {"endpoint": server.endpoint} | ({"topic": topic} if topic else {}) | options
    asked = parse({"startingOffsets": "earliest"} | {name: str(value) for name, value in raw.items()})
    found = PenstockStreamReader(asked, asked.columns)
    if asked.consumer:  # a second reader of the name is a restart, and the first one has ended
        if asked.consumer in _named:
            _named[asked.consumer].stop()
        _named[asked.consumer] = found
    return found


def batch(server: Server, **options: Any) -> PenstockReader:
    asked = parse({name: str(value) for name, value in ({"endpoint": server.endpoint} | options).items()})
    return PenstockReader(asked, asked.columns)


def read_all(source: Any, parts: Any) -> list[bytes]:
    return [data for part in parts for rows in source.read(part) for data in rows.column("data").to_pylist()]


# ---------------------------------------------------------------------- start offsets


def test_a_stream_starts_at_latest(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"old")
    stream = reader(server, topic, startingOffsets="latest")
    server.publish(topic, [b"new"])
    assert offsets_in(stream.initialOffset()) == {topic: 2}
    server.publish(topic, [b"newer"])
    assert offsets_in(stream.initialOffset()) == {topic: 2}  # determined only once


def test_offsets_are_sorted_and_accepted_as_an_option(server: Server, make_topic: MakeTopic) -> None:
    topics = [make_topic(b"1", b"2", name=f"sorted-{name}") for name in "cab"]
    stream = reader(server, topics=",".join(topics))
    end = stream.latestOffset(stream.initialOffset(), ALL)
    assert list(offsets_in(end)) == sorted(topics)
    again = reader(server, topics=",".join(topics), startingOffsets=json.dumps(end))
    assert again.initialOffset() == end
    mixed = {topics[0]: -1, topics[1].rsplit("/", 1)[1]: 1}
    assert offsets_in(reader(server, topics=",".join(topics), startingOffsets=json.dumps(mixed)).initialOffset()) == {
        topics[1]: 1,
        topics[2]: 0,
        topics[0]: 2,
    }


def test_offsets_of_a_topic_that_is_not_read_are_refused(server: Server, make_topic: MakeTopic) -> None:
    stream = reader(server, make_topic(), startingOffsets='{"elsewhere": 1}')
    with pytest.raises(PenstockError, match="startingOffsets contains elsewhere, which is not one of the topics"):
        stream.initialOffset()


def test_a_starting_time_is_the_first_message_since_then(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"a", b"b")
    second = server.rows(topic)[1]["publish_time"]
    server.publish(topic, [b"c"])
    third = server.rows(topic)[2]["publish_time"]
    assert second < third
    stamp = third.isoformat()
    assert offsets_in(reader_at(server, topic, startingTimestamp=stamp).initialOffset()) == {topic: 2}
    later = "2100-01-01T00:00:00Z"
    with pytest.raises(PenstockError, match=r"nothing was published to .* since startingTimestamp"):
        reader_at(server, topic, startingTimestamp=later).initialOffset()
    patient = {"startingTimestamp": later, "startingOffsetsByTimestampStrategy": "latest"}
    assert offsets_in(reader_at(server, topic, **patient).initialOffset()) == {topic: 3}
    parts = batch(server, topic=topic, endingTimestamp=stamp)
    assert read_all(parts, parts.partitions()) == [b"a", b"b"]


def reader_at(server: Server, topic: str, **options: str) -> PenstockStreamReader:
    asked = parse({"endpoint": server.endpoint, "topic": topic} | options)
    return PenstockStreamReader(asked, COLUMNS)


def test_a_named_start_is_kept_by_the_broker(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"old")
    first = reader(server, topic, startingOffsets="latest", consumerName=f"named-{topic[-12:]}")
    assert offsets_in(first.initialOffset()) == {topic: 1}
    server.publish(topic, [b"new"])
    # The cursor of the name has precedence over startingOffsets.
    second = reader(server, topic, startingOffsets="earliest", consumerName=f"named-{topic[-12:]}")
    assert offsets_in(second.initialOffset()) == {topic: 1}
    second.commit({topic: 2})
    [cursor] = server.ask("cursor.list", name=f"named-{topic[-12:]}")["cursors"]
    assert (cursor["offset"], cursor["lag"]) == (2, 0)
    assert offsets_in(reader(server, topic, consumerName=f"named-{topic[-12:]}").initialOffset()) == {topic: 2}


def test_several_topics_have_a_cursor_each(server: Server, make_topic: MakeTopic) -> None:
    one, other = sorted([make_topic(b"a"), make_topic(b"b", b"c")])
    name = f"both-{one[-12:]}"
    stream = reader(server, topics=f"{one},{other}", consumerName=name)
    start = stream.initialOffset()
    stream.commit(stream.latestOffset(start, ALL))
    found = {each["topic"]: each["lag"] for each in server.ask("cursor.list", name=name)["cursors"]}
    assert found == {one: 0, other: 0}


# ---------------------------------------------------------------------- ends of batches


def test_limits_in_rows_and_bytes_both_apply(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(*[b"x" * 1000] * 20)
    stream = reader(server, topic, maxOffsetsPerTrigger=8, maxBytesPerTrigger=5_500)
    start = stream.initialOffset()
    assert stream.getDefaultReadLimit() == ReadMaxRows(8)
    assert offsets_in(stream.latestOffset(start, ReadMaxRows(3))) == {topic: 3}
    by_bytes = stream.latestOffset(start, ReadMaxRows(8))[topic]
    assert 3 < by_bytes < 6
    assert stream.latestOffset(start, ReadMaxBytes(2_500))[topic] == 2
    assert offsets_in(stream.latestOffset(start, ALL)) == {topic: 20}
    assert stream.reportLatestOffset() == {topic: 20}


def test_several_topics_share_a_limit(server: Server, make_topic: MakeTopic) -> None:
    large, small = make_topic(*[b"x"] * 30), make_topic(*[b"y"] * 10)
    stream = reader(server, topics=f"{large},{small}", maxOffsetsPerTrigger=8)
    end = stream.latestOffset(stream.initialOffset(), stream.getDefaultReadLimit())
    assert offsets_in(end) == {large: 6, small: 2}


def test_available_now_ends_at_the_tails_of_its_start(
    server: Server, make_topic: MakeTopic, monkeypatch: pytest.MonkeyPatch
) -> None:
    topic = make_topic(*[b"x"] * 5)
    stream = reader(server, topic, maxOffsetsPerTrigger=3, minOffsetsPerTrigger=100)
    stream.prepareForTriggerAvailableNow()
    server.publish(topic, [b"late"] * 5)
    start = stream.initialOffset()
    first = stream.latestOffset(start, ReadMaxRows(3))
    second = stream.latestOffset(first, ReadMaxRows(3))
    assert (offsets_in(first), offsets_in(second)) == ({topic: 3}, {topic: 5})
    # the stream does not wait for messages that it will not read
    monkeypatch.delattr(PenstockStreamReader, "_await_more")
    assert stream.latestOffset(second, ReadMaxRows(3)) == second


def test_an_idle_stream_waits_in_the_broker_and_wakes_with_a_message(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"x")
    stream = reader(server, topic)
    before = time.monotonic()
    assert offsets_in(stream.latestOffset({topic: 1}, ALL)) == {topic: 1}
    assert time.monotonic() - before >= stream_reader.IDLE_SECONDS * 0.8
    publisher = threading.Timer(0.1, server.publish, (topic, [b"y"]))
    publisher.start()
    found = {topic: 1}
    while found == {topic: 1}:
        found = stream.latestOffset(found, ALL)
    publisher.join()
    assert offsets_in(found) == {topic: 2}


def test_messages_are_held_back_until_there_are_enough(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"1", b"2")
    stream = reader(server, topic, minOffsetsPerTrigger=4, maxTriggerDelay="1h")
    assert offsets_in(stream.latestOffset({topic: 0}, ReadMaxRows(100))) == {topic: 0}
    assert offsets_in(stream.latestOffset({topic: 0}, ALL)) == {topic: 2}  # the engine asks for everything
    server.publish(topic, [b"3", b"4"])
    assert offsets_in(stream.latestOffset({topic: 0}, ReadMaxRows(100))) == {topic: 4}
    assert offsets_in(reader(server, topic).latestOffset({topic: 0}, ReadMinRows(5))) == {topic: 0}


def test_messages_are_not_held_back_for_longer_than_the_delay(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"1")
    stream = reader(server, topic, minOffsetsPerTrigger=100, maxTriggerDelay="300ms")
    before = time.monotonic()
    assert offsets_in(stream.latestOffset({topic: 0}, ReadMaxRows(100))) == {topic: 1}
    assert time.monotonic() - before >= 0.3


# ---------------------------------------------------------------------- patterns


def test_topics_that_match_later_start_at_their_earliest_message(server: Server, make_topic: MakeTopic) -> None:
    first = make_topic(b"a", name="join-1")
    make_topic(b"x", name="nojoin")
    stream = reader(server, topicPattern=r"projects/penstock/topics/join-\d")
    start = stream.latestOffset(stream.initialOffset(), ALL)
    assert offsets_in(start) == {first: 1}
    second = make_topic(b"b", b"c", name="join-2")
    end = start
    while end == start:
        end = stream.latestOffset(start, ALL)
    assert offsets_in(end) == {first: 1, second: 2}
    assert read_all(stream, stream.partitions(start, end)) == [b"b", b"c"]


def test_a_pattern_that_matches_nothing_yet_waits(server: Server, make_topic: MakeTopic) -> None:
    stream = reader(server, topicPattern=r".*/topics/notyet-\d")
    assert offsets_in(stream.initialOffset()) == {}
    before = time.monotonic()
    assert offsets_in(stream.latestOffset({}, ALL)) == {}
    assert time.monotonic() - before >= stream_reader.IDLE_SECONDS * 0.8
    topic = make_topic(b"a", name="notyet-1")
    end: dict[str, Any] = {}
    while not end:
        end = stream.latestOffset({}, ALL)
    assert offsets_in(end) == {topic: 1}


def test_a_deleted_topic_is_a_loss(server: Server, make_topic: MakeTopic) -> None:
    kept, gone = make_topic(b"a", name="gone-1"), make_topic(b"b", name="gone-2")
    start = {kept: 0, gone: 0}
    server.rest("DELETE", gone)
    pattern = r".*/topics/gone-\d"
    with pytest.raises(DataLossError, match="gone-2, which this query reads, was deleted"):
        reader(server, topicPattern=pattern).latestOffset(start, ALL)
    assert offsets_in(reader(server, topicPattern=pattern, failOnDataLoss="false").latestOffset(start, ALL)) == {
        kept: 1
    }


@pytest.mark.parametrize("by_pattern", [False, True])
def test_a_topic_of_the_checkpoint_that_is_not_selected_is_a_loss(
    server: Server, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture, by_pattern: bool
) -> None:
    was, now = make_topic(*[b"old"] * 30), make_topic(*[b"new"] * 20)
    first = reader(server, was)
    checkpoint = first.latestOffset(first.initialOffset(), ALL)
    asked = {"topicPattern": now} if by_pattern else {"topic": now}
    with pytest.raises(DataLossError, match=f"the checkpoint of this query has the topic {was}, but the options"):
        reader(server, **asked).latestOffset(checkpoint, ALL)
    lossy = reader(server, **asked, failOnDataLoss="false")
    for _ in range(2):
        assert offsets_in(lossy.latestOffset(checkpoint, ALL)) == {now: 20}
    assert caplog.text.count("but the options do not") == 1


@pytest.mark.parametrize("pattern", [r"(a|a|\pL)+!", r"(a|a)+!"], ids=["of RE2 only", "slow in Python"])
def test_a_missing_topic_is_matched_as_the_broker_matches(server: Server, make_topic: MakeTopic, pattern: str) -> None:
    kept, gone = make_topic(b"a"), f"projects/penstock/topics/{'a' * 60}"
    with pytest.raises(DataLossError, match="but the options do not"):
        reader(server, topicPattern=f"{kept}|{pattern}").latestOffset({kept: 0, gone: 0}, ALL)
    with pytest.raises(DataLossError, match=f"{gone}, which this query reads, was deleted"):
        reader(server, topicPattern=f"{kept}|{pattern}|a+").latestOffset({kept: 0, gone: 0}, ALL)


def test_a_batch_that_was_planned_with_a_deleted_topic(server: Server, make_topic: MakeTopic) -> None:
    """A restart repeats the batch. That is a loss, and with failOnDataLoss=false the other topics are read."""
    kept, gone = make_topic(b"a", name="left-1"), make_topic(b"b", name="left-2")
    pattern = {"topicPattern": r"left-\d"}
    end = reader(server, **pattern).latestOffset({kept: 0, gone: 0}, ALL)
    server.rest("DELETE", gone)
    for start in ({kept: 0, gone: 0}, {kept: 0}):  # the topic existed before, or appeared with this batch
        with pytest.raises(DataLossError, match="left-2, which this query reads, was deleted"):
            reader(server, **pattern).partitions(start, end)
        lossy = reader(server, **pattern, failOnDataLoss="false")
        assert read_all(lossy, lossy.partitions(start, end)) == [b"a"]


def test_a_topic_deleted_after_planning_does_not_affect_others(server: Server, make_topic: MakeTopic) -> None:
    """Small topics share a partition."""
    kept, gone = make_topic(b"a", name="shared-1"), make_topic(b"b", name="shared-2")
    lossy = reader(server, topicPattern=r"shared-\d", failOnDataLoss="false")
    parts = lossy.partitions({kept: 0, gone: 0}, {kept: 1, gone: 1})
    assert len(parts) == 1
    server.rest("DELETE", gone)
    assert read_all(lossy, parts) == [b"a"]


# ---------------------------------------------------------------------- batches of a stream


def test_partitions_are_cut_by_bytes_rows_and_number(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(*[b"%04d" % number * 100 for number in range(50)])

    def parts(**options: Any) -> list[RangePartition]:
        stream = reader(server, topic, **options)
        return list(stream.partitions({topic: 0}, {topic: 50}))  # type: ignore[arg-type]

    assert len(parts()) == 1
    assert len(parts(minPartitions=4)) == 4
    assert max(part.spans[0].until - part.spans[0].first for part in parts(maxRecordsPerPartition=7)) <= 7
    assert len(parts(maxBytesPerPartition=5000)) >= 4
    for cut in (parts(minPartitions=4), parts(maxRecordsPerPartition=7), parts(maxBytesPerPartition=5000)):
        edges = [(part.spans[0].first, part.spans[-1].until) for part in cut]
        assert edges[0][0] == 0
        assert edges[-1][1] == 50
        assert all(before[1] == after[0] for before, after in pairwise(edges))
    stream = reader(server, topic)
    assert read_all(stream, parts(minPartitions=4)) == server.data(topic)


def test_a_batch_that_starts_after_its_end_has_an_error_with_a_remedy(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(*[b"x"] * 5)
    with pytest.raises(DataLossError, match=r"starts at offset 4 .* ends before it, at 2: .* consumerName"):
        reader(server, topic).partitions({topic: 4}, {topic: 2})
    assert reader(server, topic, failOnDataLoss="false").partitions({topic: 4}, {topic: 2}) == []


def test_a_first_batch_run_again_from_an_unnamed_latest_is_refused(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(*[b"x"] * 5)
    again = reader(server, topic, startingOffsets="latest")
    with pytest.raises(DataLossError, match="the first batch of this query is repeated"):
        again.partitions(again.initialOffset(), {topic: 5})
    named = reader(server, topic, startingOffsets="latest", consumerName=f"c{topic[-12:]}")
    named.initialOffset()
    replay = reader(server, topic, startingOffsets="latest", consumerName=f"c{topic[-12:]}")
    assert replay.partitions(replay.initialOffset(), {topic: 5}) == []


# ---------------------------------------------------------------------- removed messages and other topics


def test_removed_messages_are_reported_or_skipped(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    with Server(tmp_path, "--data", str(tmp_path / "data"), "--retention-bytes", "20000") as server:
        server.ask("topic.ensure", topic="read")
        topic = "projects/penstock/topics/read"
        head = _overrun(server, topic)
        tail = server.tail(topic)
        strict = reader(server, topic)
        text = f"messages of {topic} from offset 1 on were removed .*; the earliest offset now is {head}"
        with pytest.raises(DataLossError, match=text):
            strict.latestOffset({topic: 1}, ALL)
        with pytest.raises(DataLossError, match=text):
            strict.partitions({topic: 1}, {topic: tail})
        with pytest.raises(DataLossError, match=text):
            batch(server, topic=topic, startingOffsets='{"read": 1}').partitions()
        with pytest.raises(DataLossError, match=text):
            list(strict.read(RangePartition(server.endpoint, Span(topic, 1, tail))))
        lax = reader(server, topic, failOnDataLoss="false", columns="data")
        assert offsets_in(lax.latestOffset({topic: 1}, ReadMaxRows(2))) == {topic: head + 2}
        assert read_all(lax, lax.partitions({topic: 1}, {topic: tail})) == server.data(topic)
        assert read_all(lax, [RangePartition(server.endpoint, Span(topic, 1, tail))]) == server.data(topic)
        assert f"messages 1 to {head - 1} of {topic} were removed" in caplog.text
        assert lax.partitions({topic: 0}, {topic: 2}) == []


def _overrun(server: Server, topic: str) -> int:
    """Publish until the broker has dropped the first messages, and return the head."""
    until = time.monotonic() + 30
    while time.monotonic() < until:
        server.publish(topic, [b"x" * 1000] * 10)
        head = int(server.ask("bounds", topics=[topic])["topics"][topic]["head"])
        if head > 2:
            return head
    raise AssertionError("nothing was removed")


def test_a_topic_that_was_created_again_is_a_loss(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"a")
    with pytest.raises(DataLossError, match="ends at offset 1, but reading should start at 9"):
        reader(server, topic).latestOffset({topic: 9}, ALL)
    assert offsets_in(reader(server, topic, failOnDataLoss="false").latestOffset({topic: 9}, ALL)) == {topic: 1}


# ---------------------------------------------------------------------- an unavailable broker


def test_an_unreachable_broker_fails_with_one_sentence_in_time() -> None:
    asked = parse({"endpoint": "127.0.0.1:1", "topic": "read", "retryTimeoutSeconds": "0.5"})
    before = time.monotonic()
    with pytest.raises(UnreachableError) as caught:
        BrokerClient(asked.access).ask("bounds", topics=["t"])
    assert time.monotonic() - before < 5
    assert str(caught.value) == (
        "penstock: cannot reach the broker at 127.0.0.1:1 (connection refused); "
        "is it running, and is --flight-port open?"
    )


def test_a_read_continues_after_a_broker_restart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken: list[Exception] = []
    wait = Retries.wait
    monkeypatch.setattr(Retries, "wait", lambda self, error: (broken.append(error), wait(self, error)))
    rows = 40_000
    flags = ("--data", str(tmp_path / "data"))
    with Server(tmp_path, *flags) as server:
        server.ask("topic.ensure", topic="read")
        for first in range(0, rows, 10_000):
            server.publish("read", [b"%06d" % number + b"x" * 1000 for number in range(first, first + 10_000)])
        port = server.endpoint.rpartition(":")[2]
        asked = parse({"endpoint": server.endpoint, "topic": "read", "retryTimeoutSeconds": "30"})
        source = PenstockReader(asked, ["data"])
        [whole] = PenstockReader(
            parse({"endpoint": server.endpoint, "topic": "read", "maxBytesPerPartition": "1g"}), ["data"]
        ).partitions()
        batches = source.read(whole)
        found = [next(batches)]
        server.kill()
    with Server(tmp_path, *flags, ports={"flight": port}):
        found += batches
    numbers = [int(data[:6]) for each in found for data in each.column("data").to_pylist()]
    assert numbers == list(range(rows))
    assert broken

"""Topics that are deleted and created again: offsets have the identity of their topic."""

from __future__ import annotations

import json
import uuid
from typing import Any

import pytest

from pyspark_penstock.errors import DataLossError, PenstockError
from pyspark_penstock.positions import identities, offsets_in
from pyspark_penstock.stream_reader import PenstockStreamReader
from tests.spark.conftest import MakeTopic
from tests.spark.servers import Server
from tests.spark.test_source_reader import ALL, batch, read_all, reader

OLD, NEW = [b"old-%d" % number for number in range(100)], [b"new-%d" % number for number in range(250)]


def replace(server: Server, topic: str, rows: list[bytes]) -> None:
    server.rest("DELETE", topic)
    server.ask("topic.ensure", topic=topic)
    server.publish(topic, rows)


def rest_of(stream: PenstockStreamReader, start: dict[str, Any]) -> list[bytes]:
    """Return the messages that a restarted query reads after a checkpoint."""
    end = stream.latestOffset(start, ALL)
    return read_all(stream, stream.partitions(start, end))


def test_a_topic_created_again_and_longer_than_before_is_a_loss(
    server: Server, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(*OLD)
    checkpoint = reader(server, topic).latestOffset({topic: 0}, ALL)
    assert offsets_in(checkpoint) == {topic: 100}
    replace(server, topic, NEW)
    strict = reader(server, topic)
    with pytest.raises(DataLossError, match=f"{topic} was deleted and created again since it was read"):
        strict.latestOffset(checkpoint, ALL)
    assert rest_of(reader(server, topic, failOnDataLoss="false"), checkpoint) == NEW
    assert "was deleted and created again" in caplog.text


def test_a_batch_that_was_planned_in_the_old_topic_is_not_read_in_the_new_one(
    server: Server, make_topic: MakeTopic
) -> None:
    topic = make_topic(*OLD)
    stream = reader(server, topic)
    start = stream.initialOffset()
    end = stream.latestOffset(start, ALL)
    parts = stream.partitions(start, end)
    replace(server, topic, NEW)
    with pytest.raises(DataLossError, match=r"was deleted and (made|created) again"):
        reader(server, topic).partitions(start, end)
    with pytest.raises(DataLossError, match=r"was deleted and (made|created) again"):
        read_all(stream, parts)
    lax = reader(server, topic, failOnDataLoss="false")
    assert read_all(lax, lax.partitions(start, end)) == []
    assert read_all(lax, parts) == []


def test_an_available_now_run_continues_in_the_new_topic(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(*OLD)
    checkpoint = reader(server, topic).latestOffset({topic: 0}, ALL)
    replace(server, topic, NEW)
    stream = reader(server, topic, failOnDataLoss="false")
    stream.prepareForTriggerAvailableNow()
    assert rest_of(stream, checkpoint) == NEW


def test_a_checkpoint_of_an_older_release_continues(server: Server, make_topic: MakeTopic) -> None:
    """Its offsets have no identities, but the next ones do."""
    topic = make_topic(*OLD)
    stream = reader(server, topic)
    end = stream.latestOffset({topic: 40}, ALL)
    assert (offsets_in(end), list(identities(end))) == ({topic: 100}, [topic])
    assert read_all(stream, stream.partitions({topic: 40}, end)) == OLD[40:]
    assert read_all(stream, stream.partitions({topic: 40}, {topic: 60})) == OLD[40:60]
    assert reader(server, topic).latestOffset({topic: 100}, ALL) == {topic: 100}, "the same text, byte for byte"


def test_offsets_of_the_old_topic_are_not_a_start_in_the_new_one(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(*OLD)
    taken = json.dumps(reader(server, topic).latestOffset({topic: 0}, ALL))
    same = batch(server, topic=topic, startingOffsets=taken)
    assert read_all(same, same.partitions()) == []
    replace(server, topic, NEW)
    for source in (batch(server, topic=topic, startingOffsets=taken), batch(server, topic=topic, endingOffsets=taken)):
        with pytest.raises(DataLossError, match="was deleted and created again"):
            source.partitions()
    lax = batch(server, topic=topic, startingOffsets=taken, failOnDataLoss="false")
    assert read_all(lax, lax.partitions()) == NEW


def test_a_named_query_continues_with_the_option_or_a_new_checkpoint(
    server: Server, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(*OLD)
    names = [f"lead-{uuid.uuid4().hex[:8]}" for _ in range(2)]
    checkpoints = []
    for name in names:
        stream = reader(server, topic, consumerName=name)
        checkpoints.append(stream.latestOffset(stream.initialOffset(), ALL))
        stream.commit(checkpoints[-1])
    replace(server, topic, NEW)
    with pytest.raises(DataLossError, match="was deleted and created again"):
        reader(server, topic, consumerName=names[0]).latestOffset(checkpoints[0], ALL)
    lax = reader(server, topic, consumerName=names[0], failOnDataLoss="false")
    lax.commit(checkpoints[0])  # Spark names the batch before, which is in the old topic
    assert rest_of(lax, checkpoints[0]) == NEW
    lax.commit(lax.latestOffset(checkpoints[0], ALL))
    [cursor] = server.ask("cursor.list", name=names[0])["cursors"]
    assert (cursor["offset"], cursor["lag"]) == (250, 0)
    restarted = reader(server, topic, consumerName=names[1], startingOffsets="latest")
    assert rest_of(restarted, restarted.initialOffset()) == NEW
    assert "was deleted and created again; all messages of the new topic are read" in caplog.text


# ---------------------------------------------------------------------- choice of topics


def test_a_topic_removed_and_added_again_continues_from_its_cursor(server: Server, make_topic: MakeTopic) -> None:
    kept, moved = sorted([make_topic(b"k1"), make_topic(b"m1", b"m2")])
    name = f"again-{uuid.uuid4().hex[:8]}"
    both = {"topics": f"{kept},{moved}", "consumerName": name}
    stream = reader(server, **both)
    start = stream.latestOffset(stream.initialOffset(), ALL)
    stream.commit(start)
    server.publish(kept, [b"k-out"])
    alone = reader(server, kept, consumerName=name, failOnDataLoss="false")
    without = alone.latestOffset(start, ALL)
    alone.commit(without)
    server.publish(moved, [b"m-out"])
    back = reader(server, **both)
    end = back.latestOffset(without, ALL)
    assert read_all(back, back.partitions(without, end)) == [b"m-out"]
    assert read_all(reader(server, **both), reader(server, **both).partitions(without, end)) == [b"m-out"]
    assert len(server.ask("cursor.list", name=name)["cursors"]) == 2


def test_a_pattern_matches_short_names_in_the_default_project(
    server: Server, make_topic: MakeTopic, caplog: pytest.LogCaptureFixture
) -> None:
    topic = make_topic(b"a", name="shortly-1")
    parts = batch(server, subscribePattern="shortly-.*")
    assert read_all(parts, parts.partitions()) == [b"a"]
    stream = reader(server, subscribePattern="shortly-.*")
    assert offsets_in(stream.initialOffset()) == {topic: 0}
    assert reader(server, topicPattern="shortly-.*", projectId="other").initialOffset() == {}
    assert "no topic matches topicPattern shortly-.*" in caplog.text
    with pytest.raises(
        PenstockError, match=r"no topic matches topicPattern nothing-.*; the pattern must match the whole"
    ):
        batch(server, topicPattern="nothing-.*").partitions()


def test_a_batch_that_starts_after_its_end_is_refused(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(*OLD)
    ends = {"startingOffsets": json.dumps({topic: 60}), "endingOffsets": json.dumps({topic: 40})}
    with pytest.raises(PenstockError, match=f"starts at offset 60 of {topic} but ends before it, at 40"):
        batch(server, topic=topic, **ends).partitions()

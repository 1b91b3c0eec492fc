"""Reading a stream in Spark: triggers, limits, restarts, and crashes before the first commit."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from pyspark_penstock.positions import offsets_in
from tests.spark.conftest import MakeTopic
from tests.spark.queries import SECONDS, failing, failure, into, run, sentence, sizes, start, wait_until
from tests.spark.servers import Server

Load = Callable[..., Any]


def test_available_now_reads_limited_batches_and_continues_from_its_checkpoint(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str
) -> None:
    topic, copy = make_topic(*[b"%d" % n for n in range(8)]), make_topic()
    frame = read_stream(topic, maxOffsetsPerTrigger=3).select("data")
    progress = run(frame, checkpoint, into(server, copy))
    assert sizes(progress) == [3, 3, 2]
    assert [offsets_in(each["sources"][0]["endOffset"]) for each in progress] == [{topic: 3}, {topic: 6}, {topic: 8}]
    assert progress[0]["sources"][0]["latestOffset"] == {topic: 8}  # so that the lag is visible
    server.publish(topic, [b"8", b"9"])
    later = run(frame, checkpoint, into(server, copy))
    assert sizes(later) == [2]
    assert offsets_in(later[0]["sources"][0]["startOffset"]) == {topic: 8}
    assert server.data(copy) == [b"%d" % n for n in range(10)]


def test_a_limit_in_bytes_applies_as_well(make_topic: MakeTopic, read_stream: Load, checkpoint: str) -> None:
    topic = make_topic(*[b"x" * 1000] * 10)
    found = sizes(run(read_stream(topic, maxBytesPerTrigger="4k"), checkpoint))
    assert sum(found) == 10
    assert max(found) <= 4
    assert len(found) >= 3


def test_once_takes_everything(make_topic: MakeTopic, read_stream: Load, checkpoint: str) -> None:
    topic = make_topic(*[b"x"] * 8)
    assert sizes(run(read_stream(topic, maxOffsetsPerTrigger=3), checkpoint, once=True)) == [8]


def test_a_running_query_reads_new_messages_and_moves_its_cursor(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str
) -> None:
    topic, copy = make_topic(b"before"), make_topic()
    name = f"runs-{topic[-12:]}"
    frame = read_stream(topic, startingOffsets="latest", consumerName=name).select("data")
    query = start(frame, checkpoint, into(server, copy), processingTime="0 seconds")
    try:
        wait_until(lambda: bool(server.ask("cursor.list", name=name)["cursors"]))
        for number in range(3):
            server.publish(topic, [b"%d" % number])
            wait_until(lambda number=number: server.tail(copy) == number + 1)  # type: ignore[misc]
        # The cursor is one batch behind.
        wait_until(lambda: server.ask("cursor.list", name=name)["cursors"][0]["offset"] >= 3)
    finally:
        query.stop()
    assert server.data(copy) == [b"0", b"1", b"2"]
    # Another query of the same name continues at the cursor, whatever its options are.
    again = read_stream(topic, startingOffsets="earliest", consumerName=name)
    assert sum(sizes(run(again, checkpoint + "-2"))) <= 1


def test_the_lag_of_the_documentation_is_correct(make_topic: MakeTopic, read_stream: Load, checkpoint: str) -> None:
    page = (Path(__file__).parents[2] / "docs" / "spark.md").read_text()
    [code] = [block for block in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "lag = " in block]
    topic = make_topic(*[b"x"] * 8)
    query = start(read_stream(topic, maxOffsetsPerTrigger=5), checkpoint)
    try:
        assert query.awaitTermination(SECONDS)
        lags = []
        for progress in query.recentProgress:
            found: dict[str, Any] = {"json": json, "query": SimpleNamespace(lastProgress=progress)}
            exec(code, found)
            lags.append(found["lag"])
        assert lags[:2] == [{topic: 3}, {topic: 0}]
    finally:
        query.stop()


def test_continuous_processing_is_refused(make_topic: MakeTopic, read_stream: Load, checkpoint: str) -> None:
    frame = read_stream(make_topic())
    assert "continuous" in failure(lambda: start(frame, checkpoint, continuous="1 second"))


def test_the_offsets_of_a_query_can_be_given_to_another(
    make_topic: MakeTopic, read_stream: Load, read: Load, checkpoint: str, server: Server
) -> None:
    topic = make_topic(*[b"%d" % n for n in range(5)])
    end = run(read_stream(topic), checkpoint)[-1]["sources"][0]["endOffset"]
    server.publish(topic, [b"5"])
    on_disk = Path(checkpoint, "offsets", "0").read_text().splitlines()[-1]
    assert json.loads(on_disk) == end
    assert offsets_in(end) == {topic: 5}
    rows = read(topic, startingOffsets=on_disk).collect()
    assert [bytes(row.data) for row in rows] == [b"5"]


@pytest.mark.parametrize("named", [True, False])
def test_a_start_is_kept_over_a_crash_before_the_first_commit(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str, tmp_path: Path, named: bool
) -> None:
    """Spark stores the end of a batch, and not the start of the first one. For a named query the broker stores it."""
    topic, copy = make_topic(b"1", b"2"), make_topic()
    name = {"consumerName": f"first-{topic[-12:]}"} if named else {}
    first = failing(read_stream(topic, **name), tmp_path / "failed")
    assert "as the test wants it" in failure(lambda: run(first, checkpoint, into(server, copy)))
    server.publish(topic, [b"3"])
    again = read_stream(topic, startingOffsets="latest", **name).select("data")
    if named:
        run(again, checkpoint, into(server, copy))
        assert server.data(copy) == [b"1", b"2", b"3"]
    else:
        text = sentence(failure(lambda: run(again, checkpoint, into(server, copy))))
        assert text.startswith("the first batch of this query is repeated, but its start was not stored")


def test_a_batch_that_would_begin_after_its_end_is_refused(
    server: Server, make_topic: MakeTopic, read_stream: Load, checkpoint: str, tmp_path: Path
) -> None:
    topic, copy = make_topic(b"1", b"2"), make_topic()
    failure(lambda: run(failing(read_stream(topic), tmp_path / "failed"), checkpoint, into(server, copy)))
    server.publish(topic, [b"3", b"4"])
    name = f"late-{topic[-12:]}"
    server.ask("cursor.open", name=name, offsets={topic: 4})
    frame = failing(read_stream(topic, consumerName=name), tmp_path / "failed")
    text = sentence(failure(lambda: run(frame, checkpoint, into(server, copy))))
    assert text.startswith(f"the batch starts at offset 4 of {topic} but ends before it, at 2")
    assert "consumerName" in text


def test_topics_and_patterns_are_read_together(
    make_topic: MakeTopic, read_stream: Load, checkpoint: str, server: Server
) -> None:
    make_topic(b"a", name="together-1")
    make_topic(b"b", name="together-2")
    copy = make_topic()
    frame = read_stream(subscribePattern=r".*/topics/together-\d").select("data", "topic")
    both = read_stream(subscribe="together-1,together-2")
    assert sizes(run(both, checkpoint)) == [2]
    assert sizes(run(frame.select("data"), checkpoint + "-2", into(server, copy))) == [2]
    make_topic(b"c", name="together-3")
    server.publish("together-1", [b"d"])
    assert sizes(run(frame.select("data"), checkpoint + "-2", into(server, copy))) == [2]
    assert sorted(server.data(copy)) == [b"a", b"b", b"c", b"d"]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"endingOffsets": "latest"}, "option endingOffsets is for a batch read, not for a stream read"),
        ({"topic": "not-there"}, "topic not found: projects/penstock/topics/not-there"),
        (
            {"endpoint": "127.0.0.1:1", "retryTimeoutSeconds": "1"},
            "cannot reach the broker at 127.0.0.1:1 (connection refused); is it running, and is --flight-port open?",
        ),
    ],
)
def test_an_invalid_stream_fails_with_one_sentence(
    make_topic: MakeTopic, read_stream: Load, checkpoint: str, options: dict[str, str], text: str
) -> None:
    frame = read_stream(**({"topic": make_topic()} | options))
    assert sentence(failure(lambda: run(frame, checkpoint))).startswith(text)

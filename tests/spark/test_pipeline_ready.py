"""The ready-made flows with real messages."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from penstock.spark.flows import dead_letters, insights, replay
from tests.spark.pipelines import build, forget_last_commit, run, run_one, short
from tests.spark.servers import Server

ROWS = [f"row-{number:03d}".encode() for number in range(60)]


def archive(spark: Any, server: Server, folder: Path, *topics: str) -> Any:
    names = ", ".join(f'"{topic}"' for topic in topics)
    text = f"""
        [flows.keep]
        use = "archive"
        topics = [{names}]
        lake = "lake"
        options = {{ maxOffsetsPerTrigger = 50 }}
    """
    pipeline = build(text, folder, server)
    run_one(spark, pipeline)
    return pipeline


def replayed(spark: Any, server: Server, folder: Path, target: str, more: str = "") -> Any:
    text = f'[flows.again]\nuse = "replay"\nlake = "lake"\ntopic = "{target}"\n{more}'
    return run_one(spark, build(text, folder, server))


def content(rows: list[dict[str, Any]]) -> list[Any]:
    return [(row["data"], sorted(row["attributes"]), row["ordering_key"]) for row in rows]


def test_a_lake_by_topic_and_day(spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path) -> None:
    first, second = make_topic(*ROWS), make_topic(*ROWS[:10], name="a+b~c%d")
    pipeline = archive(spark, server, tmp_path, first, second)
    folders = {path.relative_to(tmp_path / "lake").as_posix() for path in (tmp_path / "lake").glob("*=*/*=*")}
    days = {f"day={row['publish_time'].date()}" for topic in (first, second) for row in server.rows(topic)}
    assert {path.split("/")[0] for path in folders} == {
        f"topic_name=penstock.{short(first)}",
        "topic_name=penstock.a_b_c_d",
    }
    assert {path.split("/")[1] for path in folders} == days
    lake = spark.read.parquet(str(tmp_path / "lake"))
    kept = lake.where(lake.topic == first).orderBy("offset").collect()
    assert [bytes(row.data) for row in kept] == ROWS
    assert [row.message_id for row in kept] == [row["message_id"] for row in server.rows(first)]
    assert {row.topic for row in lake.select("topic").distinct().collect()} == {first, second}
    forget_last_commit(pipeline.flows[0].checkpoint)
    run_one(spark, pipeline)
    assert spark.read.parquet(str(tmp_path / "lake")).count() == 70


def test_archive_and_replay_give_the_same_messages(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, target = make_topic(), make_topic()
    for number in range(5):
        server.rest_publish(topic, bytes([number, 255]), {"n": str(number), "é": "ü"}, key="k" if number % 2 else "")
    server.publish(topic, ROWS)
    archive(spark, server, tmp_path, topic)
    progress = replayed(spark, server, tmp_path, target)
    assert (progress.rows_in, progress.rows_out, progress.to_go) == (65, 65, 0)
    assert content(server.rows(target)) == content(server.rows(topic))


def test_a_repeated_replay_publishes_new_messages(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, target = make_topic(*ROWS), make_topic()
    archive(spark, server, tmp_path, topic)
    assert replayed(spark, server, tmp_path, target).rows_out == 60
    assert replayed(spark, server, tmp_path, target).rows_out == 0, "all messages were published"
    server.publish(topic, [b"new"])
    archive(spark, server, tmp_path, topic)
    assert replayed(spark, server, tmp_path, target).rows_out == 1
    assert server.data(target) == [*ROWS, b"new"]


def test_a_killed_replay_continues_with_its_plan(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, target = make_topic(*ROWS), make_topic()
    archive(spark, server, tmp_path, topic)
    replayed(spark, server, tmp_path, target)
    plan_file = tmp_path / "penstock-pipeline" / "again" / "plan.json"
    plan = json.loads(plan_file.read_text())
    plan_file.write_text(json.dumps(plan | {"days_done": []}))  # the flow died after publishing, before its commit
    server.publish(topic, [b"new"])
    archive(spark, server, tmp_path, topic)
    progress = replayed(spark, server, tmp_path, target)
    assert (progress.rows_in, progress.rows_out) == (60, 0)
    assert server.data(target) == ROWS, "the plan does not contain later messages"


def test_a_replay_of_a_time_and_of_chosen_topics(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, other, target = make_topic(*ROWS[:5]), make_topic(b"other"), make_topic()
    server.publish(topic, [b"in", b"side"])
    server.publish(topic, [b"after"])
    archive(spark, server, tmp_path, topic, other)
    since, until = (server.rows(topic)[place]["publish_time"].isoformat() for place in (5, 7))
    more = f'only = "{short(topic)}"\nsince = {since}\nuntil = {until}'
    assert replayed(spark, server, tmp_path, target, more).rows_out == 2
    assert server.data(target) == [b"in", b"side"]


def test_a_replay_of_other_files_is_refused(spark: Any, server: Server, tmp_path: Path) -> None:
    spark.range(3).write.parquet(str(tmp_path / "lake"))
    text = '[flows.again]\nuse = "replay"\nlake = "lake"\ntopic = "again"'
    failure = run(spark, build(text, tmp_path, server)).progress["again"].failure
    assert failure is not None
    assert failure.sentence == f"{tmp_path}/lake was not written by archive: it has no column topic"
    assert replay.LAKE_COLUMNS[0] == "topic"


def test_insights_add_up_whatever_the_batches(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    first, second, output = make_topic(*ROWS), make_topic(), make_topic()
    sent = str(int(datetime.now(UTC).timestamp() * 1000) - 60_000)
    server.publish(second, [b"x" * 1000] * 30, [{"sent": sent}] * 30)
    text = f"""
        [flows.seen]
        use = "insights"
        topics = ["{first}", "{second}"]
        folder = "insights"
        topic = "{output}"
        time_attribute = "sent"
        options = {{ maxOffsetsPerTrigger = 40 }}
    """
    pipeline = build(text, tmp_path, server)
    progress = run_one(spark, pipeline)
    assert (progress.rows_in, progress.batches) == (90, 3)
    published = server.tail(output)
    assert progress.rows_out == published
    forget_last_commit(pipeline.flows[0].checkpoint)
    run_one(spark, pipeline)
    assert server.tail(output) == published, "a repeated batch reports nothing twice"

    merged = insights.merge(spark.read.parquet(str(tmp_path / "insights"))).collect()
    by_topic = {topic: [row for row in merged if row.topic == topic] for topic in (first, second)}
    assert sum(row.messages for row in by_topic[first]) == 60
    assert sum(row.bytes for row in by_topic[first]) == sum(map(len, ROWS))
    assert sum(row.messages for row in by_topic[second]) == 30
    assert {(row.size_p50, row.size_p99) for row in by_topic[second]} == {(1000, 1000)}
    assert all(row.latency_p50_ms >= 60_000 for row in by_topic[second]), "from the producer's time"
    assert all(0 <= row.latency_p50_ms < 600_000 for row in by_topic[first]), "from the publish time"
    messages = [json.loads(row["data"]) for row in server.rows(output)]
    assert sum(message["messages"] for message in messages) == 90
    assert set(messages[0]) >= {"minute", "topic", "messages", "bytes", "size_p99", "latency_p99_ms"}


def test_dead_letters_are_reported_by_subscription(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    work, grave = make_topic(), make_topic()
    subscription = f"projects/penstock/subscriptions/{short(work)}-worker"
    policy = {"deadLetterTopic": grave, "maxDeliveryAttempts": 5}
    server.rest("PUT", subscription, {"topic": work, "deadLetterPolicy": policy})
    for number in range(4):
        server.rest_publish(work, f"parcel {number}".encode(), {"error": "no address"})
    server.rest_publish(work, b"\xff\xfe", {"error": "not text"})
    for _ in range(5):
        pulled = server.rest("POST", f"{subscription}:pull", {"maxMessages": 10})["receivedMessages"]
        ids = [message["ackId"] for message in pulled]
        server.rest("POST", f"{subscription}:modifyAckDeadline", {"ackIds": ids, "ackDeadlineSeconds": 0})
    assert server.tail(grave) == 5
    server.publish(grave, [b"put here by hand"])

    text = f'[flows.why]\nuse = "dead-letters"\ntopics = "{grave}"\nfolder = "dead"\nreason_attribute = "error"'
    assert run_one(spark, build(text, tmp_path, server)).rows_in == 6
    rows = spark.read.parquet(str(tmp_path / "dead")).collect()
    by_reason = {row.reason: row for row in rows}
    assert set(by_reason) == {"no address", "not text", None}
    lost = by_reason["no address"]
    assert (lost.subscription, lost.attempts, lost.letters, lost.dead_letter_topic) == (subscription, 5, 4, grave)
    assert [sample.payload for sample in lost.samples] == ["parcel 0", "parcel 1", "parcel 2"]
    assert lost.longest_ms >= 0
    assert by_reason["not text"].samples[0].payload == base64.b64encode(b"\xff\xfe").decode()
    assert (by_reason[None].subscription, by_reason[None].attempts) == ("unknown", None)
    merged = dead_letters.merge(spark.read.parquet(str(tmp_path / "dead"))).collect()
    assert sum(row.letters for row in merged) == 6


def test_topics_with_long_names_are_archived_apart(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    names = [f"{'n' * 250}-{letter}" for letter in "ab"]
    topics = [make_topic(name.encode(), name=name) for name in names]
    archive(spark, server, tmp_path, *topics)
    lake = spark.read.parquet(str(tmp_path / "lake"))
    assert {(row.topic, bytes(row.data).decode()) for row in lake.collect()} == set(zip(topics, names, strict=True))
    assert len({row.topic_name for row in lake.collect()}) == 2

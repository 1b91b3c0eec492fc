"""Every sink of a flow. A repeated batch adds nothing to a sink."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from deltalake import DeltaTable

from tests.spark.delta_tables import by_duckdb, files_in_log
from tests.spark.pipelines import build, forget_last_commit, run, run_one, short
from tests.spark.servers import Server

ROWS = [f"row-{number:03d}".encode() for number in range(100)]


def test_sql_to_a_topic_reads_only_new_messages(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(*ROWS)
    target = f"{short(topic)}-even"
    text = f"""
        [flows.even]
        from = "{short(topic)}"
        sql = "SELECT upper(CAST(data AS STRING)) AS data, map('n', CAST(offset AS STRING)) AS attributes FROM source WHERE offset % 2 = 0"
        to = "{target}"
        options = {{ maxOffsetsPerTrigger = 40 }}
    """  # noqa: E501
    pipeline = build(text, tmp_path, server)
    first = run_one(spark, pipeline)
    assert (first.rows_in, first.rows_out, first.to_go, first.batches) == (100, 50, 0, 3)
    server.publish(topic, [b"late-0", b"late-1"])
    second = run_one(spark, pipeline)
    assert (second.rows_in, second.rows_out) == (2, 1)
    rows = server.rows(target)
    assert sorted(row["data"] for row in rows) == sorted([each.upper() for each in ROWS[::2]] + [b"LATE-0"])
    assert ("n", "100") in rows[-1]["attributes"]


def test_a_topic_gets_a_batch_that_is_run_again_once(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, target = make_topic(*ROWS), make_topic()
    text = f'''
        [flows.copy]
        from = "{topic}"
        sql = "SELECT data FROM source"
        to = "{target}"
        options = {{ maxOffsetsPerTrigger = 60 }}
    '''
    pipeline = build(text, tmp_path, server)
    run_one(spark, pipeline)
    forget_last_commit(pipeline.flows[0].checkpoint)
    assert run_one(spark, pipeline).rows_in == 40
    assert server.data(target) == ROWS


def test_a_flow_reads_the_topic_of_another_flow(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    """The second flow is also in the first run, although its topic did not exist.

    Without SQL, messages are copied as they are.
    """
    topic = make_topic(*ROWS)
    middle, end = f"{short(topic)}-middle", f"{short(topic)}-end"
    text = f'''
        [flows.second]
        from = "{middle}"
        sql = "SELECT data FROM source"
        to = "{end}"
        [flows.first]
        from = "{short(topic)}"
        to = "{middle}"
    '''
    pipeline = build(text, tmp_path, server)
    for _ in range(2):
        outcome = run(spark, pipeline)
        assert not outcome.failed, outcome.progress
    assert server.data(middle) == ROWS
    assert server.data(end) == ROWS


def test_the_cursor_follows_to_the_end(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(*ROWS)
    pipeline = build(f'[flows.copy]\nfrom = "{topic}"\nto = {{ parquet = "out" }}', tmp_path, server, "cursors")
    run_one(spark, pipeline)
    (cursor,) = server.ask("cursor.list", name="cursors-copy")["cursors"]
    assert (cursor["topic"], cursor["offset"], cursor["lag"]) == (topic, 100, 0)


def test_parquet_in_folders(spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = make_topic(*ROWS)
    text = f"""
        [flows.files]
        from = "{topic}"
        sql = "SELECT CAST(data AS STRING) AS text, offset % 4 AS part FROM source"
        to = {{ parquet = "out", partition_by = ["part"] }}
        options = {{ maxOffsetsPerTrigger = 60 }}
    """
    pipeline = build(text, tmp_path, server)
    progress = run_one(spark, pipeline)
    assert (progress.rows_in, progress.rows_out, progress.batches) == (100, 100, 2)
    assert {path.name for path in (tmp_path / "out").glob("part=*")} == {f"part={part}" for part in range(4)}
    forget_last_commit(pipeline.flows[0].checkpoint)
    run_one(spark, pipeline)
    assert sorted(row.text for row in spark.read.parquet(str(tmp_path / "out")).collect()) == [r.decode() for r in ROWS]


def test_a_folder_without_its_checkpoint_is_refused(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(*ROWS)
    text = f'[flows.files]\nfrom = "{topic}"\nto = {{ parquet = "out" }}\ncheckpoint = "%s"'
    run_one(spark, build(text % "one", tmp_path, server))
    outcome = run(spark, build(text % "two", tmp_path, server))
    failure = outcome.progress["files"].failure
    assert failure is not None
    assert failure.sentence == (
        f"{tmp_path}/out has files of a run whose checkpoint is not at {tmp_path}/two; "
        "restore that checkpoint, or choose another folder"
    )


DELTA = """
    [flows.table]
    from = "%s"
    sql = "SELECT string(data) AS text, attributes, publish_time, topic, string(offset %% 2) AS half FROM source"
    to = { delta = "table", partition_by = ["topic", "half"] }
    options = { maxOffsetsPerTrigger = 60 }
"""
Row = tuple[str, str, str]  # topic, half, text


def wanted_rows(topic: str) -> list[Row]:
    return sorted((topic, str(number % 2), row.decode()) for number, row in enumerate(ROWS))


def by_delta_rs(folder: Path) -> list[Row]:
    table = DeltaTable(folder).to_pyarrow_table(columns=["topic", "half", "text"])
    return sorted(zip(*(table.column(name).to_pylist() for name in ("topic", "half", "text")), strict=True))


def by_spark(spark: Any, folder: Path) -> list[Row]:
    """Read the files that the log names without a Delta jar, each with the partition values in the log."""
    found = []
    for path, values in files_in_log(folder):
        rows = spark.read.parquet(str(path)).select("text").collect()
        found += [(values["topic"], values["half"], row.text) for row in rows]
    return sorted(found)


def test_delta_commits_a_batch_once(spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path) -> None:
    topic = make_topic(*ROWS)
    pipeline = build(DELTA % topic, tmp_path, server)
    progress = run_one(spark, pipeline)
    assert (progress.rows_out, progress.batches) == (100, 2)
    table = DeltaTable(tmp_path / "table")
    assert table.version() == 1
    assert table.metadata().partition_columns == ["topic", "half"]
    files = sorted(str(path) for path in (tmp_path / "table").rglob("*.parquet"))
    forget_last_commit(pipeline.flows[0].checkpoint)
    assert run_one(spark, pipeline).rows_in == 40
    assert DeltaTable(tmp_path / "table").version() == 1
    assert sorted(str(path) for path in (tmp_path / "table").rglob("*.parquet")) == files, "no files are left over"
    assert by_delta_rs(tmp_path / "table") == wanted_rows(topic)
    assert by_spark(spark, tmp_path / "table") == wanted_rows(topic)
    found = [(values["topic"], values["half"], row["text"]) for values, row in by_duckdb(tmp_path / "table")]
    assert sorted(found) == wanted_rows(topic)


def test_a_delta_table_with_other_columns_is_not_written_to(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(*ROWS)
    run_one(spark, build(DELTA % topic, tmp_path, server))
    text = f"""
        [flows.other]
        from = "{topic}"
        sql = "SELECT offset AS text FROM source"
        to = {{ delta = "table" }}
    """
    failure = run(spark, build(text, tmp_path, server)).progress["other"].failure
    assert failure is not None
    assert failure.sentence.startswith(f"the Delta table {tmp_path}/table has other columns than the flow: text ")
    assert by_delta_rs(tmp_path / "table") == wanted_rows(topic)


def test_the_console(spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path) -> None:
    text = f'[flows.show]\nfrom = "{make_topic(*ROWS)}"\nto = {{ console = true, options = {{ numRows = 3 }} }}'
    assert run_one(spark, build(text, tmp_path, server)).rows_out == 100


PYTHON = """
from pyspark.sql import DataFrame
from pyspark.sql.functions import udf

def backwards(text):
    return text[::-1]

def turn(frame: DataFrame) -> DataFrame:
    reverse = udf(backwards, "string")
    return frame.select(reverse(frame.data.cast("string")).alias("data"))

def broken(frame):
    return 7
"""


@pytest.mark.filterwarnings("ignore:PySpark does not yet fully support pandas")
def test_a_python_function_in_a_file(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "turning.py").write_text(PYTHON)
    topic, target = make_topic(b"abc", b"def"), make_topic()
    text = f'[flows.turn]\nfrom = "{topic}"\npython = "turning.py:%s"\nto = "{target}"'
    assert run_one(spark, build(text % "turn", tmp_path, server)).rows_out == 2
    assert server.data(target) == [b"cba", b"fed"]
    failure = run(spark, build(text % "broken", tmp_path, server)).progress["turn"].failure
    assert failure is not None
    assert failure.sentence == "turning.py:broken returned int, not a DataFrame"


def test_counts_per_key_in_complete_mode(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic(b"a", b"b", b"a")
    text = f"""
        [flows.sums]
        from = "{topic}"
        sql = "SELECT CAST(data AS STRING) AS word, count(*) AS times FROM source GROUP BY 1"
        to = {{ console = true }}
        mode = "complete"
    """
    assert run_one(spark, build(text, tmp_path, server)).rows_out == 2


def test_a_flow_runs_until_it_is_stopped(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, target = make_topic(*ROWS), make_topic()
    text = f'[flows.live]\nfrom = "{topic}"\nsql = "SELECT data FROM source"\nto = "{target}"\ntrigger = "100ms"'
    stop = threading.Event()
    more = [b"more"]

    def show(progress: Any, _now: float) -> None:
        if progress["live"].rows_in == 100 and more:
            server.publish(topic, [more.pop()])
        if progress["live"].rows_in == 101:
            stop.set()

    outcome = run(spark, build(text, tmp_path, server), stop=stop, show=show)
    assert outcome.stopped
    assert outcome.progress["live"].failure is None
    assert server.data(target) == [*ROWS, b"more"]


def test_another_source_of_spark_in_one_batch(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    target = make_topic()
    text = f"""
        [flows.numbers]
        from = {{ format = "rate-micro-batch" }}
        sql = "SELECT CAST(value AS STRING) AS data FROM source"
        to = "{target}"
        options = {{ rowsPerBatch = 10, numPartitions = 1 }}
        trigger = "once"
    """
    assert run_one(spark, build(text, tmp_path, server)).rows_out == 10
    assert server.data(target) == [str(number).encode() for number in range(10)]


LONG = "x" * 300


def partitioned(topic: str, kind: str) -> str:
    return f"""
        [flows.long]
        from = "{topic}"
        sql = "SELECT string(data) AS city, offset FROM source"
        to = {{ {kind} = "out", partition_by = ["city"] }}
    """


def test_long_partition_values_go_into_a_delta_table(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    values = [LONG, f"{LONG}y", "é" * 100, "short"]
    topic = make_topic(*(value.encode() for value in values))
    run_one(spark, build(partitioned(topic, "delta"), tmp_path, server))
    table = DeltaTable(str(tmp_path / "out")).to_pyarrow_table()
    assert sorted(table["city"].to_pylist()) == sorted(values)


def test_a_long_partition_value_of_parquet_is_refused_with_a_sentence(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    fits = "y" * 250
    topic = make_topic(fits.encode())
    pipeline = build(partitioned(topic, "parquet"), tmp_path, server)
    assert run_one(spark, pipeline).rows_out == 1
    assert (tmp_path / "out" / f"city={fits}").is_dir()
    server.publish(topic, [LONG.encode()])
    (progress,) = run(spark, pipeline).progress.values()
    assert progress.failure is not None
    text = "partition_by city has a value of 300 characters, but the name of its folder may have at most 255 bytes: xxx"
    assert text in str(progress.failure)

"""Failures of a flow: one sentence, and the other flows continue."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from penstock.spark.problems import Problems
from penstock.spark.runs import Failure
from tests.spark.pipelines import build, run, short
from tests.spark.servers import Server


def failure(outcome: Any, name: str) -> Failure:
    found: Failure | None = outcome.progress[name].failure
    assert found is not None
    return found


def test_one_flow_fails_and_the_others_continue(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic, target = make_topic(b"1", b"2", b"x"), make_topic()
    text = f"""
        [flows.good]
        from = "{topic}"
        sql = "SELECT data FROM source"
        to = "{target}"
        [flows.unknown]
        from = "no-such-topic"
        to = {{ parquet = "unknown" }}
        [flows.misspelt]
        from = "{topic}"
        sql = "SELECT datta FROM source"
        to = "{target}"
        [flows.columns]
        from = "{topic}"
        sql = "SELECT data, offset AS size FROM source"
        to = "{target}"
        [flows.late]
        from = "{topic}"
        sql = "SELECT CAST(CAST(CAST(data AS STRING) AS INT) AS STRING) AS data FROM source"
        to = {{ parquet = "late" }}
        [flows.option]
        from = "{topic}"
        to = {{ parquet = "option" }}
        options = {{ maxOffsetPerTrigger = 5 }}
    """
    outcome = run(spark, build(text, tmp_path, server))
    assert outcome.failed
    assert outcome.progress["good"].failure is None
    assert sorted(server.data(target)) == [b"1", b"2", b"x"]
    output = {name: failure(outcome, name).sentence for name in outcome.progress if name != "good"}
    assert "projects/penstock/topics/no-such-topic" in output["unknown"]
    assert output["misspelt"].startswith(
        "A column, variable, or function parameter with name `datta` cannot be resolved."
    )
    assert output["columns"].startswith("column size (bigint) cannot be published; the columns of the sink are data")
    assert output["late"].startswith('The value \'x\' of the type "STRING" cannot be cast to "INT"')
    assert (
        output["option"] == "unknown option maxoffsetpertrigger; did you mean maxOffsetsPerTrigger?"
    )  # the spelling of Spark
    for name, sentence in output.items():
        assert "\n" not in sentence
        assert "\tat " in outcome.logs[name].read_text() or "Traceback" in outcome.logs[name].read_text()


def test_no_broker(spark: Any, server: Server, tmp_path: Path) -> None:
    away = '{ endpoint = "127.0.0.1:1", retryTimeoutSeconds = 1 }'
    text = f'[flows.lost]\nfrom = "x"\nto = {{ console = true }}\noptions = {away}'
    sentence = failure(run(spark, build(text, tmp_path, server)), "lost").sentence
    assert sentence.startswith("cannot reach the broker at 127.0.0.1:1 (connection refused)")


def test_a_deep_check_finds_problems_that_spark_would_refuse(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "wrong.py").write_text("def change(frame):\n    return frame.select('nothing')\n")
    text = """
        [flows.good]
        from = "x"
        sql = "SELECT data FROM source WHERE attributes['a'] = 'b'"
        to = "y"
        [flows.syntax]
        from = "x"
        sql = "SELEKT data FROM source"
        to = "y"
        [flows.column]
        from = "x"
        sql = "SELECT upper(nothing) AS data FROM source"
        to = "y"
        [flows.sink]
        from = "x"
        sql = "SELECT 7 AS data FROM source"
        to = "y"
        [flows.folder]
        from = "x"
        to = { parquet = "files", partition_by = ["day"] }
        [flows.function]
        from = "x"
        python = "wrong.py:change"
        to = "y"
        [flows.sums]
        from = "x"
        sql = "SELECT string(count(*)) AS data FROM source GROUP BY topic"
        to = "y"
        [flows.windows]
        from = "x"
        sql = "SELECT string(count(*)) AS data FROM source GROUP BY window(publish_time, '1 minute')"
        to = "y"
        watermark = "1 minute"
    """
    pipeline, problems = build(text, tmp_path, server), Problems()
    for flow in pipeline.flows:
        flow.kind.analyse(spark, pipeline, flow, problems)
    syntax, column, sink, folder, function, sums = problems.sentences
    assert syntax == "flow syntax: sql: Syntax error at or near 'SELEKT'."
    assert column.startswith("flow column: sql: A column, variable, or function parameter with name `nothing`")
    assert sink == "flow sink: sql: column data must be binary or string, not int"
    assert folder.startswith("flow folder: to: partition_by has an unknown column day; the columns are topic, offset,")
    assert function.startswith("flow function: python: A column, variable, or function parameter with name `nothing`")
    assert sums.startswith("flow sums: sql: Invalid streaming output mode: append.")
    assert "watermark" in sums
    assert short("a/b") == "b"


def test_a_sink_that_cannot_be_written_to(
    spark: Any, server: Server, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("in the way")
    text = f'''
        [flows.files]
        from = "{make_topic(b"x")}"
        to = {{ parquet = "file/out" }}
        [flows.progress]
        from = "{make_topic(b"x")}"
        to = {{ console = true }}
        checkpoint = "file/checkpoint"
    '''
    outcome = run(spark, build(text, tmp_path, server))
    for name in ("files", "progress"):
        sentence = failure(outcome, name).sentence
        assert str(tmp_path / "file") in sentence
        assert ".start" not in sentence

"""Pipeline files: valid ones, and the sentence for each problem."""

from __future__ import annotations

import tomllib
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from penstock.errors import InvalidArgumentError
from penstock.spark.flows.archive import Archive
from penstock.spark.flows.custom import Custom
from penstock.spark.flows.replay import Replay
from penstock.spark.pipeline_file import build_pipeline, read_pipeline, ready_made
from penstock.spark.records import Flow, Pipeline, Source, Trigger

FOLDER = Path("/files")


def read(text: str, folder: Path = FOLDER) -> Pipeline:
    pipeline, sentences = build_pipeline(tomllib.loads(text), folder=folder, name="shop")
    assert pipeline is not None, sentences
    return pipeline


def sentences(text: str, folder: Path = FOLDER) -> list[str]:
    pipeline, found = build_pipeline(tomllib.loads(text), folder=folder, name="shop")
    assert pipeline is None
    return found


def flow(text: str) -> Flow:
    return read(f"[flows.one]\n{text}").flows[0]


def problem(text: str) -> str:
    (found,) = sentences(f"[flows.one]\n{text}")
    return found


PLAIN = 'from = "orders"\nto = "copies"\n'


def test_the_smallest_file() -> None:
    pipeline = read('[flows.copy]\nfrom = "orders"\nto = "copies"')
    (only,) = pipeline.flows
    assert (pipeline.name, pipeline.endpoint, pipeline.state) == ("shop", "127.0.0.1:8815", "/files/penstock-pipeline")
    assert (only.name, only.source, only.trigger) == ("copy", Source(topics=("orders",)), Trigger())
    assert only.checkpoint == "/files/penstock-pipeline/copy"
    assert isinstance(only.kind, Custom)
    assert only.kind.target.topic == "copies"
    assert pipeline.consumer(only) == "shop-copy"


def test_a_whole_file() -> None:
    pipeline = read("""
        [pipeline]
        name = "orders"
        endpoint = "broker:1"
        state = "s3a://bucket/state"
        [spark]
        "spark.sql.shuffle.partitions" = 4
        spark.ui.enabled = true
        [flows.enrich]
        from = ["orders", "projects/shop/topics/refunds"]
        sql = "SELECT data FROM source"
        to = { parquet = "out", partition_by = ["day"] }
        trigger = "10s"
        checkpoint = "../here"
        options = { maxOffsetsPerTrigger = 1000, consumerName = "me" }
        [flows.keep]
        use = "archive"
        topics = { pattern = "projects/shop/.*" }
        lake = "lake"
    """)
    enrich, keep = pipeline.flows
    assert pipeline.spark == {"spark.sql.shuffle.partitions": "4", "spark.ui.enabled": "true"}
    assert enrich.trigger == Trigger(milliseconds=10_000)
    assert enrich.checkpoint == "/files/../here"
    assert (enrich.where, keep.where) == ("/files/out", "/files/lake")
    assert pipeline.consumer(enrich) == "me"
    assert keep.checkpoint == "s3a://bucket/state/keep"
    assert isinstance(keep.kind, Archive)
    assert keep.source == Source(pattern="projects/shop/.*")


@pytest.mark.parametrize(
    ("text", "milliseconds"),
    [
        ("500ms", 500),
        ("10s", 10_000),
        ("1.5 seconds", 1500),
        ("5 minutes", 300_000),
        ("2m", 120_000),
        ("1 hour", 3_600_000),
    ],
)
def test_times_of_triggers(text: str, milliseconds: int) -> None:
    assert flow(f'{PLAIN}trigger = "{text}"').trigger == Trigger(milliseconds=milliseconds)


def test_once() -> None:
    assert flow(f'{PLAIN}trigger = "once"').trigger == Trigger(once=True)


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ('form = "x"\nfrom = "a"\nto = "b"', 'unknown key "form"; did you mean "from"?'),
        ('to = "b"', 'the key "from" is missing'),
        ('from = "a"\nto = 7', "to: expected a string or a table, got a whole number"),
        ('from = ""\nto = "b"', "from: a topic name is missing"),
        ('from = []\nto = "b"', "from: a topic name is missing"),
        (
            'from = { pattern = "(" }\nto = "b"',
            'from: "(" is not a regular expression: missing ), unterminated subpattern at position 0',
        ),
        ('from = { patern = "a" }\nto = "b"', 'from: unknown key "patern"; did you mean "pattern"?'),
        ('from = "a"\nto = {}', "to: set exactly one of topic, parquet, delta, console, not none"),
        (
            'from = "a"\nto = { topic = "b", delta = "c" }',
            "to: set exactly one of topic, parquet, delta, console, not topic and delta",
        ),
        ('from = "a"\nto = { topic = "b", partition_by = ["c"] }', "to: partition_by is for parquet and delta"),
        (
            f'{PLAIN}trigger = "10"',
            'trigger: "10" is invalid; use "available-now", "once" or an interval such as "10s" or "5 minutes"',
        ),
        (f'{PLAIN}mode = "upsert"', 'mode: "upsert" is not one of append, update, complete'),
        (f'{PLAIN}sql = "SELECT 1"', "sql: it must select FROM source"),
        (f'{PLAIN}sql = "SELECT * FROM source"\npython = "a:b"', "set only one of sql and python"),
        (f'{PLAIN}python = "no_colon"', 'python: "no_colon" is not "module:function" or "file.py:function"'),
        (f'{PLAIN}sql_file = "gone.sql"', "sql_file: cannot read gone.sql: No such file or directory"),
        ('use = "archiv"\ntopics = "a"', 'use: unknown ready-made flow "archiv"; did you mean "archive"?'),
        ('use = "archive"\ntopics = "a"', 'the key "lake" is missing'),
        (
            'use = "archive"\ntopics = { format = "rate" }\nlake = "l"',
            'topics: expected a topic, a list of topics or { pattern = "..." }',
        ),
    ],
)
def test_an_invalid_flow_is_refused(text: str, sentence: str) -> None:
    assert problem(text) == f"flow one: {sentence}"


@pytest.mark.parametrize(
    "text",
    [
        'from = ["x", "copies"]\nto = "copies"',
        'from = { pattern = "projects/penstock/.*" }\nto = "copies"',
        'from = { pattern = "cop.*" }\nto = "copies"',
        'use = "insights"\ntopics = { pattern = ".*" }\nfolder = "f"\ntopic = "copies"',
    ],
)
def test_a_flow_must_not_read_the_topic_it_writes(text: str) -> None:
    assert problem(text) == "flow one: it reads and writes the same topic, copies"


def test_all_problems_of_a_file_at_once() -> None:
    found = sentences("""
        [pipelin]
        [pipeline]
        endpont = "x"
        [spark]
        driver = 3
        [flows.one]
        from = "a"
        [flows."two words"]
        from = 3
        to = "b"
    """)
    assert found == [
        'unknown section "pipelin"; did you mean "pipeline"?',
        'pipeline: unknown key "endpont"; did you mean "endpoint"?',
        'spark: "driver" is not a configuration key of Spark; its keys start with "spark."',
        'flow one: the key "to" is missing',
        'flow two words: a name may contain only letters, digits, "-" and "_", and must start with a letter',
        "flow two words: from: expected a string or a table or a list, got a whole number",
    ]


def test_a_file_without_flows() -> None:
    assert sentences("[pipeline]") == ["the file has no flows; add one with [flows.NAME]"]


def test_flows_do_not_share_folders() -> None:
    text = """
        [flows.a]
        from = "x"
        to = { parquet = "out" }
        checkpoint = "c"
        [flows.b]
        use = "archive"
        topics = "x"
        lake = "out"
        checkpoint = "c"
    """
    assert sentences(text) == [
        "flow b: its checkpoint /files/c is also used by flow a; set another one",
        "flow b: its folder /files/out is also used by flow a; set another one",
    ]


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    with pytest.raises(InvalidArgumentError, match=r"cannot read the pipeline file .*: No such file or directory"):
        read_pipeline(str(tmp_path / "gone.toml"))
    for text in ("[flows", "x = " + "[" * 100_000):
        (tmp_path / "bad.toml").write_text(text)
        with pytest.raises(InvalidArgumentError, match="is not valid TOML"):
            read_pipeline(str(tmp_path / "bad.toml"))


def test_an_sql_file(tmp_path: Path) -> None:
    (tmp_path / "shop.toml").write_text('[flows.one]\nfrom = "a"\nto = "b"\nsql_file = "one.sql"')
    (tmp_path / "one.sql").write_text("SELECT data FROM source")
    pipeline, found = read_pipeline(str(tmp_path / "shop.toml"))
    assert found == []
    assert pipeline is not None
    assert isinstance(pipeline.flows[0].kind, Custom)
    assert pipeline.flows[0].kind.sql == "SELECT data FROM source"
    assert pipeline.name == "shop"


def test_a_ready_made_flow_from_the_command_line() -> None:
    settings = ["lake=/lake", "topic=again", "since=2026-11-15T00:00:00Z", "only=a,b"]
    pipeline, found = ready_made("replay", settings, {"endpoint": "h:1"})
    assert found == []
    assert pipeline is not None
    table: Any = pipeline.flows[0].kind
    assert isinstance(table, Replay)
    assert (table.lake, table.topic, table.only) == ("/lake", "again", ["a", "b"])
    assert table.since == datetime(2026, 11, 15, tzinfo=UTC)
    assert (pipeline.name, pipeline.endpoint, pipeline.flows[0].where) == ("replay", "h:1", "topic again")


def test_the_topic_of_a_replay_is_created_with_its_options() -> None:
    output = flow('use = "replay"\nlake = "l"\ntopic = "again"\noptions = { token = "secret" }').kind.output
    assert (output.topic, output.topic_options) == ("again", {"token": "secret"})


def test_a_setting_without_a_value() -> None:
    with pytest.raises(InvalidArgumentError, match='--set takes key=value, not "lake"'):
        ready_made("archive", ["lake"], {})


def test_insights_use_the_same_connection_to_read_and_publish() -> None:
    """Token and TLS also apply to the topic of the results. The start offsets apply only to the source."""
    options = 'options = { token = "t", tls = true, startingOffsets = "latest", retryTimeoutSeconds = 3 }'
    one = flow(f'use = "insights"\ntopics = "orders"\nfolder = "lake"\ntopic = "figures"\n{options}')
    pipeline = read(f'[flows.one]\nuse = "insights"\ntopics = "orders"\nfolder = "lake"\ntopic = "figures"\n{options}')
    shared = one.kind.output.topic_options
    assert shared == {"token": "t", "tls": True, "retryTimeoutSeconds": 3}
    sink = pipeline.sink_options("figures", shared)
    assert (sink["topic"], sink["token"], sink["tls"]) == ("figures", "t", "true")

"""The checks of a pipeline before it runs.

    always              options, functions, packages
    unless --offline    topics, if the broker answers
    --deep              SQL and functions, analysed by Spark on an empty stream

A check reads no messages and creates nothing. Only `--deep` starts Java.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory

from penstock.spark.problems import Problems
from penstock.spark.records import Flow, Pipeline
from penstock.spark.sentences import sentence_of

BROKER_SECONDS = "2"


def check_pipeline(pipeline: Pipeline, *, offline: bool, deep: bool) -> tuple[list[str], list[str]]:
    """Return all problems, and remarks about checks that were left out."""
    from penstock.spark.session import require_spark

    require_spark()
    problems, remarks = Problems(), []
    for flow in pipeline.flows:
        _check_source(pipeline, flow, problems)
        flow.kind.check(pipeline, flow, problems)
    if not offline:
        remarks += _check_topics(pipeline, problems)
    if deep and not problems:
        from penstock.spark.session import SparkAddress, open_session

        with TemporaryDirectory(prefix="penstock-check-") as folder:
            log = Path(folder) / "log"
            session = open_session(f"check {pipeline.name}", pipeline.spark, SparkAddress("local[1]"), log=log)
            try:
                for flow in pipeline.flows:
                    flow.kind.analyse(session, pipeline, flow, problems)
            finally:
                session.stop()
    elif not deep and any(flow.kind.needs_analysis for flow in pipeline.flows):
        remarks.append("the SQL was not analysed; use --deep, which starts Spark for it")
    return problems.sentences, remarks


def _check_source(pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
    from pyspark_penstock.options import Use, parse

    if not (flow.source.topics or flow.source.pattern):
        return
    try:
        parse(pipeline.source_options(flow)).check(Use.STREAM_READ)
    except Exception as error:  # noqa: BLE001 - the error names the wrong option in one sentence
        problems.add(f"flow {flow.name}: options", sentence_of(error))


def _check_topics(pipeline: Pipeline, problems: Problems) -> list[str]:
    """Look for the topics that flows read, except those that other flows create. Return remarks."""
    from pyspark_penstock.client import BrokerClient
    from pyspark_penstock.errors import PenstockError, UnreachableError
    from pyspark_penstock.options import parse

    written = [flow.kind.output.topic for flow in pipeline.flows]
    created = {topic.rpartition("/")[2] for topic in written if topic}
    for flow in pipeline.flows:
        wanted = [topic for topic in flow.source.topics if topic.rpartition("/")[2] not in created]
        if any(sentence.startswith(f"flow {flow.name}: options") for sentence in problems.sentences):
            continue  # the broker cannot be reached with invalid options
        for topic in wanted:
            options = parse({"retryTimeoutSeconds": BROKER_SECONDS} | pipeline.source_options(flow))
            try:
                BrokerClient(options.access).ask("bounds", topics=[topic])
            except UnreachableError:
                return [f"no broker answers at {pipeline.endpoint}; topics were not checked"]
            except PenstockError as error:
                problems.add(f"flow {flow.name}", error.sentence)
    return []

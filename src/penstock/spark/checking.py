"""What can be known of a pipeline before it runs.

    always    options, functions, packages
    a broker  topics, if it answers
    --deep    SQL and functions analysed by Spark on an empty stream

The rule kept here: nothing is read, written or created; without `--deep` no Java is started.
"""

from __future__ import annotations

from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from penstock.errors import PenstockError
from penstock.spark.building import changed, read, sink_options, source_options
from penstock.spark.functions import load_function
from penstock.spark.problems import Problems
from penstock.spark.records import Flow, Pipeline, Plain, Replay
from penstock.spark.sentences import sentence_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

BROKER_SECONDS = "2"


def check_pipeline(pipeline: Pipeline, *, offline: bool, deep: bool) -> tuple[list[str], list[str]]:
    """Everything wrong, and what could not be looked at."""
    from penstock.spark.session import require_spark

    require_spark()
    problems, remarks = Problems(), []
    for flow in pipeline.flows:
        _check_options(pipeline, flow, problems)
        _check_function(pipeline, flow, problems)
        _check_packages(flow, problems)
    if not offline:
        remarks += _check_topics(pipeline, problems)
    if deep and not problems:
        _check_deep(pipeline, problems)
    elif not deep and any(flow.sql is not None for flow in pipeline.flows):
        remarks.append("the SQL was not analysed; --deep does that, and starts Spark for it")
    return problems.sentences, remarks


def _check_options(pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
    from pyspark_penstock.options import parse
    from pyspark_penstock.table import Use

    asked = []
    if not flow.source.format and not isinstance(flow.table, Replay):
        asked.append(("options", source_options(pipeline, flow), Use.STREAM_READ))
    if flow.target is not None and flow.target.topic:
        asked.append(("to", sink_options(pipeline, flow.target.topic, flow.target.options), Use.WRITE))
    for key, options, use in asked:
        try:
            parse(options).check(use)
        except Exception as error:  # noqa: BLE001 - it says in one sentence which option is wrong
            problems.tell(f"flow {flow.name}: {key}", sentence_of(error))


def _check_function(pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
    if isinstance(flow.table, Plain) and flow.table.python is not None:
        try:
            load_function(flow.table.python, pipeline.folder)
        except PenstockError as error:
            problems.tell(f"flow {flow.name}: python", error.message)


def _check_packages(flow: Flow, problems: Problems) -> None:
    if flow.target is not None and flow.target.delta:
        try:
            import deltalake  # noqa: F401
        except ImportError:
            problems.tell(f"flow {flow.name}: to", "the Delta sink needs a package: pip install 'penstock[delta]'")


def _check_topics(pipeline: Pipeline, problems: Problems) -> list[str]:
    """Whether the topics that are read are there; a topic that another flow makes need not be."""
    from pyspark_penstock.errors import UnreachableError

    made = {flow.target.topic.rpartition("/")[2] for flow in pipeline.flows if flow.target and flow.target.topic}
    for flow in pipeline.flows:
        wanted = [topic for topic in flow.source.topics if topic.rpartition("/")[2] not in made]
        if any(told.startswith(f"flow {flow.name}: options") for told in problems.sentences):
            continue  # with such options nobody is reached
        try:
            for topic in wanted:
                _check_topic(pipeline, flow, topic, problems)
        except UnreachableError:
            return [f"no broker answers at {pipeline.endpoint}; the topics were not looked for"]
    return []


def _check_topic(pipeline: Pipeline, flow: Flow, topic: str, problems: Problems) -> None:
    from pyspark_penstock.broker import Broker
    from pyspark_penstock.errors import PenstockError as BrokerError
    from pyspark_penstock.errors import UnreachableError
    from pyspark_penstock.options import parse

    options = parse({"retryTimeoutSeconds": BROKER_SECONDS} | source_options(pipeline, flow))
    try:
        Broker(options.access).ask("bounds", topics=[topic])
    except UnreachableError:
        raise
    except BrokerError as error:
        problems.tell(f"flow {flow.name}", error.sentence)


def _check_deep(pipeline: Pipeline, problems: Problems) -> None:
    from penstock.spark.session import Place, open_session

    with TemporaryDirectory(prefix="penstock-check-") as folder:
        session = open_session(f"check {pipeline.name}", pipeline.spark, Place("local[1]"), log=Path(folder) / "log")
        try:
            for flow in pipeline.flows:
                analyse(session, pipeline, flow, problems)
        finally:
            session.stop()


def analyse(session: SparkSession, pipeline: Pipeline, flow: Flow, problems: Problems) -> None:
    """Let Spark plan a flow of the user's own, and look at the columns that come out."""
    if not isinstance(flow.table, Plain) or flow.target is None:
        return
    where = f"flow {flow.name}"
    try:
        frame = read(session, pipeline, flow) if flow.source.format else empty_stream(session, flow)
        given = changed(session, pipeline, flow, frame)
        _check_columns(given, flow, problems)
        _check_operations(session, given, flow.table.mode)
    except PenstockError as error:
        problems.tell(where, error.message)
    except Exception as error:  # noqa: BLE001 - what Spark or the user's function says of it
        key = "sql" if flow.sql is not None else "python" if flow.table.python else "from"
        problems.tell(f"{where}: {key}", sentence_of(error))


def _check_operations(session: Any, frame: DataFrame, mode: str) -> None:
    """What Spark looks at only when a query starts: whether a stream can do this in this mode."""
    spark = session._jvm.org.apache.spark.sql  # Python has no way to ask, and a check runs on its own Java
    chosen = getattr(spark.streaming.OutputMode, mode.capitalize())()
    plan = frame._jdf.queryExecution().analyzed()
    spark.catalyst.analysis.UnsupportedOperationChecker.checkForStreaming(plan, chosen)


def empty_stream(session: SparkSession, flow: Flow) -> DataFrame:
    """A stream of messages that never come."""
    from pyspark.sql import functions as F

    from pyspark_penstock.options import parse
    from pyspark_penstock.schema import types

    columns = parse({key: str(value) for key, value in flow.table.options.items()}).columns
    known: dict[str, Any] = types()
    stream = session.readStream.format("rate").option("rowsPerSecond", 1).load()
    return stream.select(*(F.lit(None).cast(known[name]).alias(name) for name in columns))


def _check_columns(frame: DataFrame, flow: Flow, problems: Problems) -> None:
    from pyspark_penstock.schema import check_sink

    target = flow.target
    assert target is not None
    if target.topic:
        check_sink(frame.schema, target.topic)
    for name in target.partition_by:
        if name not in frame.columns:
            problems.tell(f"flow {flow.name}: to", f"partition_by names {name}; there are {', '.join(frame.columns)}")

"""The source's schema, compared with Spark's, and the sink's schema."""

from __future__ import annotations

import pyarrow as pa
import pytest
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import IntegerType, LongType, MapType, StringType, StructField, StructType

from pyspark_penstock import schema
from pyspark_penstock.errors import PenstockError
from tests.spark.conftest import MakeTopic
from tests.spark.queries import arrow_schema
from tests.spark.servers import Server

STRING = StringType()


def test_the_arrow_schema_is_the_one_spark_compares_with() -> None:
    ours, sparks = arrow_schema(), to_arrow_schema(schema.struct(), timezone="UTC")
    assert sparks.equals(ours)
    assert all(field.nullable for field in ours)


@pytest.mark.parametrize("name", schema.COLUMNS)
def test_the_arrow_type_of_every_column_is_the_one_spark_compares_with(name: str) -> None:
    assert to_arrow_schema(schema.struct([name]), timezone="UTC").equals(arrow_schema([name]))


def test_the_broker_sends_that_schema(server: Server, make_topic: MakeTopic) -> None:
    from pyarrow import flight

    topic = make_topic(b"x")
    with server.client() as client:
        info = client.get_flight_info(flight.FlightDescriptor.for_path(topic))
        assert info.schema.equals(arrow_schema())
        assert client.do_get(info.endpoints[0].ticket).read_all().schema.equals(arrow_schema())


def test_a_schema_given_by_the_user_may_choose_columns() -> None:
    assert schema.wanted_columns(schema.struct(["data", "offset"])) == ("data", "offset")
    with pytest.raises(PenstockError, match="unknown column 'value'"):
        schema.wanted_columns(StructType([StructField("value", STRING)]))
    with pytest.raises(PenstockError, match="column offset is bigint, not string; cast it in the query"):
        schema.wanted_columns(StructType([StructField("offset", STRING)]))
    assert schema.wanted_columns(StructType([StructField("data", STRING)])) == ("data",)


def sink(**columns: object) -> StructType:
    return StructType([StructField(name, kind) for name, kind in columns.items()])  # type: ignore[arg-type]


def test_a_sink_takes_data_and_optional_columns() -> None:
    everything = sink(ordering_key=STRING, attributes=MapType(STRING, STRING), topic=STRING, data=STRING)
    schema.check_sink(everything, None)
    schema.check_sink(sink(data=STRING), "t")


@pytest.mark.parametrize(
    ("columns", "text"),
    [
        ({"data": LongType()}, "column data must be binary or string, not bigint"),
        ({"data": STRING, "topic": IntegerType()}, "column topic must be string, not int"),
        (
            {"data": STRING, "attributes": MapType(STRING, LongType())},
            "column attributes must be map<string,string>, not map<string,bigint>",
        ),
        ({"value": STRING}, r"column value \(string\) cannot be published \(the broker calls it data\)"),
        ({"data": STRING, "key": STRING}, "the broker calls it ordering_key"),
        ({"data": STRING, "headers": STRING}, "the broker calls them attributes"),
        ({"data": STRING, "offset": STRING}, "the broker assigns offsets"),
        ({"Data": STRING}, r"did you mean data\?"),
        ({"data": STRING, "size": LongType()}, "the columns of the sink are data, topic, attributes, ordering_key"),
        ({"topic": STRING}, r"the column data \(binary or string\) is missing; the columns are topic"),
    ],
)
def test_other_columns_are_refused_by_name(columns: dict[str, object], text: str) -> None:
    with pytest.raises(PenstockError, match=text):
        schema.check_sink(sink(**columns), "t")


def test_a_sink_needs_a_topic() -> None:
    with pytest.raises(PenstockError, match="no topic to publish to"):
        schema.check_sink(sink(data=STRING), None)


def test_rows_that_were_read_are_published_without_read_columns() -> None:
    schema.check_sink(schema.struct(), "t")
    schema.check_sink(sink(data=STRING, offset=LongType()), "t")
    batch = arrow_schema().empty_table().to_batches() or [pa.RecordBatch.from_pylist([], arrow_schema())]
    assert schema.without_read_columns(batch[0]).schema.names == ["data", "attributes", "ordering_key"]
    routed = pa.record_batch({"data": ["x"], "topic": ["t"]})
    assert schema.without_read_columns(routed).schema.names == ["data", "topic"]


def test_the_topic_that_was_read_is_no_destination() -> None:
    with pytest.raises(PenstockError, match="with offset, message_id or publish_time in the row, the column topic is"):
        schema.check_sink(schema.struct(), None)

"""The data source: it makes readers and writers from options.

Errors in the options or the schema are reported while Spark plans, before any task runs. An instance makes no
connection, because Spark makes several instances for one query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import datasource as spark
from pyspark.sql.types import StructType

from pyspark_penstock.batch_reader import PenstockReader
from pyspark_penstock.errors import PenstockError
from pyspark_penstock.filters import FilteringReader
from pyspark_penstock.options import READS, Use, parse
from pyspark_penstock.schema import check_sink, is_text, struct, wanted_columns
from pyspark_penstock.stream_reader import PenstockStreamReader
from pyspark_penstock.writing import PenstockStreamWriter, PenstockWriter


class PenstockDataSource(spark.DataSource):
    """`spark.read`, `spark.readStream`, `df.write` and `df.writeStream` with `.format("penstock")`."""

    session_zone: str | None = None  # the session's time zone, set by `register`; None: unknown

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(dict(options))
        self.parsed_options = parse(options, self.session_zone)

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        self.parsed_options.check(*READS)
        return struct(self.parsed_options.columns)

    def reader(self, schema: StructType) -> spark.DataSourceReader:
        self.parsed_options.check(Use.BATCH_READ)
        kind = FilteringReader if self.parsed_options.push_filters else PenstockReader
        return kind(self.parsed_options, wanted_columns(schema), text=is_text(schema))

    def streamReader(self, schema: StructType) -> spark.DataSourceStreamReader:
        # Spark swallows an error that is raised here, so the reader raises it when Spark first calls it.
        refusal = None
        try:
            self.parsed_options.check(Use.STREAM_READ)
            wanted_columns(schema)
        except PenstockError as error:
            refusal = error.sentence
        return PenstockStreamReader(self.parsed_options, schema.fieldNames(), refusal, text=is_text(schema))

    def writer(self, schema: StructType, overwrite: bool) -> spark.DataSourceWriter:
        self._check_write(schema, overwrite, "rows can only be appended to a topic: use mode('append')")
        return PenstockWriter(self.parsed_options)

    def streamWriter(self, schema: StructType, overwrite: bool) -> spark.DataSourceStreamArrowWriter:
        self._check_write(schema, overwrite, "rows can only be appended to a topic: use outputMode('append')")
        if self.parsed_options.txn_app is not None:
            raise PenstockError("txnAppId is for df.write; a stream is published exactly once without it")
        return PenstockStreamWriter(self.parsed_options)

    def _check_write(self, schema: StructType, overwrite: bool, refusal: str) -> None:
        self.parsed_options.check(Use.WRITE)
        if overwrite:
            raise PenstockError(refusal)
        check_sink(schema, self.parsed_options.sink_topic)

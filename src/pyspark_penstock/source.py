"""The data source itself: options in, readers and writers out.

Errors in the options or the schema are reported while Spark plans, before any task runs, and nothing is connected to:
Spark makes several of these for one query.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from pyspark.sql import datasource as spark
from pyspark.sql.types import StructType

from pyspark_penstock.errors import PenstockError
from pyspark_penstock.filters import FilteringReader
from pyspark_penstock.options import READS, Use, parse
from pyspark_penstock.reading import PenstockReader
from pyspark_penstock.schema import check_sink, struct, wanted_columns
from pyspark_penstock.streaming import PenstockStreamReader
from pyspark_penstock.writing import PenstockStreamWriter, PenstockWriter


class PenstockDataSource(spark.DataSource):
    """`spark.read`, `spark.readStream`, `df.write` and `df.writeStream` with `.format("penstock")`."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        super().__init__(dict(options))
        self.asked = parse(options)

    @classmethod
    def name(cls) -> str:
        return "penstock"

    def schema(self) -> StructType:
        self.asked.check(*READS)
        return struct(self.asked.columns)

    def reader(self, schema: StructType) -> spark.DataSourceReader:
        self.asked.check(Use.BATCH_READ)
        return (FilteringReader if self.asked.push_filters else PenstockReader)(self.asked, wanted_columns(schema))

    def streamReader(self, schema: StructType) -> spark.DataSourceStreamReader:
        # Spark drops an error that is raised here, so the reader says it at the first question.
        refusal = None
        try:
            self.asked.check(Use.STREAM_READ)
            wanted_columns(schema)
        except PenstockError as error:
            refusal = error.sentence
        return PenstockStreamReader(self.asked, schema.fieldNames(), refusal)

    def writer(self, schema: StructType, overwrite: bool) -> spark.DataSourceWriter:
        self._check_write(schema, overwrite, "a topic is only ever appended to: use mode('append')")
        return PenstockWriter(self.asked)

    def streamWriter(self, schema: StructType, overwrite: bool) -> spark.DataSourceStreamArrowWriter:
        self._check_write(schema, overwrite, "a topic is only ever appended to: use outputMode('append')")
        if self.asked.txn_app is not None:
            raise PenstockError("txnAppId is for df.write; a stream is published once without it")
        return PenstockStreamWriter(self.asked)

    def _check_write(self, schema: StructType, overwrite: bool, refusal: str) -> None:
        self.asked.check(Use.WRITE)
        if overwrite:
            raise PenstockError(refusal)
        check_sink(schema, self.asked.sink_topic)

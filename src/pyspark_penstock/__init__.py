"""Penstock as a Spark data source, format `penstock`.

The package stands alone: it needs the standard library, pyspark and pyarrow, and no broker code. So it can be zipped or
pickled to executors without a broker. Spark imports it to discover data sources, so importing it loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_penstock.versions import is_supported

if TYPE_CHECKING or is_supported():
    from pyspark_penstock.source import PenstockDataSource
else:  # Spark swallows errors of this import, so the data source raises the error when it is used
    from pyspark_penstock.versions import UnsupportedDataSource as PenstockDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DefaultSource = PenstockDataSource  # the name Spark looks for in every `pyspark_*` package

__all__ = ["DefaultSource", "PenstockDataSource", "register", "__version__"]
__version__ = "0.6.0"


def register(spark: SparkSession) -> None:
    """Register `format("penstock")` on this session, so that the data source is sent along with each query.

    Needed with Spark Connect and on clusters where this package is not installed; Spark finds an installed package by
    itself. Timestamps in options that have no zone are read in the session's time zone.
    """
    import sys

    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    zone = spark.conf.get("spark.sql.session.timeZone")
    spark.dataSource.register(type("PenstockDataSource", (PenstockDataSource,), {"session_zone": zone}))

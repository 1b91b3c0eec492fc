"""Penstock as a Spark data source, format `penstock`.

This package stands alone. It needs the standard library, pyspark and pyarrow, and nothing of the broker, so it can be
zipped or pickled to executors that have no broker installed. Spark imports it to find out what sources there are, so
importing it loads nothing heavy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark_penstock.source import PenstockDataSource

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DefaultSource = PenstockDataSource  # the name Spark looks for in every `pyspark_*` package

__all__ = ["DefaultSource", "PenstockDataSource", "register", "__version__"]
__version__ = "0.1.0"


def register(spark: SparkSession) -> None:
    """Make `format("penstock")` work where this package is not installed: it travels with the query.

    Needed with Spark Connect and on clusters whose executors do not have the package; where it is installed, Spark
    finds it on its own.
    """
    import sys

    from pyspark import cloudpickle

    cloudpickle.register_pickle_by_value(sys.modules[__name__])  # type: ignore[no-untyped-call]
    spark.dataSource.register(PenstockDataSource)

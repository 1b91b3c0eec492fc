"""The check for a supported Spark release, and a replacement of the source for older releases."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

import pyspark
from pyspark.sql.datasource import DataSource

from pyspark_penstock.errors import PenstockError

OLDEST = (4, 2)


def is_supported() -> bool:
    numbers = re.findall(r"\d+", pyspark.__version__)[:2]
    return tuple(map(int, numbers)) >= OLDEST


class UnsupportedDataSource(DataSource):
    """A data source that refuses every use with the release that is needed."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        needed = ".".join(map(str, OLDEST))
        raise PenstockError(f"the format penstock needs pyspark {needed} or newer; this is {pyspark.__version__}")

    @classmethod
    def name(cls) -> str:
        return "penstock"

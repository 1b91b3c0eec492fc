"""Delta tables read without a Delta library: the log is JSON, its files are Parquet."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import duckdb


def files_in_log(folder: Path) -> list[tuple[Path, dict[str, str | None]]]:
    """Every file of the table and its partition values; a path of the log is a URL, to be read as one, once."""
    lines = [line for log in sorted((folder / "_delta_log").glob("*.json")) for line in log.read_text().splitlines()]
    added = [json.loads(line)["add"] for line in lines if "add" in json.loads(line)]
    return [(folder / unquote(each["path"]), each["partitionValues"]) for each in added]


def by_duckdb(folder: Path) -> list[tuple[dict[str, str | None], dict[str, Any]]]:
    """Rows, each with the partition values of its file.

    DuckDB's Delta extension is fetched when it is used, so it reads the files of the log as Parquet.
    """
    found = []
    with duckdb.connect() as session:
        for path, values in files_in_log(folder):
            query = "SELECT * FROM read_parquet(?, hive_partitioning = false)"
            literal = str(path).replace("[", "[[]").replace("*", "[*]").replace("?", "[?]")
            found += [(values, row) for row in session.sql(query, params=[literal]).to_arrow_table().to_pylist()]
    return found

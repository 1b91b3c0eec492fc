"""A reader of Delta tables without a Delta library: the log is JSON, and its files are Parquet."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa

from tests.server_process import SECONDS

# DuckDB is built with nanobind, which reports every object that is alive when its process ends. Threads of a test
# process keep some objects alive, so DuckDB runs in a process of its own.
READ_BY_DUCKDB = """
import sys
import duckdb
import pyarrow as pa
with duckdb.connect() as session:
    query = "SELECT * FROM read_parquet(?, hive_partitioning = false)"
    for path in sys.argv[1:]:
        table = session.sql(query, params=[path]).to_arrow_table()
        with pa.ipc.new_stream(sys.stdout.buffer, table.schema) as stream:
            stream.write_table(table)
"""


def files_in_log(folder: Path) -> list[tuple[Path, dict[str, str | None]]]:
    """Return every file of the table with its partition values.

    A path in the log is a URL, and must be decoded once.
    """
    lines = [line for log in sorted((folder / "_delta_log").glob("*.json")) for line in log.read_text().splitlines()]
    added = [json.loads(line)["add"] for line in lines if "add" in json.loads(line)]
    return [(folder / unquote(each["path"]), each["partitionValues"]) for each in added]


def by_duckdb(folder: Path) -> list[tuple[dict[str, str | None], dict[str, Any]]]:
    """Return rows, each with the partition values of its file.

    DuckDB's Delta extension is fetched when it is used, so it reads the files of the log as Parquet.
    """
    files = files_in_log(folder)
    literals = [str(path).replace("[", "[[]").replace("*", "[*]").replace("?", "[?]") for path, _ in files]
    command = [sys.executable, "-c", READ_BY_DUCKDB, *literals]
    tables = pa.BufferReader(subprocess.run(command, check=True, capture_output=True, timeout=SECONDS).stdout)
    return [(values, row) for _, values in files for row in pa.ipc.open_stream(tables).read_all().to_pylist()]

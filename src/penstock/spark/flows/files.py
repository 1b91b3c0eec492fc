"""Output folders of flows: the files of a stream, or a folder of results for each micro-batch.

A flow is refused if the files of an earlier run do not fit its checkpoint, because rows would be lost or duplicated.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from penstock.errors import FailedPreconditionError
from penstock.spark.publishing import publish

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


FOLDER_BYTES_MAX = 255  # maximum length of a name in most file systems
# Characters that Spark escapes with three characters in a folder name.
ESCAPED = r"""[\x01-\x1f"#%'*/:=?\\\x7f{\[\]^]"""


def parquet_writer(frame: DataFrame, path: str, partition_by: Sequence[str], checkpoint: str) -> Any:
    refuse_foreign_files(path, checkpoint, "_spark_metadata/*")
    writer = refuse_long_values(frame, partition_by).writeStream.format("parquet").option("path", path)
    return writer.partitionBy(*partition_by) if partition_by else writer


def refuse_long_values(frame: DataFrame, partition_by: Sequence[str]) -> DataFrame:
    """Make a partition value that is too long for a folder name fail with a clear sentence."""
    from pyspark.sql import functions as F
    from pyspark.sql.types import StringType

    for name in partition_by:
        if not isinstance(frame.schema[name].dataType, StringType):
            continue
        value = F.col(f"`{name}`")
        escaped = F.length(value) - F.length(F.regexp_replace(value, ESCAPED, ""))
        size = F.octet_length(value) + 2 * escaped + len(name.encode()) + 1
        sentence = F.concat(
            F.lit(f"penstock: partition_by {name} has a value of "),
            F.length(value),
            F.lit(f" characters, but the name of its folder may have at most {FOLDER_BYTES_MAX} bytes: "),
            F.substring(value, 1, 40),
            F.lit("...; shorten the column, or write to delta, which accepts long values"),
        )
        refused = F.raise_error(sentence).cast("string")
        frame = frame.withColumn(name, F.when(size > FOLDER_BYTES_MAX, refused).otherwise(value))
    return frame


def refuse_foreign_files(path: str, checkpoint: str, pattern: str) -> None:
    """Raise FailedPreconditionError if the folder has files of a run with another checkpoint.

    Spark numbers batches by the checkpoint, and skips batches that the folder already has. With a new checkpoint and an
    old folder, the first batches would be lost silently.
    """
    folder, progress = (uri.removeprefix("file://").removeprefix("file:") for uri in (path, checkpoint))
    if "://" in folder or "://" in progress or (Path(progress) / "commits").exists():
        return
    if next(Path(folder).glob(pattern), None) is not None:
        raise FailedPreconditionError(
            f"{path} has files of a run whose checkpoint is not at {checkpoint}; "
            "restore that checkpoint, or choose another folder"
        )


class BatchResults:
    """The results of a flow, in a folder for each micro-batch. A repeated batch adds nothing."""

    def __init__(self, folder: str, checkpoint: str, summarize: Callable[[DataFrame], DataFrame]) -> None:
        refuse_foreign_files(folder, checkpoint, "batch=*")
        self.folder = folder
        self.checkpoint = checkpoint
        self.summarize = summarize
        self.messages: Callable[[DataFrame], DataFrame] | None = None  # makes the messages to publish, or None
        self.sink_options: dict[str, str] = {}
        self.rows = 0  # written by this process; with Spark Connect, another process writes

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        rows = self._results(frame, f"{self.folder}/batch={batch_id:08d}")
        self.rows += rows.count()
        if self.messages is not None:
            # Spark's id of the query, which is the same in every run with this checkpoint.
            row = frame.sparkSession.read.text(f"{self.checkpoint}/metadata").first()
            assert row is not None
            publish(self.messages(rows), self.sink_options, f"spark/{json.loads(row[0])['id']}/results", batch_id)

    def _results(self, frame: DataFrame, folder: str) -> DataFrame:
        """Return the stored results of the batch. Write them first, unless an earlier attempt has done so.

        They are not written again, because results may depend on the time, and some may be published already. A batch
        has one file, which Spark puts into the folder when it is complete.
        """
        from pyspark.errors import PySparkException

        read = frame.sparkSession.read
        try:
            results = read.parquet(folder)
            if results.columns:  # with Spark Connect, this reads the folder for the first time
                return results
        except PySparkException:
            pass  # no results, or unreadable ones
        self.summarize(frame).coalesce(1).write.mode("overwrite").parquet(folder)
        return read.parquet(folder)

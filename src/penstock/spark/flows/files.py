"""Folders that flows write to: the files of a stream, or a folder of results for each micro-batch.

Where this needs files of an earlier run and they do not fit together, the flow is refused instead of losing or
doubling rows.
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


def parquet_writer(frame: DataFrame, path: str, partition_by: Sequence[str], checkpoint: str) -> Any:
    refuse_foreign_files(path, checkpoint, "_spark_metadata/*")
    writer = frame.writeStream.format("parquet").option("path", path)
    return writer.partitionBy(*partition_by) if partition_by else writer


def refuse_foreign_files(path: str, checkpoint: str, pattern: str) -> None:
    """Refuse a folder filled by a run whose progress is gone.

    Spark numbers batches by the checkpoint and leaves out those the folder says it has. With a new checkpoint and an
    old folder the first batches would be lost in silence.
    """
    filled, kept = (each.removeprefix("file://").removeprefix("file:") for each in (path, checkpoint))
    if "://" in filled or "://" in kept or (Path(kept) / "commits").exists():
        return
    if next(Path(filled).glob(pattern), None) is not None:
        raise FailedPreconditionError(
            f"{path} holds the files of a run whose checkpoint is not at {checkpoint}; "
            "give back that checkpoint, or name another folder"
        )


class BatchResults:
    """Results of a flow: each micro-batch a folder of its own, so that one run again replaces itself."""

    def __init__(self, folder: str, checkpoint: str, summed: Callable[[DataFrame], DataFrame]) -> None:
        refuse_foreign_files(folder, checkpoint, "batch=*")
        self.folder = folder
        self.checkpoint = checkpoint
        self.summed = summed
        self.messages: Callable[[DataFrame], DataFrame] | None = None  # if the results are published as well
        self.sink_options: dict[str, str] = {}
        self.rows = 0  # written by this process; with Spark Connect it is another one that writes

    def __call__(self, frame: DataFrame, batch_id: int) -> None:
        place = f"{self.folder}/batch={batch_id:08d}"
        self.summed(frame).coalesce(1).write.mode("overwrite").parquet(place)
        rows = frame.sparkSession.read.parquet(place)
        self.rows += rows.count()
        if self.messages is not None:
            # What Spark calls the query of a checkpoint; it is the same in every run, wherever the driver is.
            row = frame.sparkSession.read.text(f"{self.checkpoint}/metadata").first()
            assert row is not None
            publish(self.messages(rows), self.sink_options, f"spark/{json.loads(row[0])['id']}/results", batch_id)

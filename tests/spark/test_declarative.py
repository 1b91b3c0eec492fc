"""The Spark Declarative Pipelines project in the examples, run twice as its README says.

The test runs the commands of the README with other addresses.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path

import pyarrow.dataset as dataset
import pytest

from tests.spark.drivers import SECONDS, Driver, environment_of
from tests.spark.servers import Server

PROJECT = Path(__file__).parents[2] / "examples/declarative"
LARGE = "projects/penstock/topics/large-orders"


@pytest.mark.nightly
def test_the_project_runs_twice_and_reads_only_new_messages(tmp_path: Path) -> None:
    project = copied(tmp_path)
    with Server(tmp_path, "--data", str(tmp_path / "data")) as server:
        point_at(project, server, tmp_path)
        for orders, total in ((30, 30), (12, 42)):
            send(project, server, orders)
            pipeline(project, tmp_path)
            check(project, server, total)
        [cursor] = server.ask("cursor.list", name="declarative-orders")["cursors"]
        assert cursor["offset"] >= 30  # the cursor moves, so messages of the first run are not kept forever


def copied(folder: Path) -> Path:
    readme = (PROJECT / "README.md").read_text()
    assert "spark-pipelines --conf spark.sql.catalogImplementation=hive run" in readme
    left_behind = shutil.ignore_patterns("metastore_db", "spark-warehouse", "derby.log", "__pycache__")
    return Path(shutil.copytree(PROJECT, folder / "project", ignore=left_behind))


def point_at(project: Path, server: Server, folder: Path) -> None:
    spec = project / "spark-pipeline.yml"
    text = spec.read_text().replace("127.0.0.1:8815", server.endpoint)
    spec.write_text(text.replace("file:///tmp/penstock-orders", (folder / "storage").as_uri()))


def send(project: Path, server: Server, orders: int) -> None:
    command = [sys.executable, "send_orders.py", str(orders), server.addresses["pubsub"]]
    subprocess.run(command, cwd=project, check=True, timeout=SECONDS, stdout=subprocess.DEVNULL)


def pipeline(project: Path, folder: Path) -> None:
    environment = environment_of(folder)
    environment.pop("PYSPARK_SUBMIT_ARGS")
    environment |= {"PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    command = ["spark-pipelines", "--conf", "spark.sql.catalogImplementation=hive", "--conf", "spark.ui.enabled=false"]
    driver = Driver([*command, "run"], project, environment)
    try:
        driver.finish()
    finally:
        driver.close()


def check(project: Path, server: Server, total: int) -> None:
    source = [json.loads(data) for data in server.data("projects/penstock/topics/orders")]
    assert len(source) == total
    large = [order for order in source if order["cents"] >= 10_000]
    sent = [json.loads(data) for data in server.data(LARGE)]
    key = lambda order: (order["id"], order["city"], order["cents"])  # noqa: E731 - a key
    assert sorted(sent, key=key) == sorted(large, key=key)
    assert table(project, "orders") == total
    assert table(project, "orders_of_bern") == sum(order["city"] == "Bern" for order in source)
    revenue = dataset.dataset(project / "spark-warehouse/revenue").to_table().to_pylist()
    assert {row["city"]: row["cents"] for row in revenue} == {
        city: sum(order["cents"] for order in source if order["city"] == city)
        for city in {order["city"] for order in source}
    }


def table(project: Path, name: str) -> int:
    files = [str(path) for path in (project / "spark-warehouse" / name).glob("*.parquet")]
    return int(dataset.dataset(files).count_rows())

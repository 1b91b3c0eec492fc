"""The separate package: light to import, pickled by value, with the version of the broker."""

from __future__ import annotations

import subprocess
import sys
import tomllib
from pathlib import Path

import pyspark_penstock
from tests.spark.conftest import MakeTopic
from tests.spark.servers import Server

ROOT = Path(__file__).resolve().parents[2]


def test_the_package_has_the_version_of_the_project() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    assert pyspark_penstock.__version__ == project["version"]


def test_importing_the_package_loads_nothing_heavy() -> None:
    script = (
        "import sys, pyspark.sql.datasource; before = set(sys.modules); import pyspark_penstock\n"
        "new = {name.split('.')[0] for name in set(sys.modules) - before}\n"
        "assert not new & {'pyarrow', 'pandas', 'grpc', 'penstock'}, new\n"
        "assert pyspark_penstock.DefaultSource.name() == 'penstock'\n"
    )
    subprocess.run([sys.executable, "-W", "ignore", "-c", script], check=True)


SENDER = """
import sys, types, pyspark_penstock
from pyspark import cloudpickle
session = types.SimpleNamespace(
    dataSource=types.SimpleNamespace(register=lambda source: None), conf=types.SimpleNamespace(get=lambda key: "UTC")
)
pyspark_penstock.register(session)
sys.stdout.buffer.write(cloudpickle.dumps(pyspark_penstock.DefaultSource))
"""

# The steps of a Spark worker with a source, in a process that does not have the package.
RECEIVER = """
import sys
sys.modules["pyspark_penstock"] = None
from pyspark import cloudpickle
options = {"endpoint": sys.argv[1], "topic": sys.argv[2], "startingOffsets": "earliest"}
source = cloudpickle.loads(sys.stdin.buffer.read())(options)
reader = cloudpickle.loads(cloudpickle.dumps(source.reader(source.schema())))
parts = [cloudpickle.loads(cloudpickle.dumps(part)) for part in reader.partitions()]
reader = cloudpickle.loads(cloudpickle.dumps(reader))  # after it has talked to the broker
assert [row for part in parts for rows in reader.read(part) for row in rows.column("data").to_pylist()] == [b"a", b"b"]
stream = cloudpickle.loads(cloudpickle.dumps(source.streamReader(source.schema())))
start = stream.initialOffset()
end = stream.latestOffset(start, stream.getDefaultReadLimit())
parts = stream.partitions(start, end)
stream = cloudpickle.loads(cloudpickle.dumps(stream))
assert sum(rows.num_rows for part in parts for rows in stream.read(part)) == 2
try:
    type(source)({"tpic": "x"})
except Exception as error:
    assert "did you mean topic?" in str(error)
"""


def test_the_source_can_be_pickled_by_value(server: Server, make_topic: MakeTopic) -> None:
    topic = make_topic(b"a", b"b")
    pickled = subprocess.run([sys.executable, "-W", "ignore", "-c", SENDER], check=True, capture_output=True).stdout
    command = [sys.executable, "-W", "ignore", "-c", RECEIVER, server.endpoint, topic]
    done = subprocess.run(command, input=pickled, capture_output=True)
    assert done.returncode == 0, done.stderr.decode()

"""`pip install penstock-broker[extra] && penstock serve` in a clean environment, on every Python version the project
names.

If this machine lacks a version, its test is skipped and says so.
"""

from __future__ import annotations

import json
import shutil
import tempfile
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.packages.conftest import Packages
from tests.packages.pythons import Environment, find_python, named_pythons, project
from tests.server_process import SECONDS, ServerProcess

pytestmark = pytest.mark.nightly

QUEUE = "orders"
TOPIC = "projects/penstock/topics/orders"
NEEDS = {"pubsub": "google", "flight": "pyarrow"}  # packages that a door requires; the other doors need only the base
OPENED = {"google": {"pubsub"}, "flight": {"flight"}, "spark": {"flight"}, "all": {"pubsub", "flight"}}
OPENED |= {"test": OPENED["google"]}
EXTRAS = ("", *project()["optional-dependencies"])

BY_FLIGHT = """
import json, sys
import pyarrow as pa
from pyarrow import flight
with flight.connect(f"grpc://{sys.argv[1]}") as client:
    list(client.do_action(flight.Action("topic.ensure", json.dumps({"topic": sys.argv[2]}).encode())))
    asked = flight.FlightDescriptor.for_command(json.dumps({"topic": sys.argv[2]}).encode())
    writer, answers = client.do_put(asked, pa.schema([("data", pa.binary())]))
    writer.write_batch(pa.record_batch([pa.array([b"one espresso"])], names=["data"]))
    writer.done_writing()
    answers.read()
    writer.close()
"""
BY_SPARK = """
import sys
from penstock.spark.session import SparkAddress, open_session
spark = open_session("try", {}, SparkAddress(None, None), log=None)
rows = spark.createDataFrame([(bytearray(b"one espresso"),)], "data binary")
options = {"endpoint": sys.argv[1], "topic": sys.argv[2], "createTopics": "true"}
rows.write.format("penstock").mode("append").options(**options).save()
spark.stop()
"""


BY_TEST = """
import pathlib, sys, pytest
test = pathlib.Path(sys.argv[1], "test_kit.py")
test.write_text('''
def test_one_message(penstock_project, penstock_text, penstock_clock):
    penstock_text.send(penstock_project.text_queue("orders"), b"one espresso")
    penstock_clock.advance(days=1)
    penstock_project.queue("orders").published(data=b"one espresso")
''')
sys.exit(pytest.main(["-q", str(test)]))
"""


class Harness:
    """A server in a clean environment, with a publish through each of its doors."""

    def __init__(self, environment: Environment, server: ServerProcess) -> None:
        self.environment = environment
        self.server = server

    def by_text(self) -> None:
        self.environment.penstock("text", "send", QUEUE, "one espresso", "--address", self.server.addresses["text"])

    def by_azure(self) -> None:
        account = f"http://{self.server.addresses['azure']}/queue/devstoreaccount1"
        self._ask("PUT", f"{account}/{QUEUE}")
        body = b"<QueueMessage><MessageText>one espresso</MessageText></QueueMessage>"
        self._ask("POST", f"{account}/{QUEUE}/messages", body)

    def by_google(self) -> None:
        self._ask("PUT", f"http://{self.server.addresses['pubsub']}/v1/{TOPIC}", b"{}")
        body = json.dumps({"messages": [{"data": "b25lIGVzcHJlc3Nv"}]}).encode()
        self._ask("POST", f"http://{self.server.addresses['pubsub']}/v1/{TOPIC}:publish", body)

    def by_flight(self) -> None:
        self.environment.program(BY_FLIGHT, self.server.addresses["flight"], TOPIC)

    def by_spark(self) -> None:
        self.environment.program(BY_SPARK, self.server.addresses["flight"], TOPIC)

    def by_delta(self) -> None:
        """Check the extra without a door, which is used with Spark."""
        self.environment.program("import deltalake")
        self.by_text()

    def by_test(self) -> None:
        """Run the test kit, which starts its own server."""
        with tempfile.TemporaryDirectory() as folder:
            self.environment.program(BY_TEST, folder)
        self.by_text()

    def by_all(self) -> None:
        for publish in (self.by_azure, self.by_flight, self.by_delta):
            publish()

    def _ask(self, method: str, url: str, body: bytes | None = None) -> bytes:
        asked = urllib.request.Request(url, method=method, data=body)
        with urllib.request.urlopen(asked, timeout=SECONDS) as response:
            answer: bytes = response.read()
            return answer

    def published(self) -> int:
        metrics = self._ask("GET", f"http://{self.server.addresses['http']}/metrics").decode()
        lines = [line for line in metrics.splitlines() if line.startswith("penstock_messages_published_total{")]
        return sum(int(float(line.rpartition(" ")[2])) for line in lines)


@pytest.fixture
def install(tmp_path: Path) -> Iterator[Callable[[str, str], Environment]]:
    """Environments are large, so each is removed after its test."""

    def make(version: str, requirement: str) -> Environment:
        python = find_python(version)
        if python is None:
            pytest.skip(f"NOT TRIED: there is no Python {version} on this machine")
        return Environment(tmp_path / "environment", python, requirement)

    yield make
    shutil.rmtree(tmp_path / "environment", ignore_errors=True)


@pytest.mark.parametrize("version", named_pythons())
@pytest.mark.parametrize("extra", EXTRAS)
def test_an_extra_installs_what_its_door_needs(
    install: Callable[[str, str], Environment], packages: Packages, tmp_path: Path, version: str, extra: str
) -> None:
    environment = install(version, f"{packages.wheel}[{extra}]" if extra else str(packages.wheel))
    assert environment.penstock("--version").strip() == project()["version"]
    assert "penstock" not in environment.packages(), "the extras must not require the other project of that name"
    opened = OPENED.get(extra, set())
    ports = dict.fromkeys(("http", "azure", "text", *opened), "0")  # no port is given for the other doors
    with ServerProcess(tmp_path, "--memory", doors=None, ports=ports, python=environment.python) as server:
        harness = Harness(environment, server)
        assert json.loads(harness._ask("GET", f"http://{server.addresses['http']}/health")) == {"status": "ok"}
        for door in NEEDS.keys() - opened:
            assert f"the {door} port stays closed: it needs {NEEDS[door]}" in server.log()
        assert opened <= server.addresses.keys()
        publish = {"": harness.by_text} | {name: getattr(harness, f"by_{name}") for name in EXTRAS if name}
        publish[extra]()
        assert harness.published() >= 1
        assert server.stop() == 0


@pytest.mark.parametrize("version", named_pythons())
def test_the_source_package_installs(
    install: Callable[[str, str], Environment], packages: Packages, version: str
) -> None:
    environment = install(version, str(packages.sdist))
    assert environment.penstock("--version").strip() == project()["version"]
    assert "hatchling" not in environment.packages(), "build tools are not needed at run time"

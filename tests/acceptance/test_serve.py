"""Tests of `penstock serve` as an operator uses it: the real command in a process of its own."""

from __future__ import annotations

import http.client
import re
import signal
import socket
import subprocess
import sys
from importlib import metadata
from pathlib import Path

import pytest

import penstock
from penstock.assembly import open_queue
from tests.server_process import DOORS, SECONDS, ServerProcess, clean_environment, refused

CLOSED = [part for door in ("pubsub", "azure", "text", "flight") for part in (f"--{door}-port", "off")]


def serve(folder: Path, *arguments: str) -> ServerProcess:
    return ServerProcess(folder, *arguments, doors=["http"])


def get(server: ServerProcess, path: str) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(*server.place("http"), timeout=SECONDS)
    try:
        connection.request("GET", path)
        response = connection.getresponse()
        return response.status, response.read()
    finally:
        connection.close()


def test_a_server_prints_its_addresses_answers_and_exits_with_0(tmp_path: Path) -> None:
    with serve(tmp_path, "--memory") as served:
        assert served.ready.keys() == {"pid", "http"}
        assert served.ready["pid"] == served.process.pid
        assert "memory only" in served.banner
        assert str(served.ready["http"]) in served.banner
        assert get(served, "/health") == (200, b'{"status":"ok"}')
        assert get(served, "/ready") == (200, b'{"ready":true,"doors":{"http":"open"}}')
        status, metrics = get(served, "/metrics")
        assert status == 200
        assert b"penstock_commits_total" in metrics
        assert served.stop() == 0
        assert not served.ready_file.exists()


def test_the_ready_file_of_a_running_server_is_not_taken(tmp_path: Path) -> None:
    with serve(tmp_path, "--memory") as served:
        written = served.ready_file.read_text()
        given = ["--memory", "--ready-file", str(served.ready_file), "--http-port", "0", *CLOSED]
        code, said = refused("serve", *given)
        running = f"the ready file {served.ready_file} belongs to a running server (process {served.ready['pid']})"
        assert (code, said) == (1, f"penstock: {running}; choose another with --ready-file\n")
        assert served.ready_file.read_text() == written
        served.ready_file.write_text('{"pid": 1}')  # another process took the file over
        assert served.stop() == 0
        assert served.ready_file.exists()


def test_ctrl_c_is_as_good_as_a_stop(tmp_path: Path) -> None:
    with serve(tmp_path, "--memory") as served:
        assert served.stop(signal.SIGINT) == 0


def test_a_data_folder_is_created_and_served_again(tmp_path: Path) -> None:
    for _ in range(2):
        with serve(tmp_path, "--data", str(tmp_path / "data")) as served:
            assert str(tmp_path / "data") in served.banner
            assert get(served, "/ready")[0] == 200
            assert served.stop() == 0


def test_a_second_server_on_the_folder_is_refused_with_a_sentence(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with serve(tmp_path, "--data", data):
        code, sentence = refused("serve", "--data", data, "--http-port", "0", *CLOSED)
    assert code == 1
    assert sentence.count("\n") == 1
    assert data in sentence


def test_a_port_in_use_is_refused_with_a_sentence_and_leaves_no_folder(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused("serve", "--data", str(tmp_path / "a" / "data"), "--http-port", str(port), *CLOSED)
    assert code == 1
    assert said == (
        f"penstock: cannot open http: another program listens on 127.0.0.1:{port}; "
        "choose another port with --http-port (0 means any free port)\n"
    )
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("door", ["http", "pubsub", "azure", "text"])
def test_an_error_says_that_another_penstock_has_the_port(tmp_path: Path, door: str) -> None:
    closed = [part for each in DOORS if each != door for part in (f"--{each}-port", "off")]
    with ServerProcess(tmp_path, "--memory", doors=[door]) as other:
        port = other.place(door)[1]
        code, said = refused("serve", "--memory", f"--{door}-port", str(port), *closed)
    assert code == 1
    assert said.startswith(f"penstock: cannot open {door}: another Penstock listens on 127.0.0.1:{port}; ")
    assert f"--{door}-port" in said


def test_azurites_command_names_its_own_flag() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        code, said = refused("azurite", "--inMemoryPersistence", "--queuePort", str(taken.getsockname()[1]))
    assert code == 1
    assert "choose another port with --queuePort" in said


def test_a_failed_start_keeps_a_store_that_was_there(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serve(tmp_path, "--data", str(data)) as served:
        assert served.stop() == 0
    before = sorted(path.name for path in data.iterdir())
    code, said = refused("serve", "--data", str(data), "--azure-accounts", "nonsense", "--http-port", "0")
    assert code == 1, said
    assert sorted(path.name for path in data.iterdir()) == before
    code, said = refused("serve", "--data", str(tmp_path / "new"), "--azure-accounts", "nonsense", "--http-port", "0")
    assert code == 1, said
    assert not (tmp_path / "new").exists()


def test_a_start_prints_the_contents_of_the_store(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with open_queue(data) as queue:
        for name in ("orders", "bills"):
            queue.register_topic(name)
        queue.create_subscription("packing", "orders")
        queue.publish("orders", [{"data": b"one"}])
    with serve(tmp_path, "--data", data) as served:
        found = re.search(r"^ +(2 topics, 1 unacked message, recovered in [\d,]+ ms)$", served.banner, re.M)
        assert found is not None, served.banner
        assert f"INFO penstock.server: {found[1]}\n" in served.log()


def test_the_banner_fits_into_80_columns(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory") as served:
        shell = [line for line in served.banner.splitlines() if line.startswith("export ")]
        assert {line.partition("=")[0] for line in shell} == {
            "export PUBSUB_EMULATOR_HOST",
            "export AZURE_STORAGE_CONNECTION_STRING",
        }
        assert all(len(line) <= 80 for line in served.banner.splitlines() if line not in shell), served.banner


def test_a_mistyped_variable_is_named_and_foreign_ones_do_not_matter(tmp_path: Path) -> None:
    foreign = {"PENSTOCK_SERVICE_HOST": "10.0.0.1", "PENSTOCK_PORT_8085_TCP_ADDR": "10.0.0.1"}
    links = {"PENSTOCK_PORT": "tcp://10.0.0.1:8085", "PENSTOCK_GRACE_SECONDS": "tcp://10.0.0.1:80"}
    typed = {"PENSTOCK_RETENTION_SECOND": "7"}
    with ServerProcess(tmp_path, "--memory", doors=["http"], environment=foreign | links | typed) as served:
        said = [line.partition("penstock.server: ")[2] for line in served.log().splitlines() if "WARNING" in line]
    assert said == [
        "PENSTOCK_GRACE_SECONDS holds the address of a service, not a setting, and is ignored",
        "PENSTOCK_RETENTION_SECOND is not a setting and is ignored; did you mean PENSTOCK_RETENTION_SECONDS?",
    ]


def test_a_folder_that_cannot_be_used_is_refused_with_a_sentence(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    code, sentence = refused("serve", "--data", str(tmp_path / "file" / "data"), "--http-port", "0", *CLOSED)
    assert code == 1
    assert sentence.startswith("penstock: ")
    assert sentence.count("\n") == 1


def test_a_damaged_store_is_refused_with_a_sentence(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with serve(tmp_path, "--data", str(data)) as served:
        assert served.stop() == 0
    for path in data.glob("*.db"):
        path.write_bytes(b"not a store at all" * 500)
    code, sentence = refused("serve", "--data", str(data), "--http-port", "0", *CLOSED)
    assert code == 1
    assert sentence.count("\n") == 1
    assert "damaged" in sentence


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["--http-port", "no"], "penstock: --http-port: expected a port from 0 to 65535 or \"off\", not 'no'\n"),
        (["--memory", "--data", "x"], "penstock: --data and --memory exclude each other\n"),
        (
            ["--config", "absent.toml"],
            "penstock: cannot read the settings file absent.toml: No such file or directory\n",
        ),
    ],
)
def test_a_wrong_flag_is_a_sentence_and_exit_2(arguments: list[str], sentence: str) -> None:
    assert refused("serve", *arguments) == (2, sentence)


def test_an_unknown_flag_is_a_usage_error() -> None:
    code, said = refused("serve", "--no-such-flag")
    assert code == 2
    assert "no-such-flag" in said


@pytest.mark.parametrize("argument", ["--help", "version"])
def test_help_and_version_load_nothing_heavy(argument: str) -> None:
    """Each command imports its heavy packages itself, so that the others start fast."""
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "penstock", argument],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=clean_environment(),
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.stderr.splitlines()}
    assert "click" in loaded, "the list has the imported modules"
    assert not loaded & {
        "apsw",
        "cryptography",
        "fastavro",
        "google",
        "grpc",
        "asyncio",
        "httptools",
        "msgspec",
        "pyarrow",
        "pyspark",
        "rich",
        "uvloop",
    }


def without(folder: Path, *packages: str) -> dict[str, str]:
    """Return an environment in which these packages cannot be imported."""
    (folder / "sitecustomize.py").write_text(f"import sys\nsys.modules.update(dict.fromkeys({packages!r}))\n")
    return {"PYTHONPATH": str(folder)}


def test_a_door_without_its_packages_stays_closed_and_says_what_to_install(tmp_path: Path) -> None:
    ports = {"http": "0", "azure": "off", "text": "off"}  # no port is given for the other doors
    hidden = without(tmp_path, "google.protobuf", "pyarrow")
    with ServerProcess(tmp_path, "--memory", doors=None, ports=ports, environment=hidden) as served:
        assert served.ready.keys() == {"pid", "http"}
        assert get(served, "/ready")[0] == 200
        log = served.log()
    for door, package, extra in (("pubsub", "google.protobuf", "google"), ("flight", "pyarrow", "flight")):
        needed = rf"needs {package}[.a-z]*: pip install 'penstock-broker\[{extra}\]'"
        assert re.search(rf"^  {door} +closed: {needed}$", served.banner, re.M), served.banner
        assert re.search(rf"WARNING penstock: the {door} port stays closed: it {needed}$", log, re.M), log


@pytest.mark.parametrize(("door", "package"), [("pubsub", "google.protobuf"), ("flight", "pyarrow")])
def test_a_door_that_was_asked_for_and_has_no_packages_is_an_error(tmp_path: Path, door: str, package: str) -> None:
    environment = without(tmp_path, package)
    code, said = refused("serve", "--memory", f"--{door}-port", "0", "--http-port", "0", environment=environment)
    assert code == 1
    assert said.startswith(f"penstock: the {door} port needs {package}")
    assert said.endswith(f"or close it with --{door}-port off\n")


def test_a_foreign_distribution_called_penstock_is_named_in_the_log(tmp_path: Path) -> None:
    """Another project has the name `penstock` on the package index, and installs an import package of the same name."""
    described = tmp_path / "foreign" / "penstock-0.3.1.dist-info"
    described.mkdir(parents=True)
    (described / "METADATA").write_text("Metadata-Version: 2.1\nName: penstock\nVersion: 0.3.1\n")
    beside = {"PYTHONPATH": str(tmp_path / "foreign")}
    with ServerProcess(tmp_path, "--memory", doors=("http",), environment=beside) as served:
        warnings = [line for line in served.log().splitlines() if " WARNING " in line]
    assert len(warnings) == 1, warnings
    assert "the distribution penstock 0.3.1 is installed beside penstock-broker" in warnings[0]
    assert "pip uninstall penstock" in warnings[0]


def test_without_a_foreign_distribution_there_is_no_warning(tmp_path: Path) -> None:
    with ServerProcess(tmp_path, "--memory", doors=("http",)) as served:
        assert "WARNING" not in served.log()


def test_the_package_knows_its_version() -> None:
    assert penstock.__version__ == metadata.version("penstock-broker")
    assert "__version__" in dir(penstock)

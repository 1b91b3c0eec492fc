"""`penstock serve` as an operator meets it: the real command in a process of its own."""

from __future__ import annotations

import http.client
import signal
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from tests.server_process import SECONDS, ServerProcess, clean_environment, refused

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


def test_a_server_says_where_it_is_answers_and_leaves_with_0(tmp_path: Path) -> None:
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


def test_ctrl_c_is_as_good_as_a_stop(tmp_path: Path) -> None:
    with serve(tmp_path, "--memory") as served:
        assert served.stop(signal.SIGINT) == 0


def test_a_data_folder_is_made_served_and_served_again(tmp_path: Path) -> None:
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


def test_a_port_in_use_is_refused_with_a_sentence() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        code, said = refused("serve", "--memory", "--http-port", str(port), *CLOSED)
    assert code == 1
    assert said == f"penstock: cannot open the http door on 127.0.0.1:{port}: Address already in use\n"


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
    """What makes a start slow is imported by the command that needs it."""
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "penstock", argument],
        check=True,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=clean_environment(),
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.stderr.splitlines()}
    assert "typer" in loaded, "the list is of what was imported"
    assert not loaded & {
        "apsw",
        "cryptography",
        "fastavro",
        "google",
        "grpc",
        "httptools",
        "pyarrow",
        "pyspark",
        "uvloop",
    }

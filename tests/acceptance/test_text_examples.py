"""The programs of the text door under `examples/`, its command line and its page, run against a real server."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from subprocess import PIPE

import pytest

from tests.acceptance.text_server import TextServer
from tests.server_process import SECONDS

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TextServer]:
    with TextServer(tmp_path_factory.mktemp("text"), "--memory", "--log-level", "error") as running:
        yield running


def run(
    server: TextServer, *command: str, text: str = "", folder: Path | None = None
) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"PENSTOCK_TEXT_ADDRESS": server.addresses["text"]}
    if folder is not None:
        environment["PATH"] = f"{folder}{os.pathsep}{environment['PATH']}"
    return subprocess.run(command, input=text, capture_output=True, text=True, timeout=SECONDS, env=environment)


def penstock(server: TextServer, *arguments: str, text: str = "") -> subprocess.CompletedProcess[str]:
    return run(server, sys.executable, "-m", "penstock", "text", *arguments, text=text)


def test_the_worker(server: TextServer) -> None:
    """T-022, T-036, T-039."""
    done = run(server, sys.executable, str(ROOT / "examples" / "text_worker.py"))
    assert done.stdout.splitlines() == [
        "3 jobs are safe",
        "wash: done",
        "dry: still wet, later",
        "fold: done",
        "dry: done",
    ], done.stderr


def test_nothing_but_a_socket(server: TextServer) -> None:
    """T-022, T-040."""
    done = run(server, sys.executable, str(ROOT / "examples" / "text_socket.py"))
    first, second, third = done.stdout.splitlines()
    assert first.startswith("005: ")
    assert first.endswith(" is durable in Foo")
    assert [second, third] == ["003: Hello World", "closed: True"]


def test_the_shell_script(server: TextServer, tmp_path: Path) -> None:
    command = tmp_path / "penstock"
    command.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m penstock "$@"\n')
    command.chmod(0o755)
    done = run(server, "sh", str(ROOT / "examples" / "text_shell.sh"), folder=tmp_path)
    assert done.stdout.splitlines() == ["got alpha", "got beta", "got gamma"], done.stderr


def test_sending_and_consuming_on_the_command_line(server: TextServer) -> None:
    sent = penstock(server, "send", "cli", "one", "zwei €")
    assert [len(line) for line in sent.stdout.splitlines()] == [32, 32]
    whole = penstock(server, "send", "cli", text="several\nlines")
    assert len(whole.stdout.splitlines()) == 1
    taken = penstock(server, "consume", "cli", "--count", "3", "--null")
    assert taken.stdout.split("\0") == ["one", "zwei €", "several\nlines", ""]
    assert taken.returncode == 0
    empty = penstock(server, "consume", "cli", "-n", "1", "--wait", "0.1")
    assert (empty.returncode, empty.stdout, empty.stderr) == (1, "", "")


def test_a_consumer_on_the_command_line_stops_if_the_server_stays_away(tmp_path: Path) -> None:
    with TextServer(tmp_path) as server:
        penstock(server, "send", "away", "x")
        command = [sys.executable, "-m", "penstock", "text", "consume", "away", "--timeout", "0.5"]
        consumer = subprocess.Popen(
            [*command, "--address", server.addresses["text"]], stdout=PIPE, stderr=PIPE, text=True
        )
        try:
            assert consumer.stdout is not None
            assert consumer.stdout.readline() == "x\n"
            server.kill()
            _, error = consumer.communicate(timeout=SECONDS)
        finally:
            consumer.kill()
            consumer.communicate()
    assert consumer.returncode == 4
    assert error.startswith("penstock: No connection to the endpoint")


def test_errors_on_the_command_line_are_one_sentence(server: TextServer) -> None:
    """T-011."""
    for code, arguments in (
        (1, ["send", "a/b", "x"]),
        (1, ["send", "q", "x", "--address", "nowhere"]),
        (4, ["consume", "q", "--address", "127.0.0.1:1", "--timeout", "0.1"]),
    ):
        done = penstock(server, *arguments)
        assert done.returncode == code
        assert done.stderr.startswith("penstock: ")
        assert done.stderr.count("\n") == 1

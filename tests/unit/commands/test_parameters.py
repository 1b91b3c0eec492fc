"""Parameters out of range and mistyped commands: each is refused with one sentence."""

from __future__ import annotations

import subprocess
import sys
from inspect import signature

import click
import pytest
from click.testing import CliRunner

from penstock.cli import app
from tests.server_process import SECONDS, clean_environment
from tests.tidy.cli_page import every_command


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["peek", "t", "-n", "many"], "'many' is not a valid whole number"),
        (["peek", "t", "-n", "0"], "0 is less than 1"),
        (["peek", "t", "-n", "1000000"], "1000000 is more than 100000"),
        (["publish", "t", "x", "--rate", "quick"], "'quick' is not a valid number"),
        (["publish", "t", "x", "--rate", "nan"], "'nan' is not a valid number"),
        (["publish", "t", "x", "--rate", "inf"], "'inf' is not a valid number"),
        (["publish", "t", "x", "--rate", "-1"], "-1 is less than 0"),
        (["subs", "change", "s", "--label"], "Option '--label' requires an argument (see penstock subs change -h)"),
        (["pek", "t"], "There is no command 'pek'; did you mean peek? (see penstock -h)"),
        (["topics", "creat", "t"], "There is no command 'creat'; did you mean create? (see penstock topics -h)"),
    ],
)
def test_wrong_usage_is_one_sentence(arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert sentence in done.output
    assert done.output.count("\n") == 1


@pytest.mark.parametrize(("path", "command"), [(path, command) for path, command, _ in every_command()])
def test_a_command_takes_its_parameters(path: str, command: click.Command) -> None:
    if command.callback is None:
        return  # a group
    names = {parameter.name for parameter in command.params if parameter.expose_value}
    if hasattr(command.callback, "__wrapped__"):  # wrapped by on_server
        names = names - {"address", "token", "context", "project", "as_json"} | {"session"}
    signature(command.callback).bind(**dict.fromkeys(filter(None, names)))


def test_a_command_loads_nothing_heavy_to_read_its_options() -> None:
    told = subprocess.run(
        [sys.executable, "-X", "importtime", "-m", "penstock", "peek", "t", "-n", "3", "--address", "127.0.0.1:1"],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=clean_environment(),
    )
    loaded = {line.rpartition("|")[2].strip().partition(".")[0] for line in told.stderr.splitlines()}
    assert told.returncode == 4
    assert "click" in loaded
    assert not loaded & {"pydantic", "rich", "asyncio", "apsw", "pyarrow", "httptools"}

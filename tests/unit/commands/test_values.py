"""Plain values are read without what typer would import for them, and refused with a sentence."""

from __future__ import annotations

import subprocess
import sys

import pytest
from typer.testing import CliRunner

from penstock.cli import app
from tests.server_process import SECONDS, clean_environment


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (["peek", "t", "-n", "many"], "'many' is not a whole number"),
        (["peek", "t", "-n", "0"], "0 is less than 1"),
        (["peek", "t", "-n", "1000000"], "1000000 is more than 100000"),
        (["publish", "t", "x", "--rate", "quick"], "'quick' is not a number"),
        (["publish", "t", "x", "--rate", "nan"], "'nan' is not a number"),
        (["publish", "t", "x", "--rate", "inf"], "'inf' is not a number"),
        (["publish", "t", "x", "--rate", "-1"], "-1 is less than 0"),
    ],
)
def test_a_wrong_number_is_one_sentence(arguments: list[str], sentence: str) -> None:
    done = CliRunner().invoke(app, arguments)
    assert done.exit_code == 2
    assert sentence in done.output
    assert done.output.count("\n") == 1


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
    assert "typer" in loaded
    assert not loaded & {"pydantic", "rich", "asyncio", "apsw", "pyarrow", "httptools"}

"""The example programs of docs/testing-languages.md, in the languages that are installed on this machine."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.testing import Server
from tests.server_process import ROOT, clean_environment

SECONDS = 120.0  # only a failing test waits this long
PAGE = (ROOT / "docs" / "testing-languages.md").read_text(encoding="utf-8")
PROGRAMS = {
    "kit.test.mjs": ["node", "kit.test.mjs"],
    "KitExample.java": ["java", "-XX:TieredStopAtLevel=1", "-Xshare:auto", "KitExample.java"],
    "kit_test.go": ["go", "test", "./..."],
}
HAND_TRIED = {"kit-google.test.mjs", "KitTests.cs"}


def examples() -> dict[str, str]:
    """Return the programs of the page, by the name in their first line."""
    return {match[1]: match[0] for match in re.finditer(r"(?<=\n)// ([\w.-]+)\n.*?(?=\n```)", PAGE, re.DOTALL)}


def test_every_example_is_run_here_or_listed_as_tried_by_hand() -> None:
    assert examples().keys() == PROGRAMS.keys() | HAND_TRIED


@pytest.mark.parametrize("name", PROGRAMS)
def test_an_example_runs(name: str, penstock: Server, tmp_path: Path) -> None:
    command = PROGRAMS[name]
    if shutil.which(command[0]) is None:
        pytest.skip(f"NOT TRIED: there is no {command[0]} here")  # Go is only needed here, and comes from Debian
    (tmp_path / name).write_text(examples()[name] + "\n", encoding="utf-8")
    (tmp_path / "go.mod").write_text("module kit\n\ngo 1.18\n", encoding="utf-8")
    addresses = {"PUBSUB_EMULATOR_HOST": penstock["pubsub"], "PENSTOCK_ADDRESS": penstock["http"]}
    done = subprocess.run(
        command,
        cwd=tmp_path,
        env=clean_environment() | addresses,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr

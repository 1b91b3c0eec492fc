"""The tests of `examples/testing-node`, which use Node's own Pub/Sub client, and the admin API with fetch."""

from __future__ import annotations

import re
import shutil
import subprocess
from pathlib import Path

import pytest

from penstock.testing import server
from tests.server_process import ROOT, clean_environment

pytestmark = pytest.mark.nightly  # installing the client takes longer than the tests

NEEDED = "This test needs Node 20 or newer, with npm, on the PATH"
SECONDS = 900.0  # only a failing test waits this long


def run(folder: Path, *command: str, **variables: str) -> str:
    done = subprocess.run(
        command,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=clean_environment() | variables,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Return the folder of the example with the client installed from the lock file."""
    if shutil.which("node") is None or shutil.which("npm") is None:
        pytest.fail(NEEDED)
    version = run(tmp_path, "node", "--version")
    if int(version.removeprefix("v").partition(".")[0]) < 20:
        pytest.fail(f"{NEEDED}; this is {version}")
    example = tmp_path / "testing-node"
    shutil.copytree(ROOT / "examples" / "testing-node", example, ignore=shutil.ignore_patterns("node_modules"))
    run(example, "npm", "ci", "--omit=dev", "--no-audit", "--no-fund", "--ignore-scripts")
    return example


def test_nodes_client_has_the_time_and_the_faults_of_its_project(folder: Path) -> None:
    with server() as penstock:
        addresses = {"PENSTOCK_ADDRESS": penstock["http"], "PUBSUB_EMULATOR_HOST": penstock["pubsub"]}
        said = run(folder, "npm", "test", METADATA_SERVER_DETECTION="none", **addresses)
        assert penstock.admin.get("/topics")["topics"] == [], "each test has removed its project"
    named = re.findall(r"^test\('(.*)',", (folder / "billing.test.mjs").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(named) == 8
    for name in named:
        assert re.search(rf"(ok \d+ - |✔ ){re.escape(name)}", said), said
    assert "MetadataLookupWarning" not in said

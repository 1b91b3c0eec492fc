"""The packages, built once for all tests of a worker."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.server_process import ROOT


class Packages(NamedTuple):
    wheel: Path
    sdist: Path


@pytest.fixture(scope="session")
def packages(tmp_path_factory: pytest.TempPathFactory) -> Packages:
    """Build the packages as `make build` does."""
    folder = tmp_path_factory.mktemp("dist")
    command = [sys.executable, "-m", "hatchling", "build", "--directory", str(folder)]
    subprocess.run(command, check=True, cwd=ROOT, capture_output=True)
    [wheel], [sdist] = folder.glob("*.whl"), folder.glob("*.tar.gz")
    return Packages(wheel, sdist)

"""The contents of the wheel and of the source package, and their metadata."""

from __future__ import annotations

import tarfile
import zipfile
from email import message_from_bytes
from email.message import Message
from pathlib import PurePosixPath

import pytest

from tests.packages.conftest import Packages
from tests.packages.pythons import named_pythons, project
from tests.server_process import ROOT

SOURCES = ROOT / "src"


@pytest.fixture(scope="module")
def metadata(packages: Packages) -> Message:
    with zipfile.ZipFile(packages.wheel) as wheel:
        (name,) = [name for name in wheel.namelist() if name.endswith(".dist-info/METADATA")]
        return message_from_bytes(wheel.read(name))


def test_the_wheel_holds_both_packages_whole_and_nothing_else(packages: Packages) -> None:
    with zipfile.ZipFile(packages.wheel) as wheel:
        held = {name for name in wheel.namelist() if ".dist-info/" not in name}
        licences = [name for name in wheel.namelist() if name.endswith("/licenses/LICENSE")]
    files = (path for path in SOURCES.rglob("*") if path.is_file() and "__pycache__" not in path.parts)
    assert held == {path.relative_to(SOURCES).as_posix() for path in files}
    console = {".js", ".mjs", ".css", ".html", ".svg", ".md", ".LICENSE"}
    assert {PurePosixPath(name).suffix for name in held} == {".py", ".sql", ".binpb", ".typed"} | console
    assert {"penstock/py.typed", "pyspark_penstock/py.typed", "penstock/journal/sqlite/queries.sql"} <= held
    assert len(licences) == 1


def test_the_source_package_can_be_built_and_tested(packages: Packages) -> None:
    with tarfile.open(packages.sdist) as archive:
        names = {name.partition("/")[2] for name in archive.getnames()}
    for needed in ("pyproject.toml", "Makefile", "LICENSE", "README.md", "locks/test.txt", "docs/operating.md"):
        assert needed in names
    assert "tests/packages/test_contents.py" in names
    assert "src/penstock/journal/sqlite/queries.sql" in names
    assert not [name for name in names if name.endswith((".pyc", ".db")) or name.startswith((".venv", "dist"))]


def test_the_metadata_describes_the_package_for_an_index(metadata: Message) -> None:
    described = project()
    assert metadata["Name"] == "penstock-broker"  # penstock is another project
    assert metadata["Version"] == described["version"]
    assert metadata["Summary"] == described["description"]
    assert metadata["License-Expression"] == "Apache-2.0"
    assert metadata["Description-Content-Type"] == "text/markdown"
    assert metadata["Requires-Python"] == f">={min(named_pythons(), key=lambda name: int(name.partition('.')[2]))}"
    assert len(metadata["Keywords"].split(",")) >= 5
    assert set(metadata.get_all("Provides-Extra") or []) == set(described["optional-dependencies"])
    body = metadata.get_payload()
    assert isinstance(body, str)
    assert body.startswith("# Penstock")
    assert "pip install penstock-broker" in body

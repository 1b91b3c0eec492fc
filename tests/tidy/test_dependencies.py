"""The rule that extras declare the third-party imports of the source, and proof that it can fail."""

from __future__ import annotations

import tomllib
from pathlib import Path

import pytest

from tests.tidy.dependencies import declared, dependency_faults
from tests.tidy.pins import pins
from tests.tidy.sources import ROOT, build, everywhere, modules

PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_every_import_is_declared_by_the_extra_that_needs_it() -> None:
    assert dependency_faults(everywhere(), PROJECT) == []


def test_the_served_environment_has_what_the_doors_need() -> None:
    served = {name.replace("-", "_") for name in pins((ROOT / "locks" / "serve.txt").read_text(encoding="utf-8"))}
    assert declared(PROJECT, ("google", "azure", "flight")) - served == set()


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("penstock/doors/google/tokens.py", "def sign():\n    import jwt"),
        ("penstock/doors/google/tokens.py", "from pyarrow import Table"),
        ("penstock/doors/text/server.py", "import cryptography.hazmat"),
        ("penstock/server.py", "from google.protobuf import json_format"),
        ("pyspark_penstock/source.py", "import deltalake"),
    ],
)
def test_an_import_that_nobody_declares_is_found(tmp_path: Path, name: str, text: str) -> None:
    fine = {
        "penstock/doors/google/tokens.py": "import json\nfrom google.protobuf import message\nimport cryptography\n",
        "penstock/doors/text/server.py": "import msgspec\nfrom penstock.errors import PenstockError\n",
        "penstock/server.py": "def run():\n    import uvloop\n",
        "pyspark_penstock/source.py": "import pyspark.sql\n",
    }
    build(tmp_path, fine)
    packages = [tmp_path / "penstock", tmp_path / "pyspark_penstock"]
    assert [fault for package in packages for fault in dependency_faults(modules(package), PROJECT)] == []
    build(tmp_path, {name: text})
    assert len([fault for package in packages for fault in dependency_faults(modules(package), PROJECT)]) == 1

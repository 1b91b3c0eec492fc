"""The error of the data source on an old Spark release."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import sys
import pyspark
pyspark.__version__ = sys.argv[1]
import pyspark_penstock
assert "pyspark_penstock.source" not in sys.modules
assert pyspark_penstock.DefaultSource.name() == "penstock"
try:
    pyspark_penstock.DefaultSource(options={})
except Exception as error:
    print(error)
"""


@pytest.mark.parametrize("version", ["4.0.1", "4.1.0", "4.1.0.dev3"])
def test_an_old_release_is_named_when_the_source_is_used(version: str) -> None:
    run = subprocess.run([sys.executable, "-c", PROGRAM, version], capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == f"penstock: the format penstock needs pyspark 4.2 or newer; this is {version}", (
        run.stderr
    )


def test_newer_releases_have_the_source_itself() -> None:
    lines = ("import pyspark", "pyspark.__version__ = '10.0.0'", "import pyspark_penstock as p")
    program = "; ".join((*lines, "print(p.DefaultSource.__module__)"))
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, timeout=60)
    assert run.stdout.strip() == "pyspark_penstock.source", run.stderr

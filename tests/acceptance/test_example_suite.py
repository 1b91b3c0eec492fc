"""The tests of `examples/testing`, run as a copy of them would run: two processes, random order, no sleep."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

from tests.server_process import ROOT, clean_environment

SUITE = ROOT / "examples" / "testing"
SECONDS = 3600.0  # only a failing test waits this long
PLUGINS = "-p no:schemathesis -p no:hypothesispytest -p no:anyio"  # plugins that only Penstock's own tests have


def environment(compiled: Path) -> dict[str, str]:
    """Return the environment of the example. `compiled` is the folder for Python's bytecode, shared by all runs."""
    known = {name: value for name, value in clean_environment().items() if name != "PYTHONDONTWRITEBYTECODE"}
    return known | {"PYTEST_ADDOPTS": PLUGINS, "PYTHONPYCACHEPREFIX": str(compiled)}


def test_it_passes_in_any_order(rounds: Callable[[int, int], int], tmp_path: Path) -> None:
    times = rounds(1, 100)
    done = subprocess.run(
        [sys.executable, str(SUITE / "repeat.py"), str(times)],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment(tmp_path),
        check=False,
    )
    assert re.search(rf"^{times} runs passed", done.stdout, re.MULTILINE), done.stdout[-20_000:] + done.stderr
    print(done.stdout)


def test_the_example_never_sleeps() -> None:
    for file in SUITE.glob("*.py"):
        assert "sleep" not in file.read_text(encoding="utf-8"), file.name


def test_a_run_that_fails_names_its_seed(tmp_path: Path) -> None:
    for name in ("repeat.py", "conftest.py", "billing.py", "pytest.ini"):
        (tmp_path / name).write_bytes((SUITE / name).read_bytes())
    (tmp_path / "test_it.py").write_text("def test_it():\n    assert 1 == 2\n", encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "repeat.py", "2"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=environment(tmp_path / "compiled"),
        check=False,
    )
    assert done.returncode == 1
    assert re.search(r"^Run 1 of 2, --seed \d+, failed:", done.stdout), done.stdout
    assert "assert 1 == 2" in done.stdout

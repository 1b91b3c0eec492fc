"""The format of the console's scripts, and proof that the tools of `make check` find faults in them."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.tidy.sources import ROOT

CONSOLE = ROOT / "src" / "penstock" / "doors" / "http" / "console"
COLUMNS_MAX = 120
TOOLS = Path(sys.executable).parent
FORMAT = [TOOLS / "oxfmt", "--check", "--config", ROOT / ".oxfmtrc.json"]
LINT = [TOOLS / "oxlint", "--config", ROOT / ".oxlintrc.json"]


def long_lines(folder: Path) -> list[str]:
    """Return the lines of scripts that are too long, such as lines of templates, which no tool wraps."""
    scripts = (path for path in sorted(folder.rglob("*.js")) if "vendor" not in path.parts)
    return [
        f"{path.name}:{number}: {len(line)} columns, at most {COLUMNS_MAX}"
        for path in scripts
        for number, line in enumerate(path.read_text().splitlines(), 1)
        if len(line) > COLUMNS_MAX
    ]


def test_lines_of_scripts_are_short() -> None:
    assert long_lines(CONSOLE) == []


def test_a_long_line_is_found(tmp_path: Path) -> None:
    (tmp_path / "a.js").write_text("x" * 120 + "\n" + "x" * 121 + "\n")
    assert long_lines(tmp_path) == ["a.js:2: 121 columns, at most 120"]


@pytest.mark.skipif(not (TOOLS / "oxlint").exists(), reason="the environment is older than the lock of the tests")
@pytest.mark.parametrize(
    ("command", "source", "passes"),
    [
        (FORMAT, "export const a = 1;\n", True),
        (FORMAT, "export const a=1\n", False),
        (LINT, "export const a = 1;\n", True),
        (LINT, "const unused = 1;\n", False),
        (LINT, "export const a = missing;\n", False),
    ],
)
def test_the_tools_find_a_planted_fault(tmp_path: Path, command: list[Path | str], source: str, passes: bool) -> None:
    (tmp_path / "a.js").write_text(source)
    result = subprocess.run([*command, "a.js"], cwd=tmp_path, capture_output=True, check=False)
    assert (result.returncode == 0) is passes, result.stdout

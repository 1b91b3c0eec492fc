"""The width of prose, and proof that the rule can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.prose import width_faults
from tests.tidy.sources import ROOT, build, project_files

FITS = "word " * 19 + "words"
LONG = FITS + "s"


def test_prose_wraps_at_100_columns() -> None:
    assert width_faults(ROOT, project_files()) == []


@pytest.mark.parametrize(
    "text",
    [
        LONG,
        f"- {FITS}",
        f"# {FITS}",
        f"`{FITS}`",
        f"```sh\nls\n```\n{LONG}",
        f"````\n```\n````\n{LONG}",
        f"| a |\n|---|\n| b |\n\n{LONG}",
        "see https://example.org/" + "x" * 90,
    ],
)
def test_a_wide_line_is_found(tmp_path: Path, text: str) -> None:
    build(tmp_path, {"docs/page.md": f"{FITS}\n{text}\n"})
    assert len(width_faults(tmp_path, [tmp_path / "docs/page.md"])) == 1


@pytest.mark.parametrize(
    "text",
    [
        FITS,
        f"| {LONG} |",
        f"```sh\n{LONG}\n```",
        f"- a list with code\n\n  ```\n  {LONG}\n  ```",
        "https://example.org/" + "x" * 90,
        "- <https://example.org/" + "x" * 90 + ">",
    ],
)
def test_tables_code_and_long_addresses_may_be_wide(tmp_path: Path, text: str) -> None:
    build(tmp_path, {"page.md": f"{text}\n", "code.py": f"# {LONG}\n"})
    assert width_faults(tmp_path, [tmp_path / "page.md", tmp_path / "code.py"]) == []

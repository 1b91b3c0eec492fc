"""The width of prose and the files that pages name, and proof that each rule can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.prose import decision_faults, named_file_faults, width_faults
from tests.tidy.sources import ROOT, build, project_files

FITS = "word " * 19 + "words"
LONG = FITS + "s"


def test_prose_wraps_at_100_columns() -> None:
    assert width_faults(ROOT, project_files()) == []


def test_the_files_that_pages_name_are_there() -> None:
    assert named_file_faults(ROOT, project_files()) == []


def test_each_decision_has_a_number_of_its_own() -> None:
    assert decision_faults(ROOT / "docs" / "decisions") == []


def test_a_decision_with_the_number_of_another_is_found(tmp_path: Path) -> None:
    build(tmp_path, {"0001-a.md": "# 0001: a\n", "0001-b.md": "# 0001: b\n", "0002-c.md": "# 2. c\n", "README.md": ""})
    assert decision_faults(tmp_path) == [
        "0001-b.md: 0001-a.md has the number 0001 already",
        "0002-c.md: its title must begin with 0002:",
    ]


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


@pytest.mark.parametrize("name", ["desk.py", "src/absent.py", "src/absent/", "queue/topic.py", "docs/*.sql"])
def test_a_file_that_is_not_there_is_found(tmp_path: Path, name: str) -> None:
    assert _faults_of_page(tmp_path, f"| in a table | `{name}` |") == [f"docs/page.md:1: there is no {name}"]


@pytest.mark.parametrize(
    "text",
    [
        "`broker.py`, `src/queue/broker.py` and `queue/broker.py`",
        "`src/`, `queue/*` and `src/*/broker.py`",
        "`projects/p/topics/t` is no file, nor is `broker.Broker`",
        "```sh\ncat `absent.py`\n```",
    ],
)
def test_files_that_are_there_may_be_named_by_the_end_of_their_path(tmp_path: Path, text: str) -> None:
    assert _faults_of_page(tmp_path, text) == []


def _faults_of_page(root: Path, text: str) -> list[str]:
    files = {"src/queue/broker.py": "", "docs/page.md": text}
    build(root, files)
    return named_file_faults(root, [root / name for name in files])

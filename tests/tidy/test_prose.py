"""Rules for prose, and proof that each rule can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.prose import (
    decision_faults,
    docstring_faults,
    named_file_faults,
    refused_word_faults,
    width_faults,
)
from tests.tidy.sources import ROOT, build, project_files

FITS = "word " * 19 + "words"
LONG = FITS + "s"


STYLE = ROOT / "docs" / "style.md"  # quotes the words that it refuses


def test_source_and_pages_have_no_refused_words() -> None:
    suffixes = {".py", ".js", ".html", ".css", ".md", ".sql", ".toml"}
    files = [
        path for path in project_files() if path.suffix in suffixes and path != STYLE and "vendor" not in path.parts
    ]
    assert refused_word_faults(ROOT, files) == []


def test_docstrings_begin_with_a_verb_or_a_noun() -> None:
    files = [path for path in project_files() if path.suffix == ".py"]
    assert docstring_faults(ROOT, files) == []


@pytest.mark.parametrize(
    "text",
    [
        "# Refuses so many requests.\n",
        "Each so-manieth call fails.\n",
        "# An offset\n# that is\n# none.\n",
        '"""The server is started anew."""\n',
        "It is worth to look again.\n",
        "Whoever waits\n",
        "nobody waits\n",
        "for somebody else\n",
        "So\nmany messages\n",
        "x = 1  # so\n// many\n",
    ],
)
def test_a_refused_word_is_found(tmp_path: Path, text: str) -> None:
    build(tmp_path, {"page.py": f"first line\n{text}"})
    assert len(refused_word_faults(tmp_path, [tmp_path / "page.py"])) == 1


@pytest.mark.parametrize(
    "text", ['"""Waits\nanew."""\n', 'def f():\n    """A call that\n    nobody makes."""\n', "x = 1  # so many\n"]
)
def test_a_refused_word_in_the_prose_of_a_test_is_found(tmp_path: Path, text: str) -> None:
    build(tmp_path, {"tests/test_a.py": text})
    assert len(refused_word_faults(tmp_path, [tmp_path / "tests/test_a.py"])) == 1


def test_data_of_a_test_may_have_a_refused_word(tmp_path: Path) -> None:
    build(
        tmp_path, {"tests/test_a.py": 'def test_a():\n    """Ask."""\n    # by name\n    ask("nobody", """anew""")\n'}
    )
    assert refused_word_faults(tmp_path, [tmp_path / "tests/test_a.py"]) == []


@pytest.mark.parametrize("text", ["so many that it hurts", "anewton", "a somebodyish word", "there are many"])
def test_words_that_only_look_alike_are_not_refused(tmp_path: Path, text: str) -> None:
    build(tmp_path, {"page.py": text})
    assert refused_word_faults(tmp_path, [tmp_path / "page.py"]) == []


@pytest.mark.parametrize(
    "text",
    [
        '"""What a query says."""\n',
        'class A:\n    """Those who wait."""\n',
        'def f():\n    """Of every object."""\n',
        'async def f():\n    """\n    That which is.\n    """\n',
    ],
)
def test_a_docstring_that_begins_with_a_pronoun_is_found(tmp_path: Path, text: str) -> None:
    build(tmp_path, {"a.py": text})
    assert len(docstring_faults(tmp_path, [tmp_path / "a.py"])) == 1


def test_docstrings_with_a_verb_or_a_noun_pass(tmp_path: Path) -> None:
    text = '"""Whatever comes first."""\ndef f():\n    """Return the query. What it says is parsed."""\n'
    build(tmp_path, {"a.py": text})
    assert docstring_faults(tmp_path, [tmp_path / "a.py"]) == []


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

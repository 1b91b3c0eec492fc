"""The rule against machine paths and package registries in the project's files, and proof that it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.places import place_faults
from tests.tidy.sources import ROOT, build, project_files


def test_no_file_names_a_place() -> None:
    assert place_faults(ROOT, project_files()) == []


def test_the_files_are_found_with_and_without_git(tmp_path: Path) -> None:
    assert ROOT / "Makefile" in project_files()
    build(tmp_path, {"a.md": "", "docs/b.md": "", ".venv/c.py": "", "src/__pycache__/d.pyc": ""})
    assert project_files(tmp_path) == [tmp_path / "a.md", tmp_path / "docs/b.md"]


# Split into parts, because the rule also checks this file.
@pytest.mark.parametrize(
    "pieces",
    [
        ("see https://", "py", "pi.org/project/penstock"),
        ("https://files.python", "hosted.org/x.whl"),
        ("registry.npm", "js.org"),
        ("--index-url", " https://mirror.example/simple"),
        ("find-links", " = /mirror/wheels"),
        ("--extra-index-url", "=file:///mirror"),
        ("cd ", "/wo", "rk/main"),
        ("'/ro", "ot/.cache'"),
        ('open("/ho', 'me/me/x")'),
    ],
)
def test_a_place_is_found(tmp_path: Path, pieces: tuple[str, ...]) -> None:
    build(tmp_path, {"notes.md": "first line\n" + "".join(pieces) + "\n"})
    assert len(place_faults(tmp_path, [tmp_path / "notes.md"])) == 1


@pytest.mark.parametrize(
    "line",
    ["src/work/x", "GET /homepage", "/workers", "https://example.org/home", "--no-emit-index-url --no-emit-find-links"],
)
def test_what_only_looks_like_a_place_passes(tmp_path: Path, line: str) -> None:
    build(tmp_path, {"notes.md": line})
    assert place_faults(tmp_path, [tmp_path / "notes.md"]) == []

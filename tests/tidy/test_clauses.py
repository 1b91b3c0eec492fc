"""A test must cite every clause of a finished specification. This file also proves that the rule can fail."""

from __future__ import annotations

from pathlib import Path

from tests.tidy.clauses import CLAUSES, clause_faults, clauses_of
from tests.tidy.sources import ROOT, build

TESTS = [path for path in sorted((ROOT / "tests").rglob("test_*.py")) if "tidy" not in path.relative_to(ROOT).parts]


def test_every_clause_is_proved_by_a_test_that_names_it() -> None:
    faults = clause_faults(TESTS, CLAUSES)
    assert not faults, "\n".join([f"{len(faults)} faults; cite a clause in the docstring of its test", *faults])


def test_a_missing_clause_is_found(tmp_path: Path) -> None:
    text = '''
def test_one():
    """A message is delivered once (004 BR-001)."""
class TestTwo:
    async def test_two(self):
        """004 BR-002, AC-001 and AC-002: two things."""
def helper():
    """004 BR-003 is not proved by a function that is no test."""
def test_three():
    # 004 BR-003 is not proved by a comment
    assert "004 BR-003"
'''
    build(tmp_path, {"test_queue.py": text})
    clauses = {"004": ["BR-001", "BR-002", "BR-003", "AC-001", "AC-002"]}
    assert clause_faults(tmp_path.glob("*.py"), clauses) == ["no test proves 004 BR-003"]


def test_an_unknown_clause_is_found(tmp_path: Path) -> None:
    build(tmp_path, {"test_queue.py": 'def test_one():\n    """004 BR-001, BR-099; 002 BR-005 is not finished."""\n'})
    assert clause_faults(tmp_path.glob("*.py"), {"004": ["BR-001"]}) == [
        "test_queue.py::test_one cites 004 BR-099, which does not exist"
    ]


def test_a_citation_needs_its_specification() -> None:
    assert clauses_of("BR-001 of 004, and 004.") == []
    assert clauses_of("004 BR-001\nAC-002 x BR-003") == ["004 BR-001", "004 AC-002"]

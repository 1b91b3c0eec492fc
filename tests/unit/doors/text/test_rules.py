"""Every rule of docs/text-protocol.md is named by a test that proves it."""

from __future__ import annotations

import ast
import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[4]
RULE = re.compile(r"\bT-\d{3}\b")


def files_with_tests() -> list[Path]:
    folders = ("unit/doors/text", "unit/text", "doors/text", "simulation/text")
    found = [path for folder in folders for path in (ROOT / "tests" / folder).glob("test_*.py")]
    return found + list((ROOT / "tests" / "acceptance").glob("test_text_*.py"))


def cited(path: Path) -> set[str]:
    functions = (ast.FunctionDef, ast.AsyncFunctionDef)
    nodes = [node for node in ast.walk(ast.parse(path.read_text())) if isinstance(node, functions)]
    texts = [ast.get_docstring(node) or "" for node in nodes if node.name.startswith("test")]
    return {rule for text in texts for rule in RULE.findall(text)}


def test_every_rule_has_a_test_and_every_cited_rule_exists() -> None:
    document = (ROOT / "docs" / "text-protocol.md").read_text()
    rules = set(re.findall(r"^- \*\*(T-\d{3})\*\*", document, re.MULTILINE))
    assert len(rules) > 45
    proved = set().union(*(cited(path) for path in files_with_tests()))
    assert sorted(rules - proved) == []
    assert sorted(proved - rules) == []


def test_the_code_cites_only_rules_that_exist() -> None:
    document = (ROOT / "docs" / "text-protocol.md").read_text()
    rules = set(re.findall(r"^- \*\*(T-\d{3})\*\*", document, re.MULTILINE))
    places = [ROOT / "src/penstock/doors/text", ROOT / "src/penstock/text", ROOT / "src/penstock/wire"]
    sources = [path for place in places for path in place.glob("*.py")]
    assert {rule for path in sources for rule in RULE.findall(path.read_text())} <= rules

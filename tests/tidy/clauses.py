"""The clauses of each specification, and the tests that prove them.

A test names the clauses that it proves in its docstring, as `004 BR-010` or `004 BR-010, AC-009`. A clause of a
finished specification without a test is an error.
"""

from __future__ import annotations

import ast
import re
from collections.abc import Iterable
from pathlib import Path

from tests.tidy.sources import functions, parsed


def numbered(prefix: str, last: int) -> list[str]:
    return [f"{prefix}-{number:03}" for number in range(1, last + 1)]


# specification -> its clauses. Add a specification when its implementation is complete.
CLAUSES: dict[str, list[str]] = {
    "000": [*numbered("BR", 11), *numbered("AC", 14)],
    "001": [*numbered("BR", 10), *numbered("AC", 9)],
    "003": [f"AC{number}" for number in range(1, 8)],
    "004": [*numbered("BR", 22), *numbered("AC", 13)],
}

CLAUSE = r"(?:(?:BR|AC)-\d{3}|AC\d)\b"
CITATION = re.compile(rf"\b(0\d\d)((?:(?:[\s,]|\band\b)+{CLAUSE})+)")


def citations(paths: Iterable[Path]) -> dict[str, list[str]]:
    """Return the tests that cite each clause, such as `004 BR-010`."""
    found: dict[str, list[str]] = {}
    for path in paths:
        for node in functions(parsed(path.read_text(encoding="utf-8"))):
            if node.name.startswith("test"):
                for clause in clauses_of(ast.get_docstring(node) or ""):
                    found.setdefault(clause, []).append(f"{path.name}::{node.name}")
    return found


def clauses_of(docstring: str) -> list[str]:
    return [f"{match[1]} {clause}" for match in CITATION.finditer(docstring) for clause in re.findall(CLAUSE, match[2])]


def clause_faults(paths: Iterable[Path], clauses: dict[str, list[str]]) -> list[str]:
    """Report clauses without a test, and citations of clauses that do not exist."""
    wanted = {f"{specification} {clause}" for specification, names in clauses.items() for clause in names}
    found = citations(paths)
    unknown = {clause for clause in found if clause.split()[0] in clauses} - wanted
    return [f"no test proves {clause}" for clause in sorted(wanted - found.keys())] + [
        f"{found[clause][0]} cites {clause}, which does not exist" for clause in sorted(unknown)
    ]

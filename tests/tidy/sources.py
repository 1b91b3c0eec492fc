"""The project's files as text and as syntax trees, for the rules in this folder.

Nothing is imported or executed. A rule takes a tree of files, so a test can give it a small tree that breaks it.
"""

from __future__ import annotations

import ast
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PACKAGE = ROOT / "src" / "penstock"
DATA_SOURCE = ROOT / "src" / "pyspark_penstock"  # a separate package, because Spark finds it by its name


@dataclass(frozen=True)
class Module:
    """One Python file of a package."""

    path: Path
    place: tuple[str, ...]  # its dotted name below the package, as parts; () is the package's own __init__
    text: str
    package: str = "penstock"

    @property
    def tree(self) -> ast.Module:
        return parsed(self.text)

    @property
    def is_package(self) -> bool:
        return self.path.name == "__init__.py"

    @property
    def label(self) -> str:
        return ".".join((self.package, *self.place))


@cache
def parsed(text: str) -> ast.Module:
    """Return the syntax tree. It is cached, because each rule looks at all files and parsing takes most of the time."""
    return ast.parse(text)


def modules(package: Path = PACKAGE) -> list[Module]:
    """Return every module of the package, in the order of their paths."""
    return [read_module(package, path) for path in sorted(package.rglob("*.py"))]


def everywhere() -> list[Module]:
    """Return the modules of both packages."""
    return modules(PACKAGE) + modules(DATA_SOURCE)


def read_module(package: Path, path: Path) -> Module:
    parts = path.relative_to(package).with_suffix("").parts
    place = parts[:-1] if parts[-1] == "__init__" else parts
    name = DATA_SOURCE.name if package.name == DATA_SOURCE.name else PACKAGE.name
    return Module(path, place, path.read_text(encoding="utf-8"), name)


def functions(tree: ast.AST) -> Iterator[ast.FunctionDef | ast.AsyncFunctionDef]:
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            yield node


def dotted(node: ast.AST) -> str:
    """Return `a.b.c` for a chain of names, and "" for anything else."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute):
        base = dotted(node.value)
        return f"{base}.{node.attr}" if base else ""
    return ""


def project_files(root: Path = ROOT) -> list[Path]:
    """Return tracked files and new ones that are not ignored. Without git, return all files that are not generated."""
    git = ["git", "-c", "safe.directory=*", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    try:
        listing = subprocess.run(git, cwd=root, capture_output=True, check=True).stdout.decode()
    except (OSError, subprocess.CalledProcessError):
        return [path for path in sorted(root.rglob("*")) if path.is_file() and not _generated(path.relative_to(root))]
    return [path for path in sorted(root / name for name in listing.split("\0") if name) if path.is_file()]


def _generated(path: Path) -> bool:
    return any(part.startswith(".") or part in {"__pycache__", "penstock-data", "dist"} for part in path.parts)


def build(package: Path, files: dict[str, str]) -> Path:
    """Write a small package that breaks a rule."""
    for name, text in files.items():
        path = package / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
    return package

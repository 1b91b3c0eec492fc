"""Rules for prose: words that docs/style.md refuses, the width of pages, the files they name, numbers of decisions."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterable, Sequence
from fnmatch import fnmatch
from pathlib import Path

from tests.tidy.sources import parsed

DOCUMENTED = (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)
PROSE_COLUMNS_MAX = 100
NAMED_FILE = re.compile(r"`([a-z0-9_./*-]+\.(?:py|sql|sh|md)|[a-z_]+/[a-z0-9_./*-]*)`")
LIST_MARKER = re.compile(r"([-*+]|\d+[.)]) ")


def width_faults(root: Path, files: Iterable[Path]) -> list[str]:
    return [
        f"{path.relative_to(root)}:{number}: {len(line)} columns, at most {PROSE_COLUMNS_MAX}"
        for path in files
        if path.suffix == ".md"
        for number, line in prose(path.read_text(encoding="utf-8"))
        if len(line) > PROSE_COLUMNS_MAX and not _is_one_word(line)
    ]


def prose(text: str, *, tables: bool = False) -> Iterable[tuple[int, str]]:
    """Return the numbered lines of a page outside of code blocks, and those of tables only if `tables` is set."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        opening = re.match(r"(```+|~~~+)", line.lstrip())
        if fence:
            fence = "" if line.strip() == fence else fence
        elif opening:
            fence = opening.group()
        elif tables or not line.lstrip().startswith("|"):
            yield number, line


def _is_one_word(line: str) -> bool:
    """Return whether the line is one word. A long address cannot be broken, so it may have a line of its own."""
    return len(LIST_MARKER.sub("", line.strip(), count=1).split()) == 1


def named_file_faults(root: Path, files: Sequence[Path]) -> list[str]:
    """Report files and folders that a page names in code, by the end of their path, and that do not exist."""
    known = {f"/{path.relative_to(root)}" for path in files}
    known |= {str(folder) for path in known for folder in Path(path).parents}
    folders = {Path(path).name for path in known}
    return [
        f"{page.relative_to(root)}:{number}: there is no {name}"
        for page in files
        if page.suffix == ".md"
        for number, line in prose(page.read_text(encoding="utf-8"), tables=True)
        for name in NAMED_FILE.findall(line)
        if "/" not in name or name.split("/")[0] in folders  # a name of a topic has a slash, too
        if not any(fnmatch(path, f"*/{name.rstrip('/')}") for path in known)
    ]


def decision_faults(folder: Path) -> list[str]:
    """Report decisions whose number is not unique, or differs between file name and title."""
    numbers: dict[str, str] = {}
    faults = []
    for page in sorted(folder.glob("[0-9]*.md")):
        number = page.name[:4]
        if number in numbers:
            faults.append(f"{page.name}: {numbers[number]} has the number {number} already")
        numbers[number] = page.name
        if not page.read_text(encoding="utf-8").startswith(f"# {number}: "):
            faults.append(f"{page.name}: its title must begin with {number}:")
    return faults


REFUSED_WORDS = re.compile(
    r"\b(?:[Ss]o many(?! that)|[Ss]o-man\w+|that is none|[Aa]new|worth to|[Ww]hoever|[Nn]obody|[Ss]omebody)\b"
)
REFUSED_BEGINNING = re.compile(r"(?:What|Who|Which|Those|Of|That)\b")


def refused_word_faults(root: Path, files: Iterable[Path]) -> list[str]:
    """Report words that docs/style.md refuses, also where a line break divides them. Data of tests may have them."""
    faults = []
    for path in files:
        name, text = path.relative_to(root), path.read_text(encoding="utf-8")
        if name.parts[0] == "tests" and name.suffix == ".py":
            text = comments_and_docstrings(text)
        text = re.sub(r"[ ]*\n[ ]*(?:#[ ]|//[ ]|\*[ ])?", "\n", text)
        for match in REFUSED_WORDS.finditer(text.replace("\n", " ")):
            number = text.count("\n", 0, match.start()) + 1
            faults.append(f"{name}:{number}: {match.group()!r} is refused by docs/style.md")
    return faults


def comments_and_docstrings(text: str) -> str:
    """Return the comments and docstrings of a Python file at their lines, and blank lines for the code."""
    lines = text.split("\n")
    kept = [""] * len(lines)
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        if token.type == tokenize.COMMENT:
            kept[token.start[0] - 1] = token.string
    for node in ast.walk(parsed(text)):
        if isinstance(node, DOCUMENTED) and ast.get_docstring(node) is not None:
            docstring = slice(node.body[0].lineno - 1, node.body[0].end_lineno)
            kept[docstring] = lines[docstring]
    return "\n".join(kept)


def docstring_faults(root: Path, files: Iterable[Path]) -> list[str]:
    """Report docstrings that begin with a relative pronoun instead of a verb or a noun."""
    return [
        f"{path.relative_to(root)}:{getattr(node, 'lineno', 1)}: a docstring begins with {match.group()!r}"
        for path in files
        for node in ast.walk(parsed(path.read_text(encoding="utf-8")))
        if isinstance(node, DOCUMENTED)
        if (match := REFUSED_BEGINNING.match(ast.get_docstring(node) or ""))
    ]

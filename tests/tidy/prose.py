"""How wide the lines of prose in the pages are; tables, code blocks and a word of its own length excepted."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

PROSE_COLUMNS_MAX = 100
LIST_MARKER = re.compile(r"([-*+]|\d+[.)]) ")


def width_faults(root: Path, files: Iterable[Path]) -> list[str]:
    return [
        f"{path.relative_to(root)}:{number}: {len(line)} columns, at most {PROSE_COLUMNS_MAX}"
        for path in files
        if path.suffix == ".md"
        for number, line in prose(path.read_text(encoding="utf-8"))
        if len(line) > PROSE_COLUMNS_MAX and not _is_one_word(line)
    ]


def prose(text: str) -> Iterable[tuple[int, str]]:
    """The numbered lines of a page that are neither in a code block nor in a table."""
    fence = ""
    for number, line in enumerate(text.splitlines(), 1):
        opening = re.match(r"(```+|~~~+)", line.lstrip())
        if fence:
            fence = "" if line.strip() == fence else fence
        elif opening:
            fence = opening.group()
        elif not line.lstrip().startswith("|"):
            yield number, line


def _is_one_word(line: str) -> bool:
    """A long address cannot be broken, so it may stand on a line of its own."""
    return len(LIST_MARKER.sub("", line.strip(), count=1).split()) == 1

"""SQL statements in files, each after a `-- name --` line."""

from __future__ import annotations

import re
from importlib.resources import files

_HEADING = re.compile(r"^-- (\w+) --$", re.MULTILINE)


def load(package: str, name: str) -> dict[str, str]:
    """Return the statements of a file by their names."""
    return parse(files(package).joinpath(name).read_text(encoding="utf-8"))


def parse(text: str) -> dict[str, str]:
    _, *parts = _HEADING.split(text)
    return {name: _strip_comments(body) for name, body in zip(parts[::2], parts[1::2], strict=True)}


def _strip_comments(body: str) -> str:
    """Remove comment lines, which would burden the engine's statement cache."""
    return "\n".join(line for line in body.strip().splitlines() if not line.startswith("--"))

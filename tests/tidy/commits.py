"""Subjects of commits: `area: what changed`, short and imperative."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterable
from pathlib import Path

START = "b8ea8f70422b6bc9d9e47f043906560c48d937bc"  # the last commit before the rule
SUBJECT_MAX = 72

_AREA = re.compile(r"[a-z0-9][\w ,./-]*: (?P<change>\S.*)")
_NOT_IMPERATIVE = re.compile(
    r"(?:an?|the|this|these|it)\b|(?:add|allow|change|fix|make|move|remove|rename|rewrite|use)(?:d|ed|s|es|ing)\b",
    re.IGNORECASE,
)


def subjects(root: Path, start: str = START) -> list[str] | None:
    """Return the subjects after a commit, or None if this is not a git checkout with that commit."""
    log = ["git", "-C", str(root), "log", "--no-merges", "--format=%s", f"{start}..HEAD"]
    try:
        done = subprocess.run(log, check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError):
        return None
    return done.stdout.splitlines()


def subject_faults(lines: Iterable[str]) -> list[str]:
    faults = []
    for line in lines:
        match = _AREA.fullmatch(line)
        if len(line) > SUBJECT_MAX:
            faults.append(f"{line!r} has {len(line)} characters, at most {SUBJECT_MAX} are allowed")
        if match is None:
            faults.append(f"{line!r} does not begin with an area and a colon")
        elif _NOT_IMPERATIVE.match(match["change"]):
            faults.append(f"{line!r} is not imperative")
        if ";" in line or line.endswith("."):
            faults.append(f"{line!r} has a semicolon or ends with a period")
    return faults

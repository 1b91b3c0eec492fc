"""A rule against paths of one machine and addresses of package registries in the project's files.

The patterns are joined from parts, so that these files obey the rule too.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path

REGISTRIES = [
    r"\.".join(parts)
    for parts in [
        ("py" + "pi", "org"),
        ("python" + "hosted", "org"),
        ("npm" + "js", "(?:org|com)"),
        ("deb", "debian", "org"),
        ("repo1?", "maven", "(?:org|apache)"),
    ]
]
FOLDERS = ["work", "root", "home", "Users"]

PLACES = {
    "package registry": re.compile("|".join(rf"(?<![a-z]){host}" for host in REGISTRIES), re.IGNORECASE),
    "package source": re.compile(r"(?:index-url|find-links|trusted-host)[\s=]+(?:\w+:)?/+\w", re.IGNORECASE),
    "machine path": re.compile(rf"(?<![\w.)}}\]~$*-])/(?:{'|'.join(FOLDERS)})(?![\w-])"),
}


def place_faults(root: Path, files: Iterable[Path]) -> list[str]:
    return [
        f"{path.relative_to(root)}:{number}: {what} {match.group()!r}"
        for path in files
        for number, line in enumerate(_lines(path), 1)
        for what, pattern in PLACES.items()
        for match in [pattern.search(line)]
        if match
    ]


def _lines(path: Path) -> list[str]:
    data = path.read_bytes()
    return [] if b"\0" in data else data.decode("utf-8", "replace").splitlines()

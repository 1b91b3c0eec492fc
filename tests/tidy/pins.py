"""Rules for a lock file: every package has one version and its hashes, and no line says where packages came from.

A lock is read line by line, as pip reads it. A line that cannot be parsed is a fault.
"""

from __future__ import annotations

import re

PIN = re.compile(r"(?P<name>[a-z0-9][a-z0-9._-]*)==(?P<version>[^\s;]+)(?: ; [^\\]+)?(?P<more> \\)?")
HASH = re.compile(r"    --hash=sha256:[0-9a-f]{64}(?: \\)?")
COMMENT = re.compile(r"\s*#(?!.*(?://|\s/)).*")


def pins(text: str) -> dict[str, str]:
    """Return the version of each package."""
    return {match["name"]: match["version"] for match in map(PIN.fullmatch, text.splitlines()) if match}


def lock_faults(text: str) -> list[str]:
    faults = []
    wants_hash = ""
    for number, line in enumerate(text.splitlines(), 1):
        if wants_hash and not HASH.fullmatch(line):
            faults.append(f"{number}: {wants_hash} has no hash")
        wants_hash = ""
        if match := PIN.fullmatch(line):
            wants_hash = match["name"]
        elif line.strip() and not HASH.fullmatch(line) and not COMMENT.fullmatch(line):
            faults.append(f"{number}: not a pin, a hash or a plain comment: {line.strip()}")
    return faults + ([f"{wants_hash} has no hash"] if wants_hash else [])

"""A row of docs/compatibility.md: the behaviour of the cloud, its emulator and Penstock, and the tests that show it.

Rows are written beside the tests and name them, so a claim cannot outlive its test.
"""

from __future__ import annotations

from typing import NamedTuple

YES = "yes"
SAME = "same"  # same as the cloud
NOT_KNOWN = "not known"
NEVER = "never sent"  # the door has no such code, as its table of codes proves
NOT_PROVED = "not proved"


class Row(NamedTuple):
    subject: str  # a method, an operation, an error, or the subject of a rule
    case: str
    cloud: str
    emulator: str
    ours: str
    tests: tuple[str, ...] = ()  # tests/<this>


def shown(file: str, *names: str) -> tuple[str, ...]:
    """Return the tests with these names in one file below tests/."""
    return tuple(f"{file}::{name}" for name in names)

"""A row of docs/compatibility.md: what the cloud does, what its emulator does, what we do, and which test shows it.

Rows are written beside the tests and name them, so that a test which goes takes its claim with it.
"""

from __future__ import annotations

from typing import NamedTuple

YES = "yes"
SAME = "same"  # as the cloud
NOT_KNOWN = "not known"
NEVER = "never sent"  # the door has no such code: its table is the proof
NOT_PROVED = "not proved"


class Row(NamedTuple):
    subject: str  # a method, an operation, an error, or what a rule is about
    case: str
    cloud: str
    emulator: str
    ours: str
    tests: tuple[str, ...] = ()  # tests/<this>


def shown(file: str, *names: str) -> tuple[str, ...]:
    """The tests of these names in one file below tests/."""
    return tuple(f"{file}::{name}" for name in names)

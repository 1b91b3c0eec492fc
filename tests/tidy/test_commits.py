"""The rule for subjects of new commits, and proof that it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.commits import START, subject_faults, subjects
from tests.tidy.sources import ROOT


def test_subjects_of_commits_follow_the_rule() -> None:
    lines = subjects(ROOT)
    if lines is None:
        pytest.skip(f"there is no git history from {START} on")
    assert subject_faults(lines) == []


@pytest.mark.parametrize(
    "subject",
    [
        "console: show a read-only badge on every page",
        "spark, flight: refuse a repeated request that has other rows",
        "http2: close idle connections",
        f"docs: {'x' * 66}",
    ],
)
def test_a_good_subject_has_no_fault(subject: str) -> None:
    assert subject_faults([subject]) == []


@pytest.mark.parametrize(
    ("subject", "fault"),
    [
        (f"docs: {'x' * 67}", "has 73 characters"),
        ("show a read-only badge", "does not begin with an area"),
        ("Console: show a badge", "does not begin with an area"),
        ("console:show a badge", "does not begin with an area"),
        ("console: show a badge; hide it again", "has a semicolon"),
        ("console: show a badge.", "ends with a period"),
        ("console: the badge is shown", "is not imperative"),
        ("console: added a badge", "is not imperative"),
        ("console: fixes the badge", "is not imperative"),
    ],
)
def test_a_planted_subject_is_a_fault(subject: str, fault: str) -> None:
    (found,) = subject_faults([subject])
    assert fault in found


def test_a_folder_without_history_has_no_subjects(tmp_path: Path) -> None:
    assert subjects(tmp_path) is None
    assert subjects(ROOT, "0" * 40) is None

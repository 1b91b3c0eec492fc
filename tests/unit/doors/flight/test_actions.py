"""Patterns of topic names."""

from __future__ import annotations

import pytest

from penstock.doors.flight.actions import match_whole
from penstock.errors import InvalidArgumentError


def test_a_pattern_matches_whole_names() -> None:
    assert match_whole("a|bc", ["a", "bc", "abc", "a\n", ""]) == [True, True, False, False, False]
    assert match_whole("(a+)+b", ["a" * 10_000]) == [False]


@pytest.mark.parametrize("pattern", ["(", "a)|(?:b", "(?!a).*", r"(a)\1", "a" * 1001])
def test_patterns_that_are_refused(pattern: str) -> None:
    with pytest.raises(
        InvalidArgumentError, match=r"^(The pattern is not a regular expression of RE2: |A pattern may)"
    ):
        match_whole(pattern, [])

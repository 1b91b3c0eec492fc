"""The console beside a server at full speed (benchmarks/console.py): publishing keeps its rate, the page its heap."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.console import measure

ATTEMPTS = 3  # a machine that does other things may spoil one


@pytest.mark.nightly
def test_publishing_keeps_its_rate_and_the_page_its_heap(rounds: Callable[[int, int], int]) -> None:
    looks = rounds(3, 12)
    found = []
    for _ in range(ATTEMPTS):
        figures = measure(rounds(3, 8), 5, looks, 10)
        found.append((round(figures.ratio, 3), round(figures.growth, 3)))
        if figures.ratio >= 0.97 and figures.growth < 1.1:
            break
    assert max(ratio for ratio, _ in found) >= 0.97, found
    assert min(growth for _, growth in found) < 1.1, found

"""The heap of a page beside a server at full speed (benchmarks/console.py) stays constant."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from benchmarks.console import measure


@pytest.mark.nightly
def test_the_heap_of_an_open_page_does_not_grow(rounds: Callable[[int, int], int]) -> None:
    figures = measure(1, 5, rounds(3, 12), 10)
    print(f"publish rate with the page open {figures.ratio:.3f}x")
    assert figures.growth < 1.1, figures.heaps

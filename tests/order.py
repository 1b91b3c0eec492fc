"""The order of a test run: shuffled by a seed, with long tests early."""

from __future__ import annotations

import random
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import pytest

TESTS = Path(__file__).parent
LONG = ("simulation", "acceptance")  # folders


def shuffle(items: Sequence[pytest.Item], seed: int) -> list[pytest.Item]:
    """Return the tests with files in random order, and in each file the tests in random order.

    The tests of a file stay together, because they share fixtures that are expensive to set up.
    """
    chance = random.Random(seed)
    files = [list(tests) for _, tests in groupby(items, key=lambda item: item.path)]
    chance.shuffle(files)
    for tests in files:
        chance.shuffle(tests)
    return [item for tests in files for item in tests]


def long_first(items: Sequence[pytest.Item]) -> list[pytest.Item]:
    """Return the tests in an order in which two workers end at about the same time.

    Each worker gets half of the list, and the first to finish takes tests from the end of the other's half. So each
    half begins with long tests, one with those of Spark and one with simulations, and ends with short ones.
    """
    spark, long, short = list[pytest.Item](), list[pytest.Item](), list[pytest.Item]()
    for item in items:
        folder = item.path.relative_to(TESTS).parts[0]
        (spark if folder == "spark" else long if folder in LONG else short).append(item)
    between = max(len(items) // 2 - len(long), 0)
    return [*long, *short[:between], *spark, *short[between:]]

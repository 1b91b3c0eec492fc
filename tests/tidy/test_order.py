"""The order of a test run: shuffled and repeatable, with the tests of a file together."""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from tests.order import TESTS, long_first, shuffle

FILES = [TESTS / folder / f"test_{number}.py" for folder in ("spark", "simulation", "unit") for number in range(5)]
ITEMS: list[Any] = [SimpleNamespace(path=path, name=f"test_{number}") for path in FILES for number in range(5)]


def names(items: list[Any]) -> list[tuple[Path, str]]:
    return [(item.path, item.name) for item in items]


def test_a_seed_has_one_order_and_another_seed_another() -> None:
    assert names(shuffle(ITEMS, 7)) == names(shuffle(ITEMS, 7)) != names(shuffle(ITEMS, 8))
    assert Counter(names(shuffle(ITEMS, 7))) == Counter(names(ITEMS))


def test_the_tests_of_a_file_stay_together_in_random_order() -> None:
    files = [list(tests) for _, tests in groupby(shuffle(ITEMS, 7), key=lambda item: item.path)]
    assert len(files) == len(FILES)
    assert [tests[0].path for tests in files] != FILES
    assert any([item.name for item in tests] != sorted(item.name for item in tests) for tests in files)


def test_long_tests_begin_each_half() -> None:
    order = long_first(ITEMS)
    assert Counter(names(order)) == Counter(names(ITEMS))
    assert order[0].path.parent.name == "simulation"
    assert order[len(order) // 2].path.parent.name == "spark"

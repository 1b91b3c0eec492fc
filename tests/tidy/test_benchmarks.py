"""A check that the imports of every benchmark exist. Benchmarks are run by hand, so a moved name would go unnoticed."""

from __future__ import annotations

from importlib import import_module

import pytest

from benchmarks.__main__ import BENCHMARKS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_finds_all_that_it_imports(name: str) -> None:
    assert callable(import_module(f"benchmarks.{name}").main)

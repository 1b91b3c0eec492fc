"""Every benchmark can still be started: they are run by hand, so a name that has moved would go unseen."""

from __future__ import annotations

from importlib import import_module

import pytest

from benchmarks.__main__ import BENCHMARKS


@pytest.mark.parametrize("name", BENCHMARKS)
def test_a_benchmark_finds_all_that_it_imports(name: str) -> None:
    assert callable(import_module(f"benchmarks.{name}").main)

"""Fixtures for tests of the Azure API: a server in memory."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doors.azure.harness import Harness, opened


@pytest.fixture
def azure() -> Iterator[Harness]:
    with opened() as harness:
        yield harness


@pytest.fixture
def orders(azure: Harness) -> Harness:
    """Return a server with one queue, `orders`."""
    azure.create("orders")
    return azure

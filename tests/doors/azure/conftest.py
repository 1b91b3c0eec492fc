"""The Azure door, opened for a test."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doors.azure.scene import Scene, opened


@pytest.fixture
def azure() -> Iterator[Scene]:
    with opened() as scene:
        yield scene


@pytest.fixture
def orders(azure: Scene) -> Scene:
    """With one queue, `orders`."""
    azure.create("orders")
    return azure

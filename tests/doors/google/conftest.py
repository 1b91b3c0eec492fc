"""One door for all tests of a module: they use names of their own."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doors.google.world import Client, World, opened


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    with opened() as world:
        yield world


@pytest.fixture(scope="module")
def client(world: World) -> Iterator[Client]:
    with world.connect() as client:
        yield client

"""Fixtures: one door for all tests of a module, which use different names of resources."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.doors.google.harness import Client, Harness, opened


@pytest.fixture(scope="module")
def harness() -> Iterator[Harness]:
    with opened() as harness:
        yield harness


@pytest.fixture(scope="module")
def client(harness: Harness) -> Iterator[Client]:
    with harness.connect() as client:
        yield client

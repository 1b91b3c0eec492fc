"""The harnesses of the queue's suite: every journal, and a clean stop or a crash for tests of durability."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import MessageQueue
from tests.conformance.queue.harness import JOURNALS, Harness


@pytest.fixture(params=JOURNALS)
def harness(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Harness]:
    harness = Harness(request.param, tmp_path)
    yield harness
    harness.close()


@pytest.fixture
def queue(harness: Harness) -> MessageQueue:
    return harness.queue


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[Harness]:
    """Yield a harness that can be reopened."""
    harness = Harness("sqlite", tmp_path)
    yield harness
    harness.close()


@pytest.fixture(params=["closed", "crashed"])
def crash(request: pytest.FixtureRequest) -> bool:
    """Return whether the queue crashes before it is reopened."""
    return bool(request.param == "crashed")

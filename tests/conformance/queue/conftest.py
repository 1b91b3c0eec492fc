"""The worlds the queue's suite runs in: every journal, and for what must survive, every way to end."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from penstock import MessageQueue
from tests.conformance.queue.world import JOURNALS, World


@pytest.fixture(params=JOURNALS)
def world(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[World]:
    world = World(request.param, tmp_path)
    yield world
    world.close()


@pytest.fixture
def queue(world: World) -> MessageQueue:
    return world.queue


@pytest.fixture
def durable(tmp_path: Path) -> Iterator[World]:
    """A world that can be reopened."""
    world = World("sqlite", tmp_path)
    yield world
    world.close()


@pytest.fixture(params=["closed", "crashed"])
def crash(request: pytest.FixtureRequest) -> bool:
    """Whether the queue ends without a word before it is opened again."""
    return bool(request.param == "crashed")

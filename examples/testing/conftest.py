"""Fixtures for the two programs under test, and a random order of tests."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from penstock.testing import Project

if TYPE_CHECKING:
    from billing import Listener, Shop


@pytest.fixture
def shop(penstock_project: Project) -> Shop:
    """A shop whose clock is frozen until a test moves it."""
    from billing import Shop  # imported here, because the main process of pytest-xdist needs no client

    penstock_project.clock.freeze()
    return Shop(penstock_project.google_publisher(), penstock_project.google_subscriber(), penstock_project.name)


@pytest.fixture
def listener(shop: Shop) -> Iterator[Listener]:
    """A listener that is not started."""
    from billing import Listener

    listener = Listener(shop)
    yield listener
    listener.stop()


@pytest.fixture
def queues(azure_queue_service: Any, penstock_project: Project) -> Any:
    penstock_project.clock.freeze()
    return azure_queue_service


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="of the order of the tests")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.seed is None:
        config.option.seed = getattr(config, "workerinput", {}).get("seed", random.SystemRandom().randrange(1_000_000))


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give all workers of pytest-xdist the same order."""
    node.workerinput["seed"] = node.config.option.seed


def pytest_report_header(config: pytest.Config) -> str:
    return f"order of the tests: --seed {config.option.seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    random.Random(config.option.seed).shuffle(items)

"""Fixtures for the two programs under test, and a random order."""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Any

import billing
import pytest

from penstock.testing import Project


@pytest.fixture
def shop(penstock_project: Project) -> billing.Shop:
    return billing.Shop(
        penstock_project.google_publisher(), penstock_project.google_subscriber(), penstock_project.name
    )


@pytest.fixture
def listener(shop: billing.Shop) -> Iterator[billing.Listener]:
    """One that does nothing until `start` is called."""
    listener = billing.Listener(shop)
    yield listener
    listener.stop()


@pytest.fixture
def queues(azure_queue_service: Any) -> Any:
    return azure_queue_service


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="of the order of the tests")


def pytest_configure(config: pytest.Config) -> None:
    if config.option.seed is None:
        config.option.seed = random.SystemRandom().randrange(1_000_000)  # the workers are told


def pytest_report_header(config: pytest.Config) -> str:
    return f"order of the tests: --seed {config.option.seed}"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    random.Random(config.option.seed).shuffle(items)

"""One server with a data folder and one without for all tests of a module. The tests use different topics."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.doors.flight.flight_server import Client, FlightServer, talking


@pytest.fixture(scope="module")
def disk(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightServer]:
    folder = tmp_path_factory.mktemp("disk")
    with FlightServer(folder, "--data", str(folder / "data")) as server:
        yield server


@pytest.fixture(scope="module")
def memory(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FlightServer]:
    with FlightServer(tmp_path_factory.mktemp("memory"), "--memory") as server:
        yield server


@pytest.fixture(scope="module")
def client(disk: FlightServer) -> Iterator[Client]:
    with talking(disk) as client:
        yield client


@pytest.fixture(scope="module", params=["disk", "memory"])
def either(request: pytest.FixtureRequest) -> Iterator[Client]:
    """Return a client of each kind of server in turn."""
    server: FlightServer = request.getfixturevalue(request.param)
    with talking(server) as client:
        yield client


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path

"""A project for tests of faults: each file has its own on the server that all of them share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.testing import Server
from penstock.testing.faults import Faults
from tests.acceptance.fault_project import FaultProject


@pytest.fixture(scope="module")
def project(penstock: Server) -> Iterator[FaultProject]:
    with FaultProject(penstock) as project:
        yield project


@pytest.fixture
def faults(project: FaultProject) -> Iterator[Faults]:
    yield project.faults
    project.faults.clear()

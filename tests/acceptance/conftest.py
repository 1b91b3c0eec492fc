"""A project for tests of faults. Each file has its own project on a shared server."""

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

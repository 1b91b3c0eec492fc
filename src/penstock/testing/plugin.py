"""The pytest plugin: a server for the session, and for each test a project of its own, with clients and a clock.

Everything is a fixture that a test asks for: a suite that asks for none pays for this module and nothing else, and no
environment variable is set unless `penstock_environment` is asked for.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.testing.clock import ProjectClock
    from penstock.testing.faults import Faults
    from penstock.testing.project import Project
    from penstock.testing.servers import Server
    from penstock.text import Client as TextClient

MARKER = "penstock(seed=None): what the project of a test has in it from the beginning, as a seed file"


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(scope="session")
def penstock(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Iterator[Server]:
    """A server in memory on free ports; the workers of pytest-xdist share one."""
    from penstock.testing.servers import Server, server

    if not hasattr(request.config, "workerinput"):
        with server() as started:
            yield started
        return
    shared = Server(_share(tmp_path_factory.getbasetemp().parent))
    yield shared
    shared.close()


def _share(folder: Path) -> dict[str, Any]:
    """The server of all workers: whoever comes first starts it, and it ends after the process that started them."""
    from penstock.testing.servers import start

    with _locked(folder / "penstock.lock"):
        for known in folder.glob("penstock-*/ready.json"):
            ready: dict[str, Any] = json.loads(known.read_bytes())
            return ready
        own = folder / f"penstock-{os.getpid()}"
        own.mkdir()
        process, ready = start(own, os.getppid(), {})
        process.returncode = 0  # nobody waits for it here, and Python is not to warn of that
        return ready


@contextmanager
def _locked(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def penstock_project(penstock: Server, request: pytest.FixtureRequest) -> Iterator[Project]:
    """A project that nobody else uses; it is removed after the test."""
    project = penstock.project()
    marker = request.node.get_closest_marker("penstock")
    try:
        if marker is not None and marker.kwargs.get("seed"):
            project.seed(request.path.parent / marker.kwargs["seed"])
        yield project
    finally:
        project.end()


@pytest.fixture
def penstock_clock(penstock_project: Project) -> ProjectClock:
    """The time of the test's project, and of no other."""
    return penstock_project.clock


@pytest.fixture
def penstock_faults(penstock_project: Project) -> Faults:
    """Faults on purpose, in the test's project alone; they end with the test."""
    return penstock_project.faults


@pytest.fixture
def penstock_environment(penstock_project: Project, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The variables that clients read, set for the time of the test."""
    for name, value in penstock_project.environment.items():
        monkeypatch.setenv(name, value)
    return penstock_project.environment


@pytest.fixture
def google_publisher(penstock_project: Project) -> Any:
    return penstock_project.google_publisher()


@pytest.fixture
def google_subscriber(penstock_project: Project) -> Any:
    return penstock_project.google_subscriber()


@pytest.fixture
def azure_queue_service(penstock_project: Project) -> Any:
    return penstock_project.azure_queue_service()


@pytest.fixture
def penstock_text(penstock_project: Project) -> TextClient:
    """A client of the text protocol; queues are named by `penstock_project.text_queue`."""
    return penstock_project.text_client()


@pytest.hookimpl(hookwrapper=True)
def pytest_runtest_makereport(item: pytest.Item, call: pytest.CallInfo[None]) -> Generator[None, Any, None]:
    """A test that fails shows what happened to the messages of its project."""
    outcome = yield
    project = getattr(item, "funcargs", {}).get("penstock_project")
    if project is None or call.when != "call" or call.excinfo is None:
        return
    report = outcome.get_result()
    if report.failed:
        report.sections.append(("messages of its project", _story(project)))


def _story(project: Project) -> str:
    from penstock.errors import PenstockError

    try:
        return project.story()
    except PenstockError as error:
        return f"They cannot be shown: {error.message}"

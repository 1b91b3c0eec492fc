"""The pytest plugin: a server for the session, and a project with clients and a clock for each test.

Everything is a fixture. A suite that uses none only imports this module. Only `penstock_environment` sets environment
variables.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterator
from contextlib import ExitStack, closing, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from penstock.testing.clock import ProjectClock
    from penstock.testing.faults import Faults
    from penstock.testing.project import Project
    from penstock.testing.servers import Server
    from penstock.text import Client as TextClient

MARKER = "penstock(seed=FILE): create the topics, queues and messages of a seed file in the project of the test"
STORIES_MAX = 5  # maximum projects whose stories a failing test shows
SERVER = pytest.StashKey["Server"]()  # the server of the session
PROJECT = pytest.StashKey["Project"]()  # the project of a test, until its last fixture ends
OTHERS = pytest.StashKey["set[Project]"]()  # projects that existed before the test
STORY = pytest.StashKey[str]()  # the story of a test whose fixtures failed at its end


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(scope="session")
def penstock(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Server:
    """A server in memory on free ports. The workers of pytest-xdist share one server."""
    from penstock.testing.servers import Server, server

    running = ExitStack()
    if hasattr(request.config, "workerinput"):
        started = running.enter_context(closing(Server(_share(tmp_path_factory.getbasetemp().parent))))
    else:
        started = running.enter_context(server())
    request.config.add_cleanup(running.close)  # after the last fixture, so that its failure has a story
    request.config.stash[SERVER] = started
    return started


def _share(folder: Path) -> dict[str, Any]:
    """Start the server of all workers, or return the running one. It ends after the workers' parent process."""
    from penstock.testing.servers import start

    with _lock(folder / "penstock.lock"):
        for ready_file in folder.glob("penstock-*/ready.json"):
            ready: dict[str, Any] = json.loads(ready_file.read_bytes())
            return ready
        own = folder / f"penstock-{os.getpid()}"
        own.mkdir()
        process, ready = start(own, os.getppid(), {})
        process.returncode = 0  # avoids Python's warning about a process that is not waited for
        return ready


@contextmanager
def _lock(path: Path) -> Iterator[None]:
    import fcntl

    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


@pytest.fixture
def penstock_project(penstock: Server, request: pytest.FixtureRequest) -> Iterator[Project]:
    """A project of this test only. It is deleted after the test."""
    project = request.node.stash[PROJECT] = penstock.project()
    marker = request.node.get_closest_marker("penstock")
    try:
        if marker is not None and marker.kwargs.get("seed"):
            project.seed(request.path.parent / marker.kwargs["seed"])
        yield project
    finally:
        project.close()


@pytest.fixture
def penstock_clock(penstock_project: Project) -> ProjectClock:
    """The clock of the test's project."""
    return penstock_project.clock


@pytest.fixture
def penstock_faults(penstock_project: Project) -> Faults:
    """The faults of the test's project. They end with the test."""
    return penstock_project.faults


@pytest.fixture
def penstock_environment(penstock_project: Project, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    """The environment variables that clients read, set during the test."""
    for name, value in penstock_project.environment.items():
        monkeypatch.setenv(name, value)
    return penstock_project.environment


@pytest.fixture
def google_publisher(penstock_project: Project) -> Any:
    """A google.cloud.pubsub_v1.PublisherClient."""
    return penstock_project.google_publisher()


@pytest.fixture
def google_subscriber(penstock_project: Project) -> Any:
    """A google.cloud.pubsub_v1.SubscriberClient."""
    return penstock_project.google_subscriber()


@pytest.fixture
def azure_queue_service(penstock_project: Project) -> Any:
    """An azure.storage.queue.QueueServiceClient, for the account of the project."""
    return penstock_project.azure_queue_service()


@pytest.fixture
def penstock_text(penstock_project: Project) -> TextClient:
    """A client of the text protocol. `penstock_project.text_queue` returns the names of queues."""
    return penstock_project.text_client()


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("penstock"):
        _check(marker)
    if (server := item.config.stash.get(SERVER, None)) is not None:
        item.stash[OTHERS] = set(server.projects)


def _check(marker: pytest.Mark) -> None:
    """Fail the test if its marker has invalid arguments."""
    seed = marker.kwargs.get("seed")
    unknown = [name for name in marker.kwargs if name != "seed"]
    wrong = ""
    if marker.args:
        wrong = f"{marker.args[0]!r} needs a name"
    elif unknown:
        wrong = f"unknown argument {unknown[0]}"
    elif seed is not None and not isinstance(seed, str | os.PathLike):
        wrong = f"seed must be a file, not {seed!r}"
    if wrong:
        pytest.fail(f"The marker must be penstock(seed=FILE): {wrong}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """Delete the project of a test after its last fixture, so that a failing fixture has its story."""
    try:
        return (yield)
    except BaseException:
        item.stash[STORY] = _stories(item)
        raise
    finally:
        if PROJECT in item.stash:
            item.stash[PROJECT].end()
            del item.stash[PROJECT]


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the stories of the messages to the report of a failing test."""
    report = yield
    if report.failed:
        stories = item.stash.get(STORY, "") if call.when == "teardown" else _stories(item)
        report.sections += [("messages of its project", stories)] if stories else []
    return report


def _stories(item: pytest.Item) -> str:
    """Return the stories of the test's project, and of projects that it created and has not ended."""
    server, own = item.config.stash.get(SERVER, None), item.stash.get(PROJECT, None)
    if server is None:
        return ""
    others: set[Project] = item.stash.get(OTHERS, set())
    created = sorted(server.projects - others - {own}, key=lambda project: project.name)
    projects = [own, *created] if own is not None else created
    return "\n".join(map(_story, projects[:STORIES_MAX]))


def _story(project: Project) -> str:
    from penstock.errors import PenstockError

    try:
        return project.story()
    except PenstockError as error:
        return f"The messages cannot be shown: {error.message}"

"""The pytest plugin: a server for the session, and for each test a project of its own, with clients and a clock.

Everything is a fixture that a test asks for: a suite that asks for none pays for this module and nothing else, and no
environment variable is set unless `penstock_environment` is asked for.
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

MARKER = "penstock(seed=None): what the project of a test has in it from the beginning, as a seed file"
STORIES_MAX = 5  # projects of a test whose stories it shows
SERVER = pytest.StashKey["Server"]()  # of the session
PROJECT = pytest.StashKey["Project"]()  # of a test, until its last fixture is done
OTHERS = pytest.StashKey["set[Project]"]()  # that were there before a test
STORY = pytest.StashKey[str]()  # of a test whose fixtures failed at its end


def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", MARKER)


@pytest.fixture(scope="session")
def penstock(tmp_path_factory: pytest.TempPathFactory, request: pytest.FixtureRequest) -> Server:
    """A server in memory on free ports; the workers of pytest-xdist share one."""
    from penstock.testing.servers import Server, server

    running = ExitStack()
    if hasattr(request.config, "workerinput"):
        started = running.enter_context(closing(Server(_share(tmp_path_factory.getbasetemp().parent))))
    else:
        started = running.enter_context(server())
    request.config.add_cleanup(running.close)  # later than the last fixture: its failure has a story to tell
    request.config.stash[SERVER] = started
    return started


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


def pytest_runtest_setup(item: pytest.Item) -> None:
    for marker in item.iter_markers("penstock"):
        _check(marker)
    if (server := item.config.stash.get(SERVER, None)) is not None:
        item.stash[OTHERS] = set(server.projects)


def _check(marker: pytest.Mark) -> None:
    """What is written wrongly is not to be left out without a word."""
    seed = marker.kwargs.get("seed")
    unknown = [name for name in marker.kwargs if name != "seed"]
    wrong = ""
    if marker.args:
        wrong = f"not {marker.args[0]!r} alone"
    elif unknown:
        wrong = f"and has no {unknown[0]}"
    elif seed is not None and not isinstance(seed, str | os.PathLike):
        wrong = f"a file, not {seed!r}"
    if wrong:
        pytest.fail(f"The marker is penstock(seed=FILE), {wrong}", pytrace=False)


@pytest.hookimpl(wrapper=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    """The project of a test is removed after its last fixture, so that one that fails has its story as well."""
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
    """A test that fails shows what happened to the messages of its projects."""
    report = yield
    if report.failed:
        told = item.stash.get(STORY, "") if call.when == "teardown" else _stories(item)
        report.sections += [("messages of its project", told)] if told else []
    return report


def _stories(item: pytest.Item) -> str:
    """Of its own project, and of those that it made itself and has not ended."""
    server, own = item.config.stash.get(SERVER, None), item.stash.get(PROJECT, None)
    if server is None:
        return ""
    known: set[Project] = item.stash.get(OTHERS, set())
    made = sorted(server.projects - known - {own}, key=lambda each: each.name)
    projects = [own, *made] if own is not None else made
    return "\n".join(map(_story, projects[:STORIES_MAX]))


def _story(project: Project) -> str:
    from penstock.errors import PenstockError

    try:
        return project.story()
    except PenstockError as error:
        return f"They cannot be shown: {error.message}"

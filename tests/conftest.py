"""Options, hooks and fixtures that all folders of tests share.

A test that can run longer states two sizes, one for every change and one for the night. `make nightly` uses the
larger one.
"""

from __future__ import annotations

import logging
import os
import random
import signal
from collections.abc import Callable, Generator
from typing import Any

import pytest
from hypothesis import settings

from tests.order import long_first, shuffle
from tests.server_process import ServerProcess
from tests.time_limit import NIGHTLY_SECONDS, TEST_SECONDS, save_terminal, time_limit

LOG_SHOWN = 5000  # characters
NIGHTLY = bool(os.environ.get("PENSTOCK_NIGHTLY"))

# Every change runs the same examples, so that a failure is caused by the change. The nightly run looks for new ones.
settings.register_profile("change", derandomize=True, deadline=None)
settings.register_profile("night", deadline=None)
settings.load_profile("night" if NIGHTLY else "change")


@pytest.fixture(scope="session")  # so that Hypothesis may use the same seed
def rounds() -> Callable[[int, int], int]:
    """Return the first number in `make test` and the second in `make nightly`, as in `rounds(1_000, 100_000)`."""

    def choose(usual: int, nightly: int) -> int:
        return nightly if NIGHTLY else usual

    return choose


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--seed", type=int, help="Seed of the order of tests. A random one by default.")
    parser.addoption("--alone", action="store_true", help="Set up shared fixtures again for every test.")


def pytest_report_header(config: pytest.Config) -> str:
    return f"order of tests: seed {config.option.seed}; the same order again with --seed {config.option.seed}"


def pytest_configure(config: pytest.Config) -> None:
    """Choose a seed, save the terminal for reports of hanging tests, and let Ctrl-C reach the processes of tests.

    A process that a shell starts in the background ignores Ctrl-C, and its children would inherit that.
    """
    if config.option.seed is None:
        config.option.seed = getattr(config, "workerinput", {}).get("seed", random.randrange(1_000_000))
    save_terminal()
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)


@pytest.hookimpl(optionalhook=True)
def pytest_configure_node(node: Any) -> None:
    """Give a worker of pytest-xdist the seed of this process."""
    node.workerinput["seed"] = node.config.option.seed


def _undo_loggers_of_spark() -> None:
    """Remove the handlers that Spark gives to loggers.

    While Spark's logger class is in force, every new logger gets a handler of its own. These handlers and the one of
    the root logger write to a stream that is closed with its test.
    """
    logging.setLoggerClass(logging.Logger)
    root = logging.getLogger()
    root.handlers[:] = [each for each in root.handlers if type(each) is not logging.StreamHandler]
    for logger in list(root.manager.loggerDict.values()):
        if isinstance(logger, logging.Logger) and type(logger) is not logging.Logger:
            logger.handlers.clear()


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_setup(item: pytest.Item) -> Generator[None, None, None]:
    _undo_loggers_of_spark()
    with time_limit(f"the set-up of {item.nodeid}", _seconds()):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, None, None]:
    with time_limit(item.nodeid, _seconds()):
        return (yield)


@pytest.hookimpl(wrapper=True, tryfirst=True)
def pytest_runtest_teardown(item: pytest.Item) -> Generator[None, None, None]:
    with time_limit(f"the teardown of {item.nodeid}", _seconds()):
        result = yield
        if item.config.option.alone:  # the next test shares no server, topic or page with this one
            item.session._setupstate.teardown_exact(None)
        return result


def _seconds() -> float:
    return NIGHTLY_SECONDS if NIGHTLY else TEST_SECONDS


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport() -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Add the output of running servers to the report of a failing test."""
    report = yield
    if report.failed:
        report.sections += [
            (f"Log of server {each.process.pid}", each.log()[-LOG_SHOWN:]) for each in ServerProcess.started
        ]
    return report


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    for item in items:
        if NIGHTLY and "rounds" in getattr(item, "fixturenames", ()):
            item.add_marker(pytest.mark.nightly)
    items[:] = long_first(shuffle(items, config.getoption("seed")))

"""The pytest plugin and the examples of docs/testing.md, in separate pytest runs."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import threading
from pathlib import Path

from tests.server_process import ROOT, clean_environment

SECONDS = 300.0  # only a failing test waits this long
GUIDE = (ROOT / "docs" / "testing.md").read_text(encoding="utf-8")


def run(folder: Path, tests: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_it.py").write_text(tests, encoding="utf-8")
    (folder / "pytest.ini").write_text(
        "[pytest]\nfilterwarnings = error\naddopts = --strict-markers -p no:cacheprovider -p no:schemathesis\n",
        encoding="utf-8",
    )
    return subprocess.run(
        [sys.executable, "-m", "pytest", *arguments, "."],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=SECONDS,
        env=clean_environment(),
        check=False,
    )


SHARED = """
import json, os, pathlib
import pytest

@pytest.mark.parametrize("number", range(6))
def test_each_has_a_project_of_its_own(number, penstock, penstock_project, penstock_clock):
    assert "PUBSUB_EMULATOR_HOST" not in os.environ
    assert list(penstock_project.topics()) == []
    penstock.admin.post("/topics", {"name": "orders", "project": penstock_project.name})
    penstock_clock.freeze("2000-01-01T00:00:00Z") if number < 0 else penstock_clock.advance(days=number)
    record = [penstock.pid, penstock_project.name, os.getpid()]
    pathlib.Path(f"seen-{number}.json").write_text(json.dumps(record))

def test_variables_are_set_where_they_are_asked_for(penstock_project, penstock_environment):
    assert os.environ["PUBSUB_PROJECT_ID"] == penstock_project.name
    assert os.environ["AZURE_STORAGE_CONNECTION_STRING"] == penstock_project.connection_string
"""


def test_workers_share_a_server_and_no_project(tmp_path: Path) -> None:
    done = run(tmp_path, SHARED, "-n", "2")
    assert "7 passed" in done.stdout, done.stdout + done.stderr
    seen = [json.loads(each.read_text()) for each in tmp_path.glob("seen-*.json")]
    assert len({server for server, _, _ in seen}) == 1
    assert len({project for _, project, _ in seen}) == 6
    assert len({worker for _, _, worker in seen}) == 2
    _wait_for_end_of(seen[0][0])


def _wait_for_end_of(pid: int) -> None:
    """Wait until the server process of a test run has ended."""
    never = threading.Event()
    for _ in range(int(SECONDS * 20)):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return
        never.wait(0.05)
    raise AssertionError("the server is still there")


FAILING = """
import pytest

@pytest.mark.penstock(seed="orders.toml")
def test_it_fails(penstock, penstock_project):
    admin, project = penstock.admin, penstock_project.name
    (subscription,) = penstock_project.subscriptions()
    pulled = admin.post("/subscriptions/billing/pull", {"max_messages": 1}, project=project)
    penstock_project.clock.advance(60)
    assert pulled == "what it was"

def test_it_passes(penstock_project):
    assert list(penstock_project.topics()) == []
"""
SEED = """
[[topics]]
name = "orders"
messages = ["order 1"]

[[subscriptions]]
name = "billing"
topic = "orders"
ack_deadline_seconds = 30
"""


def test_a_failing_test_shows_the_story_of_its_messages(tmp_path: Path) -> None:
    (tmp_path / "orders.toml").write_text(SEED, encoding="utf-8")
    done = run(tmp_path, FAILING)
    assert "1 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    _, _, output = done.stdout.partition("messages of its project")
    for line in (
        r"Project test-[0-9a-f]+ at ",
        r"topic orders: 1 published, 1 kept",
        r"0: 'order 1'",
        r"Published\.",
        r"Delivered to billing .admin API.",
        r"The ack deadline in billing expired",
        r"subscription billing: 1 unacked, 0 of them leased",
    ):
        assert re.search(line, output), (line, output)


WRONG = """
import pytest

@pytest.mark.penstock(seed="orders.toml")
@pytest.mark.parametrize("asked", ["published", "settle", "deliveries"])
def test_it_fails(penstock_project, asked):
    if asked == "published":
        penstock_project.topic("orders").published("order 2")
    elif asked == "settle":
        penstock_project.settle(seconds=0)
    else:
        penstock_project.subscription("billing").deliveries("5")
"""


def test_a_failed_assertion_shows_the_line_of_the_test(tmp_path: Path) -> None:
    (tmp_path / "orders.toml").write_text(SEED, encoding="utf-8")
    done = run(tmp_path, WRONG)
    assert "3 failed" in done.stdout, done.stdout + done.stderr
    for line in (
        "AssertionError: No message with data 'order 2' was published to orders. The messages are:",
        "0: 'order 1'  (other data)",
        "0: 'order 1' was never delivered",
        "AssertionError: No message with the id 5 was published to orders",
    ):
        assert re.search(rf"^E +{re.escape(line)}$", done.stdout, re.MULTILINE), (line, done.stdout)
    assert "penstock/testing" not in done.stdout, "a traceback does not show the code of the kit"


MARKED = """
import pytest

@pytest.mark.penstock(sead="orders.toml")
def test_another_word(): ...

@pytest.mark.penstock("orders.toml")
def test_no_word(penstock_project): ...

@pytest.mark.penstock(seed=["orders.toml"])
def test_a_list(penstock_project): ...
"""


def test_an_invalid_marker_fails_with_a_sentence(tmp_path: Path) -> None:
    done = run(tmp_path, MARKED)
    assert "3 errors" in done.stdout, done.stdout + done.stderr
    for sentence in ("unknown argument sead", "'orders.toml' needs a name", "seed must be a file, not ['orders.toml']"):
        assert f"\nThe marker must be penstock(seed=FILE): {sentence}\n" in done.stdout


BROKEN = """
import pytest

@pytest.fixture
def orders(penstock, penstock_project):
    penstock.admin.post("/topics", {"name": "orders", "project": penstock_project.name})
    yield "orders"
    assert not "afterwards"

@pytest.fixture
def wrong(orders):
    assert not "before"

def test_before(wrong): ...

def test_own(penstock):
    project = penstock.project()
    penstock.admin.post("/topics", {"name": "own", "project": project.name})
    assert not project

def test_afterwards(orders): ...
"""


def test_failing_fixtures_and_created_projects_have_stories(tmp_path: Path) -> None:
    done = run(tmp_path, BROKEN)
    assert "1 failed, 1 passed, 3 errors" in done.stdout, done.stdout + done.stderr
    output = dict(re.findall(r"^_+ ([^\n]*test_\w+) _+$(.*?)(?=^_+ |^=+ )", done.stdout, re.M | re.S))
    topics = {title: re.findall(r"^  topic (\w+): 0 published", text, re.M) for title, text in output.items()}
    assert topics == {
        "ERROR at setup of test_before": ["orders"],
        "ERROR at teardown of test_before": ["orders"],
        "test_own": ["own"],
        "ERROR at teardown of test_afterwards": ["orders"],
    }


def test_an_invalid_seed_names_its_line(tmp_path: Path) -> None:
    (tmp_path / "orders.toml").write_text("[[topics]]\nname = 5\n", encoding="utf-8")
    done = run(tmp_path, FAILING, "-k", "fails")
    assert "orders.toml, line 2" in done.stdout, done.stdout


def test_the_examples_of_the_guide_pass(tmp_path: Path) -> None:
    example, _, plain, happened = re.findall(r"```python\n(.*?)```", GUIDE, re.DOTALL)[:4]
    (tmp_path / "plain.py").write_text(plain, encoding="utf-8")
    tests = f"{example}\n{happened}\ndef test_plain():\n    import runpy\n    runpy.run_path('plain.py')\n"
    done = run(tmp_path, tests)
    assert "3 passed" in done.stdout, done.stdout + done.stderr


def test_a_suite_without_the_fixtures_imports_only_the_plugin(tmp_path: Path) -> None:
    tests = """
import sys

def test_nothing_is_loaded():
    loaded = {name for name in sys.modules if name.startswith("penstock")}
    assert loaded <= {"penstock", "penstock.testing", "penstock.testing.plugin"}, loaded
"""
    done = run(tmp_path, tests)
    assert "1 passed" in done.stdout, done.stdout

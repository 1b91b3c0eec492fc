"""The time limit of tests: a test that hangs fails by name, with the stacks of all its processes."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
HANGS_ON_A_CHILD = """
import subprocess, sys
from tests.time_limit import time_limit

program = "import time\\ndef wait_for_ever():\\n  time.sleep(600)\\nwait_for_ever()"
with time_limit("test_that_waits", 0.5):
    subprocess.Popen([sys.executable, "-c", program]).wait()
"""
HANGS_ALONE = """
import threading
from tests.time_limit import time_limit

with time_limit("test_that_hangs", 0.5, grace_seconds=0.5):
    threading.Event().wait()
"""


def run(program: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", program]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)


def test_a_test_that_waits_for_a_child_process_fails_by_name() -> None:
    ended = run(HANGS_ON_A_CHILD)
    assert ended.returncode == 1
    assert "test_that_waits has run for 0 seconds, its limit." in ended.stderr
    assert "wait_for_ever" in ended.stderr, "the stack of the child process is missing"
    assert "AssertionError: test_that_waits reached its limit of 0 seconds" in ended.stderr


def test_a_test_that_cannot_be_ended_ends_its_process() -> None:
    ended = run(HANGS_ALONE)
    assert ended.returncode == 1
    assert "threading.py" in ended.stderr, "the stacks of this process are missing"
    assert "test_that_hangs could not be ended; its process ends now." in ended.stderr


def test_a_test_in_time_is_left_alone() -> None:
    quick = 'from tests.time_limit import time_limit\nwith time_limit("quick", 60):\n    pass\n'
    ended = run(quick)
    assert (ended.returncode, ended.stderr) == (0, "")

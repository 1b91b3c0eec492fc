"""The store of each API object, and the modules that importing the API loads."""

from __future__ import annotations

import subprocess
import sys

import penstock
from penstock.assembly import open_journal


def test_the_package_sets_how_the_api_opens_a_store() -> None:
    assert penstock.PubSub.open_journal is open_journal


def test_importing_the_api_loads_no_door_and_no_sqlite() -> None:
    code = "import sys, penstock; print([m for m in sys.modules if 'doors' in m or 'apsw' in m or 'grpc' in m])"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=30)
    assert done.stdout.strip() == "[]"

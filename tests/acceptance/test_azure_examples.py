"""The examples of the Azure door run unchanged against a server, and print the documented output."""

from __future__ import annotations

import runpy
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).resolve().parents[2] / "examples"

PRINTED = {
    "azure_worker.py": [
        "3 pictures wait",
        "Shrinking cat.png, attempt 1",
        "Shrinking dog.png, attempt 1",
        "Shrinking fish.png, attempt 1",
        "0 left",
    ],
    "azure_share.py": [
        "The guest may add",
        "The guest may not read: AuthorizationPermissionMismatch",
        "The owner reads: more tea",
    ],
}


@pytest.mark.parametrize("name", PRINTED)
@pytest.mark.usefixtures("penstock_environment")
def test_an_example_prints_what_it_promises(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    for _ in range(2):  # a second run has the queue of the first
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        assert capsys.readouterr().out.splitlines() == PRINTED[name]

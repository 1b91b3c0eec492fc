"""The examples of the Azure door run as they stand against a server, and print what they promise."""

from __future__ import annotations

import runpy
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.acceptance.azure_server import AzureServer

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


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    with AzureServer(tmp_path_factory.mktemp("azure"), "--memory") as server:
        yield server


@pytest.mark.parametrize("name", PRINTED)
def test_an_example_prints_what_it_promises(
    served: AzureServer, name: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("AZURE_STORAGE_CONNECTION_STRING", served.connection_string)
    for _ in range(2):  # a second run finds what the first one left behind
        runpy.run_path(str(EXAMPLES / name), run_name="__main__")
        assert capsys.readouterr().out.splitlines() == PRINTED[name]

"""Schemathesis against a real server: valid and invalid requests that are generated from the OpenAPI document."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from penstock.admin.client import Client
from tests.server_process import ServerProcess

SECONDS = 1800
# An answer without an end, three that wait as long as the request asks, and one that writes files at a given path.
LEFT_OUT = "/(events|stream|pull|backlog|backup)$"
# A schema cannot describe filters, times and names, so the server may refuse requests that the schema allows.
UNCHECKED = "positive_data_acceptance"
NAMES = [f"r{number}" for number in range(8)]  # enough to have some left when others are deleted


@pytest.mark.nightly
def test_no_request_surprises_the_server(tmp_path: Path, rounds: Callable[[int, int], int]) -> None:
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        with Client(server.addresses["http"]) as client:
            for name in NAMES:
                client.post("/queues", {"name": name})
                client.post(f"/topics/{name}/messages", {"messages": [{"data": "x"}] * 10})
                client.post("/snapshots", {"name": name, "subscription": name})
        named = [f'"path.{kind}" = {NAMES}' for kind in ("topic", "subscription", "queue", "snapshot")]
        config = tmp_path / "schemathesis.toml"
        config.write_text("[parameters]\n" + "\n".join(named).replace("'", '"') + "\n")
        for given in ([], ["--config-file", str(config)]):
            run = subprocess.run(
                [
                    str(Path(sys.executable).with_name("schemathesis")),
                    *given,
                    "run",
                    f"http://{server.addresses['http']}/admin/v1/openapi.json",
                    "--checks=all",
                    f"--exclude-checks={UNCHECKED}",
                    f"--exclude-path-regex={LEFT_OUT}",
                    f"--max-examples={rounds(5, 50)}",
                    "--request-timeout=30",
                    "--no-color",
                ],
                capture_output=True,
                text=True,
                timeout=SECONDS,
                check=False,
                cwd=tmp_path,
            )
            assert run.returncode == 0, run.stdout[-20_000:] + run.stderr[-2000:]
        with Client(server.addresses["http"]) as client:
            assert client.get("/server")
        assert "internal error" not in server.log().lower()

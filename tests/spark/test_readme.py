"""The README: its test, and its message for four clients, pasted into a shell twice.

Only the addresses are replaced, because the page has the default ports and the test's server has free ones.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

from tests.acceptance.azure_server import ACCOUNT, connection_string
from tests.server_process import ROOT, SECONDS, clean_environment
from tests.spark.servers import Server

PAGE = (ROOT / "README.md").read_text()
COMMANDS, TEST, SERVE, CROSSING = re.findall(r"^```(?:sh|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_the_test_of_the_readme_passes(tmp_path: Path) -> None:
    (tmp_path / "test_orders.py").write_text(TEST, encoding="utf-8")
    printed = paste(f"{sys.executable} -m pytest -q -p no:cacheprovider -p no:schemathesis test_orders.py", tmp_path)
    assert printed[-1].startswith("1 passed")


def test_one_message_reaches_four_clients_each_time_it_is_pasted(tmp_path: Path) -> None:
    with Server(tmp_path, "--data", str(tmp_path / "data")) as server:
        block = at(server, CROSSING)
        for run in (1, 2):
            printed = paste(block, tmp_path, PENSTOCK_TEXT_ADDRESS=server.addresses["text"])
            assert printed[:2] == ["Google has one espresso", "Text has one espresso"]
            rows = [[cell.strip() for cell in line.strip("|").split("|")][:2] for line in printed if line[:1] == "|"]
            assert rows == [["offset", "data"], *([str(offset), "one espresso"] for offset in range(run))]


def test_the_commands_of_the_readme_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?<![\w-])make ((?:[a-z]+ ?)+)", COMMANDS + SERVE)
    assert {target for line in named for target in line.split() if target in targets} >= {"serve", "test", "setup"}


def at(server: Server, block: str) -> str:
    """Return the block with the server's addresses in place of the default ones.

    All default addresses must be in it.
    """
    azure = connection_string(f"http://{server.addresses['azure']}/{ACCOUNT}")
    flight = f'format("penstock").option("endpoint", "{server.endpoint}")'
    for default, replacement in (
        (". .venv/bin/activate\n", ""),
        ("127.0.0.1:8085", server.addresses["pubsub"]),
        ("UseDevelopmentStorage=true", azure),
        ('format("penstock")', flight),
        ("string(data)", "string(data) AS data"),
    ):
        assert default in block, default
        block = block.replace(default, replacement)
    return block


def paste(block: str, folder: Path, **environment: str) -> list[str]:
    """Return the lines that a shell prints for the block."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    variables = {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        ["bash", "-e"],
        input=block,
        capture_output=True,
        text=True,
        timeout=10 * SECONDS,
        cwd=folder,
        env=clean_environment() | variables | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()

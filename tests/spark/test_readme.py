"""The front page: its one message through four doors, pasted into a shell twice, and its Python program.

Only the addresses are other ones: the page has the default ports, the server of the test has free ones.
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
COMMANDS, SERVE, CROSSING, PROGRAM = re.findall(r"^```(?:sh|python)\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)


def test_one_message_crosses_four_doors_as_often_as_it_is_pasted(tmp_path: Path) -> None:
    with Server(tmp_path, "--data", str(tmp_path / "data")) as server:
        block = at(server, CROSSING)
        for run in (1, 2):
            printed = paste(block, tmp_path, PENSTOCK_TEXT_ADDRESS=server.addresses["text"])
            assert printed[:2] == ["Google has one espresso", "Text has one espresso"]
            rows = [[cell.strip() for cell in line.strip("|").split("|")][:2] for line in printed if line[:1] == "|"]
            assert rows == [["offset", "data"], *([str(offset), "one espresso"] for offset in range(run))]


def test_the_program_of_the_front_page(tmp_path: Path) -> None:
    for _ in range(2):
        assert paste(f"{sys.executable} - <<'END'\n{PROGRAM}END\n", tmp_path) == ["one espresso"]


def test_the_commands_of_the_front_page_are_targets_of_the_makefile() -> None:
    targets = set(re.findall(r"^([a-z]+):.*## ", (ROOT / "Makefile").read_text(), re.MULTILINE))
    named = re.findall(r"(?<![\w-])make ((?:[a-z]+ ?)+)", COMMANDS + SERVE)
    assert {target for line in named for target in line.split() if target in targets} >= {"serve", "test", "setup"}


def at(server: Server, block: str) -> str:
    """The block with the addresses of a server; each of the page's has to be in it."""
    azure = connection_string(f"http://{server.addresses['azure']}/{ACCOUNT}")
    flight = f'format("penstock").option("endpoint", "{server.endpoint}")'
    for given, ours in (
        (". .venv/bin/activate\n", ""),
        ("127.0.0.1:8085", server.addresses["pubsub"]),
        ("UseDevelopmentStorage=true", azure),
        ('format("penstock")', flight),
        ("string(data)", "string(data) AS data"),
    ):
        assert given in block, given
        block = block.replace(given, ours)
    return block


def paste(block: str, folder: Path, **environment: str) -> list[str]:
    """What a shell prints when the block is pasted into it."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    told = {"PATH": path, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        ["bash", "-e"],
        input=block,
        capture_output=True,
        text=True,
        timeout=10 * SECONDS,
        cwd=folder,
        env=clean_environment() | told | environment,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()

"""The rules for vendor words, replaced words and banned calls, and proof that each can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.sources import PACKAGE, ROOT, build, everywhere, modules, project_files
from tests.tidy.words import (
    Replaced,
    call_faults,
    foreign_name_faults,
    print_faults,
    replaced_name_faults,
    replaced_prose_faults,
    replaced_words,
    vendor_faults,
)

GLOSSARY = ROOT / "docs" / "glossary.md"
REPLACED = replaced_words(GLOSSARY.read_text(encoding="utf-8"))


def test_the_broker_and_its_journals_know_no_vendor() -> None:
    assert vendor_faults(PACKAGE) == []


def test_no_source_calls_what_is_banned() -> None:
    assert call_faults(everywhere()) == []


def test_the_glossary_lists_what_it_replaces() -> None:
    assert Replaced("tally", "statistics, counts", in_prose=False) in REPLACED
    assert Replaced("letter", "message, record; a dead letter is one", in_prose=True) in REPLACED
    assert len(REPLACED) > 10


def test_names_go_by_the_glossary() -> None:
    assert replaced_name_faults(everywhere(), REPLACED) == []


def test_comments_and_pages_go_by_the_glossary() -> None:
    files = [path for path in project_files() if path.suffix == ".md" or path.is_relative_to(ROOT / "src")]
    texts = [path for path in files if path.suffix in {".md", ".py"} and path != GLOSSARY]
    assert replaced_prose_faults(ROOT, texts, REPLACED) == []


@pytest.mark.parametrize(
    "text",
    [
        "ack_id = 1",
        "# the Ack ID",
        "ackIds = []",
        "# a pop receipt",
        "PopReceipt = 1",
        "# as Pub/Sub does",
        "# Azure",
        "x = 'google'",
        "reserved = ('goog',)",
    ],
)
@pytest.mark.parametrize("name", ["broker/model.py", "journal/sqlite/store.py", "journal/sqlite/schema.sql"])
def test_a_vendor_word_is_found(tmp_path: Path, name: str, text: str) -> None:
    assert len(vendor_faults(build(tmp_path, {name: f"# first line\n{text}\n"}))) == 1


def test_a_door_may_use_its_vendor_words(tmp_path: Path) -> None:
    files = {
        "doors/google/codec.py": "ack_id = 1\n",
        "broker/model.py": "def ack(receipt): ...\nback_id = track_ids = 1\n",
    }
    assert vendor_faults(build(tmp_path, files)) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("faces/clock.py", ""),
        ("doors/desk.py", ""),
        ("doors/http/shelves_and_bells.py", ""),
        ("queue.py", "class Letter: ..."),
        ("queue.py", "class HTTPPostman: ..."),
        ("queue.py", "class Standing: ..."),
        ("queue.py", "class Queue:\n    def _heed(self): ..."),
        ("queue.py", "async def knock_again(): ..."),
        ("queue.py", "def outer():\n    def tallies_and_tally(): ..."),
    ],
)
def test_a_replaced_word_in_a_name_is_found(tmp_path: Path, name: str, text: str) -> None:
    assert len(replaced_name_faults(modules(build(tmp_path, {name: text})), REPLACED)) == 1


@pytest.mark.parametrize("text", ["# the bell rings", "Nobody heeds it", "It knocked.", "see `desk.py`"])
def test_a_replaced_word_in_prose_is_found(tmp_path: Path, text: str) -> None:
    package = build(tmp_path, {"page.md": f"# first line\n{text}\n"})
    assert len(replaced_prose_faults(package, [package / "page.md"], REPLACED)) == 1


def test_words_that_only_contain_a_replaced_one_pass(tmp_path: Path) -> None:
    text = "class DeadLetters: ...\ndef interface(): ...\ndef dead_letter_topic(): ...\nclass Outstanding: ...\n"
    package = build(tmp_path, {"surface.py": text, "page.md": "Lower-case letters; an interface; long-standing.\n"})
    assert replaced_name_faults(modules(package), REPLACED) == []
    assert replaced_prose_faults(package, [package / "page.md"], REPLACED) == []


@pytest.mark.parametrize(
    "text",
    [
        "import time\ntime.sleep(1)",
        "import time as t\nt.sleep(1)",
        "from time import sleep\nsleep(1)",
        "from time import sleep as rest\nrest(1)",
        "import pickle",
        "from subprocess import run",
        "import subprocess as sp",
        "eval('1')",
        "exec('1')",
        "import yaml\nyaml.load('')",
        "import os\nos.system('true')",
    ],
)
def test_a_banned_call_is_found(tmp_path: Path, text: str) -> None:
    assert len(call_faults(modules(build(tmp_path, {"server.py": text})))) == 1


def test_calls_that_only_look_alike_pass(tmp_path: Path) -> None:
    text = "import asyncio, yaml\nfilters.eval(x)\nyaml.safe_load('')\nasync def f():\n    await asyncio.sleep(0)\n"
    assert call_faults(modules(build(tmp_path, {"server.py": text}))) == []


def test_no_page_installs_the_other_project_called_penstock() -> None:
    parts = ("src", "docs", "examples", "README.md", "CHANGELOG.md", "Dockerfile", "compose.yaml", "pyproject.toml")
    files = [path for path in project_files() if path.relative_to(ROOT).parts[0] in parts]
    assert foreign_name_faults(ROOT, files) == []


@pytest.mark.parametrize(
    "line",
    [
        "pip install penstock",
        "pip install penstock && penstock serve",
        "run `pip install --quiet penstock` first",
        "python -m pip install 'penstock[google]'",
        'pip3 install pytest "penstock"',
        "uv add penstock",
        "uv tool install penstock",
        "pipx install penstock==0.1",
        "Install `penstock[flight]`.",
    ],
)
def test_a_line_that_installs_the_other_project_is_found(tmp_path: Path, line: str) -> None:
    build(tmp_path, {"page.md": f"first line\n{line}\n"})
    assert len(foreign_name_faults(tmp_path, [tmp_path / "page.md"])) == 1


@pytest.mark.parametrize(
    "line",
    [
        "pip install penstock-broker && penstock serve",
        "pip install 'penstock-broker[google]' pytest",
        "/opt/penstock/bin/python -m pip install .",
        'penstock["pubsub"] is an address',
        "pip install pyspark_penstock-1.zip",
    ],
)
def test_a_line_that_installs_penstock_broker_passes(tmp_path: Path, line: str) -> None:
    build(tmp_path, {"page.md": line})
    assert foreign_name_faults(tmp_path, [tmp_path / "page.md"]) == []


def test_commands_print_data_in_one_place() -> None:
    assert print_faults(modules()) == []


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("print(name)", 1),
        ("print(f'Wrote {file}')", 1),
        ("click.echo(f'{name}: done')", 1),
        ("sys.stdout.write(text)", 1),
        ("print(f'{name:>8}')", 1),
        ("print('Nothing was found.', file=sys.stderr)", 0),
        ("print(f'{number:,} messages')", 0),
        ("print(safe_text(name))", 0),
        ("tell(f'Wrote {file}')", 0),
    ],
)
def test_data_that_is_printed_as_it_is_is_found(tmp_path: Path, line: str, faults: int) -> None:
    tree = modules(build(tmp_path, {"commands/x.py": line, "elsewhere.py": "print(name)"}))
    assert len(print_faults(tree)) == faults

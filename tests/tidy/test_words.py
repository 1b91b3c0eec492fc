"""Vendor words and banned calls, and proof that each rule can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.sources import PACKAGE, build, everywhere, modules
from tests.tidy.words import call_faults, vendor_faults


def test_the_broker_and_its_journals_know_no_vendor() -> None:
    assert vendor_faults(PACKAGE) == []


def test_no_source_calls_what_is_banned() -> None:
    assert call_faults(everywhere()) == []


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

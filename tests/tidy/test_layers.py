"""The layering rule of the project, and proof that it can fail."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.tidy.layers import apart_faults, layer_faults, neighbour_faults, purity_faults
from tests.tidy.sources import build, everywhere, modules


def test_imports_follow_the_layers() -> None:
    assert layer_faults(modules()) == []


def test_doors_and_journals_do_not_know_their_neighbours() -> None:
    assert neighbour_faults(modules()) == []


def test_the_broker_is_pure() -> None:
    assert purity_faults(modules()) == []


def test_the_data_source_stands_apart() -> None:
    assert apart_faults(everywhere()) == []


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("pyspark_penstock/client.py", "import penstock"),
        ("pyspark_penstock/client.py", "def late():\n    from penstock.errors import PenstockError"),
        ("pyspark_penstock/client.py", "import msgspec"),
        ("pyspark_penstock/client.py", "import pyarrow as pa"),
        ("penstock/doors/text/server.py", "from pyspark_penstock import register"),
    ],
)
def test_a_data_source_that_leans_on_others_is_found(tmp_path: Path, name: str, text: str) -> None:
    fine = {
        "pyspark_penstock/client.py": "import json\nimport pyspark_penstock.schema\ndef f():\n    import pyarrow",
        "penstock/spark/flows.py": "from pyspark_penstock import register",
        "penstock/doors/text/server.py": "",
    }
    build(tmp_path, fine)
    packages = [tmp_path / "penstock", tmp_path / "pyspark_penstock"]
    assert [fault for package in packages for fault in apart_faults(modules(package))] == []
    build(tmp_path, {name: text})
    assert len([fault for package in packages for fault in apart_faults(modules(package))]) == 1


SKELETON = {
    "__init__.py": "",
    "errors.py": "",
    "wire.py": "",
    "settings.py": "",
    "assembly.py": "",
    "server.py": "",
    "cli.py": "",
    "broker/__init__.py": "",
    "broker/model.py": "",
    "broker/state.py": "",
    "engine/port.py": "",
    "journal/__init__.py": "",
    "journal/port.py": "",
    "journal/memory.py": "",
    "journal/sqlite/__init__.py": "",
    "journal/sqlite/writer.py": "",
    "engine/blocking_queue.py": "",
    "services/moves/registry.py": "",
    "services/samples.py": "",
    "doors/__init__.py": "",
    "doors/port.py": "",
    "doors/http/__init__.py": "",
    "doors/http/server.py": "",
    "doors/text/server.py": "",
    "doors/flight/process.py": "import penstock.assembly",
    "commands/text.py": "",
    "pubsub/client.py": "",
}


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("errors.py", "import penstock.broker.model"),
        ("broker/model.py", "from penstock import journal"),
        ("broker/model.py", "from penstock.journal.port import Journal"),
        ("broker/model.py", "from ..journal import port"),
        ("broker/__init__.py", "from ..wire import frame"),
        ("journal/port.py", "def late():\n    from penstock.engine import blocking"),
        ("wire.py", "from penstock.broker import model"),
        ("engine/blocking_queue.py", "import penstock.assembly"),
        ("engine/blocking_queue.py", "from penstock import Broker"),
        ("engine/blocking_queue.py", "from penstock.services import samples"),
        ("services/samples.py", "from penstock.doors.port import Door"),
        ("services/samples.py", "import penstock.assembly"),
        ("services/samples.py", "from penstock import wire"),
        ("doors/text/server.py", "from penstock.settings import Settings"),
        ("doors/text/options.py", "import penstock.broker.model"),
        ("settings.py", "import penstock.doors.http.server"),
        ("doors/text/server.py", "from penstock.pubsub import client"),
        ("doors/text/server.py", "import penstock.doors.flight.process"),
        ("commands/text.py", "import penstock.engine.blocking_queue"),
        ("server.py", "from penstock.cli import main"),
        ("__init__.py", "from penstock.cli import main"),
        ("drawer/thing.py", ""),
    ],
)
def test_a_wrong_import_is_found(tmp_path: Path, name: str, text: str) -> None:
    package = build(tmp_path / "penstock", SKELETON)
    assert layer_faults(modules(package)) == []
    build(package, {name: text})
    assert len(layer_faults(modules(package))) == 1


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("doors/text/server.py", "from penstock.doors.http import server"),
        ("doors/http/server.py", "from ..text.server import run"),
        ("doors/port.py", "import penstock.doors.http"),
        ("doors/text/server.py", "from penstock.engine.blocking_queue import MessageQueue"),
        ("doors/text/server.py", "from penstock.broker.state import State"),
        ("doors/text/server.py", "from penstock.services.samples import Samples"),
        ("doors/port.py", "from penstock.services.moves.registry import Moves"),
        ("doors/azure/server.py", "from penstock.services.samples import Samples"),
        ("engine/blocking_queue.py", "from penstock.journal.sqlite import SqliteJournal"),
        ("server.py", "from penstock.journal import sqlite"),
        ("journal/memory.py", "from penstock.journal.sqlite import writer"),
        ("journal/port.py", "from penstock.journal.sqlite import SqliteJournal"),
    ],
)
def test_a_neighbour_is_found(tmp_path: Path, name: str, text: str) -> None:
    package = build(tmp_path / "penstock", SKELETON | {name: text})
    assert len(neighbour_faults(modules(package))) == 1


def test_what_is_shared_may_be_imported(tmp_path: Path) -> None:
    allowed = {
        "assembly.py": "from penstock.journal.sqlite.writer import Writer\nfrom penstock.doors.http import server",
        "journal/sqlite/__init__.py": "from penstock.journal.sqlite.writer import Writer",
        "journal/memory.py": "from penstock.journal.port import Journal",
        "doors/http/server.py": "from penstock.services.samples import Samples\nimport penstock.wire",
        "doors/azure/server.py": "from penstock.services.moves.registry import Moves",
        "services/samples.py": "from penstock.engine.port import Queue",
        "doors/text/server.py": "from penstock.engine.port import Queue\nfrom penstock.broker.model import Draft",
        "cli.py": "from penstock import __version__",
    }
    tree = modules(build(tmp_path / "penstock", SKELETON | allowed))
    assert layer_faults(tree) + neighbour_faults(tree) == []


@pytest.mark.parametrize(
    "text",
    [
        "import asyncio",
        "import os.path",
        "from time import monotonic",
        "from concurrent.futures import Future",
        "def late():\n    import random",
        "import msgspec",
        "from datetime import datetime\nnow = datetime.now()",
        "import datetime\nnow = datetime.datetime.now(datetime.UTC)",
        "import datetime\nnow = datetime.date.today()",
        "print('published')",
        "text = open('state').read()",
    ],
)
def test_an_impure_broker_is_found(tmp_path: Path, text: str) -> None:
    package = build(tmp_path / "penstock", SKELETON | {"broker/model.py": text})
    assert len(purity_faults(modules(package))) == 1


def test_a_pure_broker_may_use_the_rest_of_the_standard_library(tmp_path: Path) -> None:
    text = (
        "from __future__ import annotations\nimport heapq\nfrom datetime import datetime\nfrom penstock.errors import X"
    )
    package = build(tmp_path / "penstock", SKELETON | {"broker/model.py": text})
    assert purity_faults(modules(package)) == []

"""The rule for lock files: pinned, hashed and in step with pyproject.toml. This file also proves that it can fail."""

from __future__ import annotations

import re
import tomllib
from pathlib import Path

import pytest

from tests.tidy.pins import lock_faults, pins
from tests.tidy.sources import ROOT

LOCKS = sorted((ROOT / "locks").glob("*.txt"))
WHOLE = [
    lock for lock in LOCKS if lock.name in ("image.txt", "serve.txt", "test.txt")
]  # the other lock files are added to one of these
DIGEST = "0" * 64


@pytest.mark.parametrize("lock", LOCKS, ids=lambda path: path.name)
def test_a_lock_is_pinned_hashed_and_names_no_source(lock: Path) -> None:
    text = lock.read_text(encoding="utf-8")
    assert lock_faults(text) == []
    assert pins(text)


@pytest.mark.parametrize("lock", WHOLE, ids=lambda path: path.name)
def test_a_lock_covers_what_the_project_needs(lock: Path) -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    needed = {re.split(r"[^\w-]", requirement)[0] for requirement in project["dependencies"]}
    assert needed - pins(lock.read_text(encoding="utf-8")).keys() == set()


def test_the_server_is_tested_with_the_versions_it_runs_on() -> None:
    names = ("image.txt", "serve.txt", "test.txt")
    image, serve, test = (pins((ROOT / "locks" / name).read_text(encoding="utf-8")) for name in names)
    assert image.items() <= serve.items() <= test.items()
    assert serve.keys() - image.keys() == {"pyarrow"}, "the image serves every protocol except Flight"


def test_serving_installs_no_test_tools() -> None:
    serve = pins((ROOT / "locks" / "serve.txt").read_text(encoding="utf-8"))
    assert serve.keys().isdisjoint({"pytest", "hypothesis", "mypy", "ruff", "pyspark", "psutil"})


@pytest.mark.parametrize(
    "text",
    [
        f"apsw>=3.51 \\\n    --hash=sha256:{DIGEST}\n",
        "apsw==3.51\n",
        "apsw==3.51 \\\n",
        "apsw==3.51 \\\n    --hash=md5:0\n",
        f"apsw==3.51\nrich==1 \\\n    --hash=sha256:{DIGEST}\n",
        "--index" + "-url https://mirror.example\n",
        "-r other.txt\n",
        "apsw @ https://mirror.example/apsw.whl\n",
        "# made with https://mirror.example\n",
        "# made in /somewhere\n",
    ],
)
def test_a_loose_lock_is_found(text: str) -> None:
    assert lock_faults(text) != []


def test_a_good_lock_passes() -> None:
    text = f"uvloop==1.0 ; platform_system != 'Windows' \\\n    --hash=sha256:{DIGEST}\n    # via penstock\n"
    assert lock_faults(text) == []
    assert pins(text) == {"uvloop": "1.0"}

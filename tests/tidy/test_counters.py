"""The rule that every counter of a door is shown, and proof that it can fail."""

from __future__ import annotations

import asyncio
import urllib.request
from collections import Counter
from pathlib import Path

import pytest

from penstock.assembly import DOORS, open_parts
from penstock.settings import load_settings
from tests.tidy.counters import counter_faults
from tests.tidy.sources import ROOT, build

PARTS = [ROOT / "src/penstock" / name for name in ("doors", "wire")]


def test_no_counter_is_hidden() -> None:
    """Law 8 asks for a counter of every refusal. This rule makes sure that the counter can be seen."""
    assert counter_faults(ROOT, [path for part in PARTS for path in part.rglob("*.py")]) == []


@pytest.mark.parametrize(
    ("line", "faults"),
    [
        ("self.refused: Counter[str] = Counter()", 1),
        ("self.refused = Counter()", 1),
        ("self.counts: Counter[str] = Counter()", 0),
        ("self._addresses = Counter()", 0),
        ("seen = Counter()", 0),
    ],
)
def test_a_hidden_counter_is_found(tmp_path: Path, line: str, faults: int) -> None:
    build(tmp_path, {"door.py": f"class Door:\n    def __init__(self):\n        {line}\n"})
    assert len(counter_faults(tmp_path, [tmp_path / "door.py"])) == faults


def test_every_door_of_a_server_has_its_counts_in_the_metrics() -> None:
    async def scrape() -> tuple[list[str], str]:
        flags = {"memory": True, **{f"{name}_port": 0 for name in DOORS}}
        parts = await open_parts(load_settings(flags=flags, environment={}))
        http = parts.doors[0]
        await http.start()
        try:
            for door in parts.doors:
                assert isinstance(door.counts, Counter)
                door.counts["seen_here"] += 1
            url = f"http://{http.address}/metrics"
            page = await asyncio.to_thread(lambda: urllib.request.urlopen(url, timeout=10).read().decode())
        finally:
            await http.stop(0)
            await parts.queue.close()
        return [door.name for door in parts.doors], page

    names, page = asyncio.run(scrape())
    assert sorted(names) == sorted(DOORS)
    for name in names:
        assert f'penstock_door_events_total{{door="{name}",event="seen_here"}} 1\n' in page

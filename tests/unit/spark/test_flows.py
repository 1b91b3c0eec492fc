"""The registry of ready-made flows: what is in it can be used, and is documented."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from typer.testing import CliRunner

from penstock.cli import app
from penstock.spark.flows import READY_MADE, kind_of
from penstock.spark.flows.kind import FlowKind

PAGE = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text()


@pytest.mark.parametrize("use", READY_MADE)
def test_a_ready_made_flow_says_what_it_does_and_has_its_row(use: str) -> None:
    kind = kind_of(use)
    assert issubclass(kind, FlowKind)
    assert kind.output is not FlowKind.output
    assert kind.write is not FlowKind.write or kind.run is not FlowKind.run
    row = re.search(rf"^\| `{use}` \| ([^|]+) \|", PAGE, re.MULTILINE)
    assert row, f"docs/pipelines.md has no row for {use}"
    own = set(kind.__struct_fields__) - set(FlowKind.__struct_fields__)
    assert set(re.findall(r"`(\w+)`", row[1])) == own
    assert set(kind.folders) <= own
    assert msgspec.structs.fields(kind)


def test_the_help_of_the_command_names_every_one() -> None:
    shown = CliRunner().invoke(app, ["pipeline", "run", "--help"], env={"COLUMNS": "200"}).output
    assert "A pipeline file, or archive, replay, insights or dead-letters." in shown
    assert all(use in shown for use in READY_MADE)

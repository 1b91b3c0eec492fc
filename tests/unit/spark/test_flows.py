"""The registry of ready-made flows: each one works and is documented."""

from __future__ import annotations

import re
from pathlib import Path

import msgspec
import pytest
from click.testing import CliRunner

from penstock.cli import app
from penstock.spark.flows import READY_MADE, kind_of
from penstock.spark.flows.kind import FlowKind

PAGE = (Path(__file__).parents[3] / "docs" / "pipelines.md").read_text()


@pytest.mark.parametrize("use", READY_MADE)
def test_a_ready_made_flow_is_documented(use: str) -> None:
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
    words = CliRunner().invoke(app, ["pipeline", "run", "--help"]).output.split()
    assert "Pipeline file, or a ready-made flow: archive, replay, insights or dead-letters." in " ".join(words)
    assert all(any(use in word for word in words) for use in READY_MADE)

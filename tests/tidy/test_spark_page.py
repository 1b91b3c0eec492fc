"""A check that the page on Spark lists the existing options with their defaults, and no others."""

from __future__ import annotations

import re

from pyspark_penstock.options import ALIASES, ALL, TABLE, Use
from tests.tidy.sources import ROOT

PAGE = (ROOT / "docs" / "spark.md").read_text()
WORDS = {Use.BATCH_READ: "batch", Use.STREAM_READ: "stream", Use.WRITE: "write"}


def test_every_option_has_its_row() -> None:
    listed = re.findall(r"^\| `(\w+)` \| ([\w, ]+) \| (.+?) \| (.+) \|$", PAGE, re.MULTILINE)
    known = [
        (
            option.name,
            "all" if option.uses == ALL else ", ".join(word for use, word in WORDS.items() if use in option.uses),
            option.default or "-",
            option.description,
        )
        for option in TABLE
    ]
    assert listed == known


def test_every_alias_is_listed() -> None:
    assert dict(re.findall(r"`(\w+)` is\s`(\w+)`", PAGE)) == ALIASES

"""A check that all places that state the version of the project agree."""

from __future__ import annotations

import re
import tomllib

from tests.tidy.sources import ROOT


def test_the_newest_entry_of_the_changelog_has_the_version_of_the_distribution() -> None:
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    newest = re.search(r"^## (\S+) \(\d{4}-\d\d-\d\d\)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    source = re.search(r'^__version__ = "(.+)"$', (ROOT / "src/pyspark_penstock/__init__.py").read_text(), re.MULTILINE)
    banner = re.search(r"^Penstock (\S+)$", (ROOT / "docs/operating.md").read_text(), re.MULTILINE)
    assert [match and match[1] for match in (newest, source, banner)] == [project["version"]] * 3

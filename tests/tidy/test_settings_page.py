"""A check that docs/settings.md matches the code."""

from __future__ import annotations

from tests.tidy.settings_page import settings_page
from tests.tidy.sources import ROOT


def test_the_page_of_settings_is_written_from_the_fields() -> None:
    assert (ROOT / "docs" / "settings.md").read_text(encoding="utf-8") == settings_page(), "run make docs"

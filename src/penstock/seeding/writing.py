"""A seed document as TOML."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping
from typing import Any

import tomli_w


def to_toml(document: Mapping[str, Any]) -> str:
    """Return a document as TOML, with texts of several lines as such where TOML keeps their line ends."""
    text = tomli_w.dumps(document, multiline_strings=True)
    return text if tomllib.loads(text) == document else tomli_w.dumps(document)

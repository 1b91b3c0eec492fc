"""`penstock version`."""

from __future__ import annotations


def version() -> None:
    """Print the version."""
    from penstock.settings import installed_version

    print(installed_version())

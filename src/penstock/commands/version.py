"""`penstock version`."""

from __future__ import annotations

from penstock.commands.help import command


@command()
def version() -> None:
    """Print the version."""
    from penstock.distribution import installed_version

    print(installed_version())

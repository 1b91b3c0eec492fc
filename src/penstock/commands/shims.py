"""`penstock shims`."""

from __future__ import annotations

import click

from penstock.commands.help import command
from penstock.commands.parameters import argument
from penstock.emulators.shims import SHIMS, write_shims
from penstock.terminal import tell


@command()
@argument("folder", metavar="FOLDER", help="Folder for the scripts. It is created if it does not exist.")
@click.option("--force", is_flag=True, help="Also replace files that are not shims.")
def shims(folder: str, *, force: bool) -> None:
    """Write the scripts gcloud, azurite and azurite-queue, which start Penstock, to a folder.

    If the folder is first on PATH, the scripts replace the vendors' commands. Use a folder of its own.

      penstock shims ./shims && PATH="$PWD/shims:$PATH" ./run-tests
    """
    write_shims(folder, force)
    tell(f"Wrote {', '.join(SHIMS)} to {folder}.")

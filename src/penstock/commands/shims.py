"""`penstock shims`: small scripts named as the vendors' commands, for programs that start those."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path
from typing import Annotated

import typer

from penstock.errors import FailedPreconditionError

SHIMS = {"gcloud": "gcloud", "azurite": "azurite", "azurite-queue": "azurite"}
MARK = "# A shim of Penstock's:"


def shims(
    folder: Annotated[str, typer.Argument(metavar="FOLDER", help="It is made if it is not there.")],
    *,
    force: Annotated[bool, typer.Option("--force", help="Also over files that are not shims.")] = False,
) -> None:
    """Write gcloud, azurite and azurite-queue, which start Penstock, into a folder.

    They hide the vendors' commands from whoever has the folder first on PATH, so a folder of their own is best.

      penstock shims ./shims && PATH="$PWD/shims:$PATH" ./run-tests
    """
    place = Path(folder)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name, command in SHIMS.items():
            _write(place / name, command, force)
    except OSError as error:
        raise FailedPreconditionError(f"Cannot write {error.filename}: {error.strerror}") from None
    print(f"Wrote {', '.join(SHIMS)} into {folder}.")


def _write(path: Path, command: str, force: bool) -> None:
    if path.exists() and not force and MARK not in path.read_text(encoding="utf-8", errors="replace"):
        raise FailedPreconditionError(f"{path} is not a shim of Penstock's; --force writes over it")
    # -P: a folder of the caller's that has our name, or a library's, is not ours.
    python = shlex.quote(sys.executable)
    text = f'#!/bin/sh\n{MARK} remove it to have the vendor\'s command.\nexec {python} -P -m penstock {command} "$@"\n'
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o755)
    temporary.replace(path)  # a symbolic link in its place is replaced, not followed

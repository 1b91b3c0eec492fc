"""Shims: scripts with the names of vendors' commands that start Penstock."""

from __future__ import annotations

import shlex
import sys
from pathlib import Path

from penstock.errors import FailedPreconditionError

SHIMS = {"gcloud": "gcloud", "azurite": "azurite", "azurite-queue": "azurite"}
MARK = "# A shim of Penstock's:"


def write_shims(folder: str, force: bool) -> None:
    """Write the scripts to a folder. `force` also replaces files that are not shims."""
    target = Path(folder)
    try:
        target.mkdir(parents=True, exist_ok=True)
        for name, command in SHIMS.items():
            _write(target / name, command, force)
    except OSError as error:
        raise FailedPreconditionError(f"Cannot write {error.filename}: {error.strerror}") from None


def _write(path: Path, command: str, force: bool) -> None:
    if path.exists() and not force and MARK not in path.read_text(encoding="utf-8", errors="replace"):
        raise FailedPreconditionError(f"{path} is not a shim of Penstock. Use --force to replace it")
    # -P: folders in the working directory must not hide our modules.
    python = shlex.quote(sys.executable)
    text = f'#!/bin/sh\n{MARK} remove it to have the vendor\'s command.\nexec {python} -P -m penstock {command} "$@"\n'
    temporary = path.with_name(f"{path.name}.tmp")
    temporary.write_text(text, encoding="utf-8")
    temporary.chmod(0o755)
    temporary.replace(path)  # a symbolic link in its place is replaced, not followed

"""The confirmation of commands that delete or change data."""

from __future__ import annotations

import sys

from penstock.commands.exit_codes import WrongUsageError
from penstock.errors import FailedPreconditionError
from penstock.terminal import tell


def confirm(question: str, yes: bool) -> None:
    """Ask a question on the terminal, unless --yes was given. Raise an error unless the answer is yes."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise WrongUsageError(f"{question} Use --yes to confirm without a terminal")
    tell(f"{question} [y/N] ", end="", file=sys.stderr)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise FailedPreconditionError("Nothing was changed")

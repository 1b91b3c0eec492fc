"""The question before harm. Where nobody can answer it, the answer has to be on the command line."""

from __future__ import annotations

import sys

from penstock.commands.exits import WrongUsageError
from penstock.errors import FailedPreconditionError


def ask(question: str, yes: bool) -> None:
    """Go on if the answer is yes, typed or given before; else nothing is changed."""
    if yes:
        return
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        raise WrongUsageError(f"{question} Without a terminal this needs --yes")
    print(f"{question} [y/N] ", end="", file=sys.stderr, flush=True)
    if sys.stdin.readline().strip().lower() not in ("y", "yes"):
        raise FailedPreconditionError("Nothing was changed")

"""How a command ends: its exit code, and one sentence on standard error for what went wrong."""

from __future__ import annotations

import sys

from penstock.errors import InvalidArgumentError, NotFoundError, PenstockError, UnavailableError

DONE, FAILED, WRONG_USAGE, NOT_FOUND, UNREACHABLE, PARTLY_DONE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
NOT_READ = 141  # as a shell says it of a tool that ended when its pipe was closed


class WrongUsageError(InvalidArgumentError):
    """The command line itself is wrong; the server was not asked."""


def exit_code(error: PenstockError) -> int:
    codes: dict[type[PenstockError], int] = {
        WrongUsageError: WRONG_USAGE,
        NotFoundError: NOT_FOUND,
        UnavailableError: UNREACHABLE,
    }
    return next((code for kind, code in codes.items() if isinstance(error, kind)), FAILED)


def complain(sentence: str) -> None:
    from penstock.logs import escape_controls

    print(f"penstock: {escape_controls(sentence)}", file=sys.stderr)

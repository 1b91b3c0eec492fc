"""Exit codes of commands, and their error messages on standard error."""

from __future__ import annotations

import sys

from penstock.errors import InvalidArgumentError, NotFoundError, PenstockError, UnavailableError

DONE, FAILED, WRONG_USAGE, NOT_FOUND, UNREACHABLE, PARTLY_DONE, INTERRUPTED = 0, 1, 2, 3, 4, 5, 130
OUTPUT_CLOSED = 141  # the exit code that shells report when a tool ends because its pipe was closed


class WrongUsageError(InvalidArgumentError):
    """An invalid command line. The server was not called."""


def exit_code(error: PenstockError) -> int:
    codes: dict[type[PenstockError], int] = {
        WrongUsageError: WRONG_USAGE,
        NotFoundError: NOT_FOUND,
        UnavailableError: UNREACHABLE,
    }
    return next((code for kind, code in codes.items() if isinstance(error, kind)), FAILED)


def complain(sentence: str) -> None:
    from penstock.terminal import safe_text

    print(f"penstock: {safe_text(sentence)}", file=sys.stderr)

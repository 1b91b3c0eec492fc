"""What happens when a command meets a bug: it is counted, said in the log, and undone.

The rule kept here: the caller gets an error, and nobody else notices. Whatever the command had changed when it broke
off is gone, so that the next command finds a state that commands have led to.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from pathlib import Path
from traceback import extract_tb
from types import MappingProxyType

from penstock.errors import InternalError, PenstockError

log = logging.getLogger("penstock")

PACKAGE = Path(__file__).parent.parent


class Guard:
    """Judges what a command raised: what is no PenstockError is a bug, and calls `undo`.

    It stands in the `except` of a `try`, which costs a command nothing; a `with` costs two calls.
    """

    __slots__ = ("_counts", "_undo")

    def __init__(self, undo: Callable[[], None]) -> None:
        self._undo = undo
        self._counts: dict[str, int] = {}

    @property
    def counts(self) -> Mapping[str, int]:
        """Bugs met since the start, by their place in the code."""
        return MappingProxyType(self._counts)

    def judge(self, error: Exception) -> None:
        """Raise an InternalError in place of a bug; return for what may go on as it is."""
        # The end of steps is a StopIteration; a bug in them cannot be one.
        if isinstance(error, PenstockError | StopIteration):
            return
        place = _place(error)
        self._counts[place] = self._counts.get(place, 0) + 1
        first = self._counts[place] == 1
        log.error("A command met a bug at %s and is undone: please report it", place, exc_info=first)
        self._undo()
        raise InternalError("The command met an internal error and was not carried out") from error


def _place(error: Exception) -> str:
    """Where it broke: the innermost line of our own. Not the text of the error: it may hold what a peer sent."""
    frames = [each for each in extract_tb(error.__traceback__) if Path(each.filename).is_relative_to(PACKAGE)]
    where = f"{Path(frames[-1].filename).relative_to(PACKAGE)}:{frames[-1].lineno}" if frames else "unknown"
    return f"{where} {type(error).__name__}"

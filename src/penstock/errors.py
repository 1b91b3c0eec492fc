"""The one error tree of Penstock.

    PenstockError
    ├── InvalidArgumentError      the request itself is wrong; repeating it cannot help
    ├── NotFoundError             the named topic, subscription, snapshot or document does not exist
    ├── AlreadyExistsError        the name is taken
    ├── PermissionDeniedError     the caller may not do this
    ├── FailedPreconditionError   right request, wrong state (detached, fenced, still in use)
    ├── ResourceExhaustedError    a limit is reached: size, backlog, disk
    ├── UnavailableError          try again later: the store is closed or stopping
    │   └── LostReplyError        no answer: the door closes the connection (only faults of tests)
    ├── DamagedStoreError         the store on disk contradicts itself; nothing was changed
    └── InternalError             a failure of the store that stops the broker

`code` is the gRPC status code of a class. Each door has its own table from classes to the errors of its protocol.
Expected outcomes (no message to pull, an old receipt among many) are values, not errors.
"""

from __future__ import annotations

import traceback
from pathlib import Path
from typing import ClassVar

_PLACES = 6  # stack frames of an unexpected exception in a log line


class PenstockError(Exception):
    """Something went wrong in Penstock."""

    code: ClassVar[int] = 2
    retry_after_seconds: float | None = None  # when to try again, for protocols that can say so
    protocol_code: str = ""  # a code of the caller's protocol, instead of the code in the table of its door

    def __init__(self, message: str | None = None) -> None:
        super().__init__(message or (type(self).__doc__ or "").strip())

    @property
    def message(self) -> str:
        return str(self.args[0])


class InvalidArgumentError(PenstockError):
    """The request is not valid."""

    code = 3


class OtherMessagesError(InvalidArgumentError):
    """A publish repeats the publish-once key of another publish, and has other messages."""


class NotFoundError(PenstockError):
    """The resource was not found."""

    code = 5


class AlreadyExistsError(PenstockError):
    """The resource exists already."""

    code = 6


class PermissionDeniedError(PenstockError):
    """The caller is not allowed to do this."""

    code = 7


class ResourceExhaustedError(PenstockError):
    """A limit is reached."""

    code = 8


class FailedPreconditionError(PenstockError):
    """The resource is not in a state that allows this."""

    code = 9


class InternalError(PenstockError):
    """The store failed and the broker has stopped."""

    code = 13


class UnavailableError(PenstockError):
    """The broker is not available; try again later."""

    code = 14


class LostReplyError(UnavailableError):
    """The connection was closed before its answer."""


class DamagedStoreError(PenstockError):
    """The store on disk is damaged."""

    code = 15


def where(error: BaseException) -> str:
    """Return the places of a bug, innermost first, for a log line.

    For example `KeyError at codec.py:12 in decode < server.py:80 in answer`. The text of the
    error is left out, because it may contain a body, a key or a signature. Log it at debug level only.
    """
    frames = traceback.extract_tb(error.__traceback__)[-_PLACES:]
    places = [f"{Path(frame.filename).name}:{frame.lineno} in {frame.name}" for frame in reversed(frames)]
    return f"{type(error).__name__} at {' < '.join(places)}" if places else type(error).__name__

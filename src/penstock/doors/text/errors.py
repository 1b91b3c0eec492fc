"""The error codes of the text protocol, and the table from our error tree to these codes."""

from __future__ import annotations

from penstock import errors
from penstock.doors.text.requests import Fault

# T-052: these close the connection. After other codes it goes on (T-051). The first three come from the frames.
CLOSING = {"malformed", "unknown-version", "too-large", "too-slow", "busy", "internal"}

# T-053: in version 01, which has no error message, all codes but these close the connection.
FORGIVEN = {"not-held"}

CODES: dict[type[errors.PenstockError], str] = {
    errors.InvalidArgumentError: "refused",
    errors.PermissionDeniedError: "refused",
    errors.NotFoundError: "unavailable",  # another client has just deleted the queue
    errors.AlreadyExistsError: "conflict",
    errors.FailedPreconditionError: "conflict",
    errors.ResourceExhaustedError: "full",
    errors.UnavailableError: "unavailable",
    errors.DamagedStoreError: "internal",
    errors.InternalError: "internal",
}

ALL = frozenset({*CODES.values(), "busy"})  # codes that can answer any request


def fault_of(error: BaseException, version: int, refused: int, queue: bytes = b"", message_id: bytes = b"") -> Fault:
    """Return the answer to an error of the broker. A class that is not in the table counts as its nearest base."""
    for kind in type(error).__mro__:
        if kind in CODES:
            sentence = error.message if isinstance(error, errors.PenstockError) else ""
            code = getattr(error, "protocol_code", "") or CODES[kind]
            return Fault(version, code, sentence, refused, queue, message_id)
    return Fault(version, "internal", "The endpoint failed.", refused, queue, message_id)


def invalid_queue(sentence: str) -> errors.InvalidArgumentError:
    """Return the error for a name that no queue can have (T-011)."""
    error = errors.InvalidArgumentError(sentence)
    error.protocol_code = "invalid-queue"
    return error


def queue_gone() -> errors.NotFoundError:
    """Return the error that closes the windows of a deleted queue (T-045)."""
    error = errors.NotFoundError(
        "The queue was deleted, and its window is closed. A new request creates the queue again."
    )
    error.protocol_code = "gone"
    return error


def not_held(version: int, refused: int, queue: bytes, message_id: bytes) -> Fault:
    return Fault(version, "not-held", "The message is not outstanding on this connection.", refused, queue, message_id)

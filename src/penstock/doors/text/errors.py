"""How errors look on this door: the codes of the protocol, and one table from the error tree to them."""

from __future__ import annotations

from penstock import errors
from penstock.doors.text.requests import Fault

# T-052: after these the connection closes, after others it goes on (T-051). The first three come from the frames.
CLOSING = {"malformed", "unknown-version", "too-large", "too-slow", "busy", "internal"}

# T-053: version 01 has no messages for faults, and these do not close the connection either.
FORGIVEN = {"not-held"}

CODES: dict[type[errors.PenstockError], str] = {
    errors.InvalidArgumentError: "refused",
    errors.PermissionDeniedError: "refused",
    errors.NotFoundError: "unavailable",  # deleted by another client at this very moment
    errors.AlreadyExistsError: "conflict",
    errors.FailedPreconditionError: "conflict",
    errors.ResourceExhaustedError: "full",
    errors.UnavailableError: "unavailable",
    errors.DamagedStoreError: "internal",
    errors.InternalError: "internal",
}


ALL = frozenset({*CODES.values(), "busy"})  # what a request may be answered with, whatever was wrong


def fault_of(error: BaseException, version: int, refused: int, queue: bytes = b"", message_id: bytes = b"") -> Fault:
    """The answer to an error of the broker; a class of its own kind counts as the nearest one in the table."""
    for kind in type(error).__mro__:
        if kind in CODES:
            sentence = error.message if isinstance(error, errors.PenstockError) else ""
            code = getattr(error, "protocol_code", "") or CODES[kind]
            return Fault(version, code, sentence, refused, queue, message_id)
    return Fault(version, "internal", "The endpoint failed.", refused, queue, message_id)


def not_held(version: int, refused: int, queue: bytes, message_id: bytes) -> Fault:
    return Fault(version, "not-held", "The message is not outstanding on this connection.", refused, queue, message_id)

"""How errors look on this door: one table from the error tree to gRPC codes, one from those to HTTP statuses.

UNKNOWN is never sent: clients repeat it for minutes.
"""

from __future__ import annotations

from enum import IntEnum

from penstock import errors
from penstock.doors.google.messages import Any_, ErrorInfo, Status

DOMAIN = "pubsub.googleapis.com"


class Code(IntEnum):
    OK = 0
    CANCELLED = 1
    UNKNOWN = 2
    INVALID_ARGUMENT = 3
    DEADLINE_EXCEEDED = 4
    NOT_FOUND = 5
    ALREADY_EXISTS = 6
    PERMISSION_DENIED = 7
    RESOURCE_EXHAUSTED = 8
    FAILED_PRECONDITION = 9
    ABORTED = 10
    OUT_OF_RANGE = 11
    UNIMPLEMENTED = 12
    INTERNAL = 13
    UNAVAILABLE = 14
    DATA_LOSS = 15
    UNAUTHENTICATED = 16


CODES: dict[type[errors.PenstockError], Code] = {
    errors.InvalidArgumentError: Code.INVALID_ARGUMENT,
    errors.NotFoundError: Code.NOT_FOUND,
    errors.AlreadyExistsError: Code.ALREADY_EXISTS,
    errors.PermissionDeniedError: Code.PERMISSION_DENIED,
    errors.ResourceExhaustedError: Code.RESOURCE_EXHAUSTED,
    errors.FailedPreconditionError: Code.FAILED_PRECONDITION,
    errors.UnavailableError: Code.UNAVAILABLE,
    errors.DamagedStoreError: Code.DATA_LOSS,
    errors.InternalError: Code.INTERNAL,
}

HTTP_STATUSES: dict[Code, int] = {
    Code.OK: 200,
    Code.CANCELLED: 499,
    Code.UNKNOWN: 500,
    Code.INVALID_ARGUMENT: 400,
    Code.DEADLINE_EXCEEDED: 504,
    Code.NOT_FOUND: 404,
    Code.ALREADY_EXISTS: 409,
    Code.PERMISSION_DENIED: 403,
    Code.RESOURCE_EXHAUSTED: 429,
    Code.FAILED_PRECONDITION: 400,
    Code.ABORTED: 409,
    Code.OUT_OF_RANGE: 400,
    Code.UNIMPLEMENTED: 501,
    Code.INTERNAL: 500,
    Code.UNAVAILABLE: 503,
    Code.DATA_LOSS: 500,
    Code.UNAUTHENTICATED: 401,
}


class CallError(Exception):
    """A call ends with this code; what the broker does not decide is decided with it."""

    def __init__(self, code: Code, message: str, reasons: dict[str, str] | None = None, reason: str = "") -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason  # of ErrorInfo; empty: no details
        self.reasons = reasons or {}

    def status(self) -> bytes:
        """google.rpc.Status, as grpc-status-details-bin carries it; empty without details."""
        if not self.reason:
            return b""
        info = ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.reasons)
        packed = Any_()
        packed.Pack(info)
        encoded: bytes = Status(code=int(self.code), message=self.message, details=[packed]).SerializeToString()
        return encoded


def call_error(error: Exception) -> CallError | None:
    """What the client is told of an error; None if nobody expected it."""
    if isinstance(error, CallError):
        return error
    for kind in type(error).__mro__:
        if kind in CODES:
            return CallError(CODES[kind], str(error))
    return None


def invalid(message: str) -> CallError:
    return CallError(Code.INVALID_ARGUMENT, message)


def not_found(name: str) -> CallError:
    return CallError(Code.NOT_FOUND, f"Resource not found (resource={name.rpartition('/')[2]}).")


def already_exists(name: str) -> CallError:
    return CallError(
        Code.ALREADY_EXISTS, f"Resource already exists in the project (resource={name.rpartition('/')[2]})."
    )


def failed_precondition(message: str) -> CallError:
    return CallError(Code.FAILED_PRECONDITION, message)


def bad_argument(field: str) -> CallError:
    """Production's words for a field whose value cannot be."""
    return invalid(f"You have passed an invalid argument to the service (argument={field}).")

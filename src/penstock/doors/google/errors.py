"""The errors of the Pub/Sub API: gRPC codes with their HTTP statuses, and a table from our error tree to the codes.

UNKNOWN is sent only if a fault rule asks for it, because clients repeat a call for minutes after it.
"""

from __future__ import annotations

from enum import IntEnum
from typing import Any

from penstock import errors
from penstock.doors.google.messages import Any_, Duration, ErrorInfo, Status

DOMAIN = "pubsub.googleapis.com"
ERROR_INFO = "type.googleapis.com/google.rpc.ErrorInfo"
RETRY_INFO = "type.googleapis.com/google.rpc.RetryInfo"


class Code(IntEnum):
    """A gRPC code with the HTTP status of the same error."""

    http: int

    OK = 0, 200
    CANCELLED = 1, 499
    UNKNOWN = 2, 500
    INVALID_ARGUMENT = 3, 400
    DEADLINE_EXCEEDED = 4, 504
    NOT_FOUND = 5, 404
    ALREADY_EXISTS = 6, 409
    PERMISSION_DENIED = 7, 403
    RESOURCE_EXHAUSTED = 8, 429
    FAILED_PRECONDITION = 9, 400
    ABORTED = 10, 409
    OUT_OF_RANGE = 11, 400
    UNIMPLEMENTED = 12, 501
    INTERNAL = 13, 500
    UNAVAILABLE = 14, 503
    DATA_LOSS = 15, 500
    UNAUTHENTICATED = 16, 401

    def __new__(cls, number: int, http: int) -> Code:
        code = int.__new__(cls, number)
        code._value_ = number
        code.http = http
        return code


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


class CallError(Exception):
    """The error of a call, raised by this door for its own checks."""

    def __init__(
        self,
        code: Code,
        message: str,
        reasons: dict[str, str] | None = None,
        reason: str = "",
        retry_after_seconds: float | None = None,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.reason = reason  # the reason in ErrorInfo. Empty: no ErrorInfo is sent
        self.reasons = reasons or {}
        self.retry_after_seconds = retry_after_seconds

    def status(self) -> bytes:
        """Return the google.rpc.Status for grpc-status-details-bin, or nothing if there are no details."""
        details = []
        if self.reason:
            details.append(Any_())
            details[0].Pack(ErrorInfo(reason=self.reason, domain=DOMAIN, metadata=self.reasons))
        if self.retry_after_seconds is not None:
            delay = Duration(nanos=round(self.retry_after_seconds % 1 * 1e9), seconds=int(self.retry_after_seconds))
            value = delay.SerializeToString()  # RetryInfo has this one field
            details.append(Any_(type_url=RETRY_INFO, value=bytes((0x0A, len(value))) + value))
        if not details:
            return b""
        encoded: bytes = Status(code=int(self.code), message=self.message, details=details).SerializeToString()
        return encoded

    def details(self) -> list[dict[str, Any]]:
        """Return the details for a REST answer."""
        details: list[dict[str, Any]] = []
        if self.reason:
            details.append({"@type": ERROR_INFO, "reason": self.reason, "domain": DOMAIN, "metadata": self.reasons})
        if self.retry_after_seconds is not None:
            details.append({"@type": RETRY_INFO, "retryDelay": f"{self.retry_after_seconds:g}s"})
        return details


def call_error(error: Exception) -> CallError | None:
    """Return the error that the client gets, or None if the error is unexpected."""
    if isinstance(error, CallError):
        return error
    for kind in type(error).__mro__:
        if kind in CODES:
            assert isinstance(error, errors.PenstockError), "the table has only our own errors"
            code = Code[error.protocol_code] if error.protocol_code else CODES[kind]
            return CallError(code, error.message, retry_after_seconds=error.retry_after_seconds)
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
    """Return production's error for an invalid field."""
    return invalid(f"You have passed an invalid argument to the service (argument={field}).")

"""Errors of the HTTP door: one table from the error tree to HTTP statuses, and one JSON format."""

from __future__ import annotations

from math import ceil

import msgspec

from penstock import errors
from penstock.wire.http1 import Response
from penstock.wire.http1_message import phrase

STATUSES: dict[type[errors.PenstockError], int] = {
    errors.InvalidArgumentError: 400,
    errors.PermissionDeniedError: 403,
    errors.NotFoundError: 404,
    errors.AlreadyExistsError: 409,
    errors.FailedPreconditionError: 412,
    errors.ResourceExhaustedError: 429,
    errors.DamagedStoreError: 500,
    errors.InternalError: 500,
    errors.UnavailableError: 503,
}

# For requests that are refused before a handler sees them.
SENTENCES = {
    400: "Invalid HTTP request.",
    408: "The request did not arrive in time.",
    413: "The body is too large; the admin API accepts at most 16 MiB.",
    431: "The request headers are too large.",
    500: "Internal server error; the log has details.",
    503: "The server is busy; try again later.",
}

JSON = ("Content-Type", "application/json")


def error_body(status: int, message: str) -> bytes:
    sentence = message or SENTENCES.get(status) or phrase(status)
    return msgspec.json.encode({"error": {"code": status, "message": sentence}})


def error_response(status: int, message: str = "", *headers: tuple[str, str]) -> Response:
    return Response(status, (JSON, *headers), error_body(status, message))


def status_of(error: errors.PenstockError) -> int:
    """Return the status of an error by its class or its nearest base class, or 0 if the table has none."""
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 0)


def response_to(error: errors.PenstockError) -> Response:
    status = status_of(error)
    return error_response(status, error.message, *retry_after(error)) if status else error_response(500)


def retry_after(error: errors.PenstockError) -> tuple[tuple[str, str], ...]:
    return (("Retry-After", str(ceil(error.retry_after_seconds))),) if error.retry_after_seconds is not None else ()

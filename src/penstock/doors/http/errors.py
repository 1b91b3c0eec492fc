"""How errors look on this door: one table from the error tree to HTTP statuses, one JSON shape for all of them."""

from __future__ import annotations

from math import ceil

import msgspec

from penstock import errors
from penstock.wire.http1 import Response
from penstock.wire.message import phrase

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

# What never becomes a request of a handler.
SENTENCES = {
    400: "This is not a request of HTTP.",
    408: "The request did not arrive in time.",
    413: "The body is too large; the admin API takes 16 MiB at most.",
    431: "The head of the request is too large.",
    500: "The request met a fault of the server; its log says more.",
    503: "The server is busy; try again later.",
}

JSON = ("Content-Type", "application/json")


def error_body(status: int, message: str) -> bytes:
    sentence = message or SENTENCES.get(status) or phrase(status)
    return msgspec.json.encode({"error": {"code": status, "message": sentence}})


def error_response(status: int, message: str = "", *headers: tuple[str, str]) -> Response:
    return Response(status, (JSON, *headers), error_body(status, message))


def status_of(error: errors.PenstockError) -> int:
    """A class of its own kind counts as the nearest one in the table; 0: there is none."""
    return next((STATUSES[kind] for kind in type(error).__mro__ if kind in STATUSES), 0)


def response_to(error: errors.PenstockError) -> Response:
    """The answer to an expected error."""
    status = status_of(error)
    return error_response(status, error.message, *retry_after(error)) if status else error_response(500)


def retry_after(error: errors.PenstockError) -> tuple[tuple[str, str], ...]:
    return (("Retry-After", str(ceil(error.retry_after_seconds))),) if error.retry_after_seconds is not None else ()

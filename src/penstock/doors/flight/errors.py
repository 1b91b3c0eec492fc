"""The error codes for Flight clients: the table from our error tree to codes, and from codes to Flight's classes.

Only a FlightError may leave a call. Of any other exception Flight would send the traceback.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
import pyarrow.flight as flight

from penstock import errors
from penstock.errors import PenstockError, where

CODES: dict[type[PenstockError], str] = {
    errors.InvalidArgumentError: "invalid_argument",
    errors.OtherMessagesError: "other_messages",
    errors.NotFoundError: "not_found",
    errors.AlreadyExistsError: "already_exists",
    errors.PermissionDeniedError: "unauthenticated",
    errors.ResourceExhaustedError: "resource_exhausted",
    errors.FailedPreconditionError: "failed_precondition",
    errors.UnavailableError: "unavailable",
    errors.DamagedStoreError: "internal",
    errors.InternalError: "internal",
}

# Characters of a long sentence that a client gets, as it may quote a large schema. gRPC refuses to receive more than
# 8 KiB of headers, and the sentence is in them twice, with up to 17 bytes a character.
BEGINNING, ENDING = 300, 150
CLASSES: dict[str, Any] = {
    "unauthenticated": flight.FlightUnauthenticatedError,
    "unavailable": flight.FlightUnavailableError,
    "internal": flight.FlightInternalError,
}


class OutOfRangeError(errors.NotFoundError):
    """The requested messages are no longer kept. Without an earliest offset, another topic has the name now."""

    def __init__(self, topic: str, wanted: int = 0, earliest: int | None = None) -> None:
        super().__init__(
            f"Topic {topic} was deleted and made again; its old messages from offset {wanted} on are gone"
            if earliest is None
            else f"Topic {topic} no longer has offset {wanted}: the earliest kept is {earliest}"
        )
        self.topic, self.wanted, self.earliest = topic, wanted, earliest


def describe(error: PenstockError) -> dict[str, Any]:
    """Return the content of `extra_info` for an error."""
    if isinstance(error, OutOfRangeError):
        details: dict[str, Any] = {"topic": error.topic, "wanted": error.wanted}
        if error.earliest is not None:
            details["earliest"] = error.earliest
        return {"code": "out_of_range", "message": error.message, **details}
    code = next((CODES[kind] for kind in type(error).__mro__ if kind in CODES), "internal")
    return {"code": code, "message": error.message}


def flight_error(error: PenstockError) -> Exception:
    details = describe(error)
    kind = CLASSES.get(details["code"], flight.FlightServerError)
    if len(error.message) > BEGINNING + ENDING:
        details["message"] = f"{error.message[:BEGINNING]}...{error.message[-ENDING:]}"
    raised: Exception = kind(details["message"], msgspec.json.encode(details))
    return raised


def code_of(error: BaseException) -> str:
    """Return the code that a client gets for an error that leaves a call."""
    if not isinstance(error, flight.FlightError) or not error.extra_info:
        return "cancelled" if isinstance(error, GeneratorExit) else "internal"
    return str(msgspec.json.decode(error.extra_info)["code"])


@contextmanager
def flight_errors(log: logging.Logger, what: str) -> Iterator[None]:
    """Turn any error inside into a FlightError with one sentence."""
    try:
        yield
    except PenstockError as error:
        log.debug("refused %s: %s", what, describe(error)["code"])
        raise flight_error(error) from None
    except flight.FlightError:
        raise
    except Exception as error:  # noqa: BLE001 - a bug: details go into the log only
        log.error("%s failed: %s", what, where(error))
        raise flight_error(errors.InternalError("The server failed to do this; its log says more")) from None

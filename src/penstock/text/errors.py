"""The exceptions for the error codes of the protocol. An unknown code, of a newer endpoint, is a PenstockError."""

from __future__ import annotations

from penstock import errors

CLASSES: dict[str, type[errors.PenstockError]] = {
    "malformed": errors.InvalidArgumentError,
    "unknown-version": errors.InvalidArgumentError,
    "too-large": errors.InvalidArgumentError,
    "too-slow": errors.UnavailableError,
    "busy": errors.UnavailableError,
    "unknown-type": errors.InvalidArgumentError,
    "unknown-package": errors.InvalidArgumentError,
    "wrong-count": errors.InvalidArgumentError,
    "missing-package": errors.InvalidArgumentError,
    "invalid-queue": errors.InvalidArgumentError,
    "invalid-id": errors.InvalidArgumentError,
    "invalid-number": errors.InvalidArgumentError,
    "not-held": errors.FailedPreconditionError,
    "gone": errors.NotFoundError,
    "conflict": errors.FailedPreconditionError,
    "full": errors.ResourceExhaustedError,
    "refused": errors.InvalidArgumentError,
    "unavailable": errors.UnavailableError,
    "internal": errors.InternalError,
}


def error_of(code: str, sentence: str) -> errors.PenstockError:
    return CLASSES.get(code, errors.PenstockError)(f"{sentence} ({code})")

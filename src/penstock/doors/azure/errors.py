"""The vendor's error codes with their messages, and the table from our error tree to these codes."""

from __future__ import annotations

from collections.abc import Sequence
from math import ceil
from typing import TypeAlias

from penstock import errors
from penstock.doors.azure.xml import DECLARATION, elements, printable

Pairs: TypeAlias = Sequence[tuple[str, str]]

_SIGN_IN = "Server failed to authenticate the request."
_NOT_ALLOWED = "This request is not authorized to perform this operation"

# code -> (status, sentence)
CODES: dict[str, tuple[int, str]] = {
    "AccountIsDisabled": (403, "The specified account is disabled."),
    "AuthenticationFailed": (
        403,
        f"{_SIGN_IN} Make sure the value of Authorization header is formed correctly including the signature.",
    ),
    "AuthorizationFailure": (403, f"{_NOT_ALLOWED}."),
    "AuthorizationPermissionMismatch": (403, f"{_NOT_ALLOWED} using this permission."),
    "AuthorizationProtocolMismatch": (403, f"{_NOT_ALLOWED} using this protocol."),
    "AuthorizationResourceTypeMismatch": (403, f"{_NOT_ALLOWED} using this resource type."),
    "AuthorizationServiceMismatch": (403, f"{_NOT_ALLOWED} using this service."),
    "AuthorizationSourceIPMismatch": (403, f"{_NOT_ALLOWED} using this source IP."),
    "CorsPreflightFailure": (403, "CORS not enabled or no matching rule found for this request."),
    "EmptyMetadataKey": (400, "The key for one of the metadata key-value pairs is empty."),
    "InsufficientAccountPermissions": (403, "Write operations are not allowed."),
    "InternalError": (500, "Server encountered an internal error. Please try again after some time."),
    "InvalidAuthenticationInfo": (401, f"{_SIGN_IN} Please refer to the information in the www-authenticate header."),
    "InvalidHeaderValue": (400, "The value for one of the HTTP headers is not in the correct format."),
    "InvalidInput": (400, "One of the request inputs is not valid."),
    "InvalidMd5": (
        400,
        "The MD5 value specified in the request is invalid. MD5 value must be 128 bits and base64 encoded.",
    ),
    "InvalidMessageContent": (400, "The message text must not be empty."),
    "InvalidMetadata": (400, "The metadata specified is invalid. It has characters that are not permitted."),
    "InvalidPopReceipt": (400, "The specified pop receipt did not match the pop receipt of a message in the queue."),
    "InvalidQueryParameter": (400, "A query parameter specified in the request URI is not supported."),
    "InvalidQueryParameterValue": (
        400,
        "Value for one of the query parameters specified in the request URI is invalid.",
    ),
    "InvalidQueueName": (400, "The specified queue name is not valid."),
    "InvalidResourceName": (400, "The specifed resource name contains invalid characters."),  # the service's spelling
    "InvalidUri": (400, "The requested URI does not represent any resource on the server."),
    "InvalidXmlDocument": (400, "XML specified is not syntactically valid."),
    "InvalidXmlNodeValue": (400, "The value for one of the XML nodes is not in the correct format."),
    "Md5Mismatch": (
        400,
        "The MD5 value specified in the request did not match with the MD5 value calculated by the server.",
    ),
    "MessageNotFound": (404, "The specified message does not exist."),
    "MetadataTooLarge": (400, "The metadata specified exceeds the maximum permissible limit (8KB)."),
    "MissingRequiredQueryParameter": (400, "A query parameter that's mandatory for this request is not specified."),
    "OperationTimedOut": (500, "The operation could not be completed within the permitted time."),
    "OutOfRangeInput": (400, "One of the request inputs is out of range."),
    "OutOfRangeQueryParameterValue": (
        400,
        "One of the query parameters specified in the request URI is outside the permissible range.",
    ),
    "PopReceiptMismatch": (400, "The specified pop receipt did not match the pop receipt for a dequeued message."),
    "QueueAlreadyExists": (409, "The specified queue already exists."),
    "QueueNotFound": (404, "The specified queue does not exist."),
    "RequestBodyTooLarge": (413, "The request body is too large and exceeds the maximum permissible limit."),
    "ResourceNotFound": (404, "The specified resource does not exist."),
    "ServerBusy": (503, "The server is busy."),
    "UnsupportedHeader": (400, "One of the HTTP headers specified in the request is not supported."),
    "UnsupportedHttpVerb": (405, "The resource doesn't support specified Http Verb."),
}

BROKER_ERRORS: dict[type[errors.PenstockError], str] = {
    errors.InvalidArgumentError: "InvalidInput",
    errors.PermissionDeniedError: "AuthorizationFailure",
    errors.NotFoundError: "QueueNotFound",
    errors.AlreadyExistsError: "QueueAlreadyExists",
    errors.FailedPreconditionError: "QueueNotFound",
    errors.ResourceExhaustedError: "ServerBusy",
    errors.DamagedStoreError: "InternalError",
    errors.InternalError: "InternalError",
    errors.UnavailableError: "ServerBusy",
}

# Refusals of the HTTP server, before there is a request.
STATUSES: dict[int, str] = {
    400: "InvalidInput",
    408: "InvalidInput",
    413: "RequestBodyTooLarge",
    415: "UnsupportedHeader",
    417: "InvalidHeaderValue",
    431: "InvalidHeaderValue",
    500: "InternalError",
    501: "UnsupportedHttpVerb",
    503: "ServerBusy",
    505: "InvalidInput",
}


class AzureError(Exception):
    """A refusal in the vendor's words. `extras` are further elements of the body. `headers` go into the answer."""

    def __init__(
        self, code: str, *extras: tuple[str, str], message: str = "", status: int = 0, headers: Pairs = ()
    ) -> None:
        self.code = code
        self.status = status or CODES[code][0]
        self.message = message or CODES[code][1]
        self.extras = extras
        self.headers = headers
        super().__init__(code)


def from_broker(error: errors.PenstockError) -> AzureError:
    """Return the refusal for an error of the broker. A class that is not in the table counts as its nearest base."""
    code = next((BROKER_ERRORS[kind] for kind in type(error).__mro__ if kind in BROKER_ERRORS), "InternalError")
    wait = error.retry_after_seconds
    return AzureError(error.protocol_code or code, headers=() if wait is None else (("Retry-After", str(ceil(wait))),))


def error_body(error: AzureError, request_id: str, time: str) -> bytes:
    message = f"{error.message}\nRequestId:{request_id}\nTime:{time}"
    more = [(name, printable(value)) for name, value in error.extras]
    inner = elements([("Code", error.code), ("Message", message), *more])
    return f"{DECLARATION}<Error>{inner}</Error>".encode("utf-8", "replace")


# Refusals that several modules raise, with the extras that the vendor adds.


def invalid_value(name: str, value: str, reason: str) -> AzureError:
    parameter = ("QueryParameterName", name), ("QueryParameterValue", value)
    return AzureError("InvalidQueryParameterValue", *parameter, ("Reason", reason))


def out_of_range(name: str, value: str, minimum: int, maximum: int) -> AzureError:
    parameter = ("QueryParameterName", name), ("QueryParameterValue", value)
    bounds = ("MinimumAllowed", str(minimum)), ("MaximumAllowed", str(maximum))
    return AzureError("OutOfRangeQueryParameterValue", *parameter, *bounds)


def invalid_header(name: str, value: str) -> AzureError:
    return AzureError("InvalidHeaderValue", ("HeaderName", name), ("HeaderValue", value))


def not_authentic(detail: str) -> AzureError:
    return AzureError("AuthenticationFailed", ("AuthenticationErrorDetail", detail))


def too_large(limit: int) -> AzureError:
    return AzureError("RequestBodyTooLarge", ("MaxLimit", str(limit)))


def invalid_xml(reason: str, line: int = 1, position: int = 1) -> AzureError:
    fields = ("LineNumber", str(line)), ("LinePosition", str(position))
    return AzureError("InvalidXmlDocument", *fields, ("Reason", reason))


def invalid_node(name: str, value: str, reason: str) -> AzureError:
    return AzureError("InvalidXmlNodeValue", ("XmlNodeName", name), ("XmlNodeValue", value), ("Reason", reason))

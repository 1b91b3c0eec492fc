"""Every operation of the service: how a request asks for it, and what a shared access signature needs to allow it.

An operation without a permission in a column is never allowed by that kind of signature.
"""

from __future__ import annotations

from enum import Enum, auto
from typing import NamedTuple

from penstock.doors.azure.call import Call
from penstock.doors.azure.errors import AzureError, invalid_value


class Operation(Enum):
    LIST_QUEUES = auto()
    GET_SERVICE_PROPERTIES = auto()
    SET_SERVICE_PROPERTIES = auto()
    GET_STATS = auto()
    GET_USER_DELEGATION_KEY = auto()
    PREFLIGHT = auto()
    CREATE_QUEUE = auto()
    DELETE_QUEUE = auto()
    GET_METADATA = auto()
    SET_METADATA = auto()
    GET_ACL = auto()
    SET_ACL = auto()
    REDRIVE = auto()
    PUT_MESSAGE = auto()
    GET_MESSAGES = auto()
    PEEK_MESSAGES = auto()
    CLEAR_MESSAGES = auto()
    UPDATE_MESSAGE = auto()
    DELETE_MESSAGE = auto()


SERVICE, QUEUE, MESSAGES, MESSAGE = "service", "queue", "messages", "message"

# (method, where, restype, comp) -> operation
ROUTES: dict[tuple[str, str, str, str], Operation] = {
    ("GET", SERVICE, "", "list"): Operation.LIST_QUEUES,
    ("GET", SERVICE, "service", "properties"): Operation.GET_SERVICE_PROPERTIES,
    ("PUT", SERVICE, "service", "properties"): Operation.SET_SERVICE_PROPERTIES,
    ("GET", SERVICE, "service", "stats"): Operation.GET_STATS,
    ("POST", SERVICE, "service", "userdelegationkey"): Operation.GET_USER_DELEGATION_KEY,
    ("PUT", QUEUE, "", ""): Operation.CREATE_QUEUE,
    ("DELETE", QUEUE, "", ""): Operation.DELETE_QUEUE,
    ("GET", QUEUE, "", "metadata"): Operation.GET_METADATA,
    ("HEAD", QUEUE, "", "metadata"): Operation.GET_METADATA,
    ("PUT", QUEUE, "", "metadata"): Operation.SET_METADATA,
    ("GET", QUEUE, "", "acl"): Operation.GET_ACL,
    ("HEAD", QUEUE, "", "acl"): Operation.GET_ACL,
    ("PUT", QUEUE, "", "acl"): Operation.SET_ACL,
    ("POST", QUEUE, "", "redrive"): Operation.REDRIVE,
    ("POST", MESSAGES, "", ""): Operation.PUT_MESSAGE,
    ("GET", MESSAGES, "", ""): Operation.GET_MESSAGES,
    ("DELETE", MESSAGES, "", ""): Operation.CLEAR_MESSAGES,
    ("PUT", MESSAGE, "", ""): Operation.UPDATE_MESSAGE,
    ("DELETE", MESSAGE, "", ""): Operation.DELETE_MESSAGE,
}


class Allowed(NamedTuple):
    """What lets a signature do an operation: one of these permissions, on one of these resource types."""

    account: str = ""  # permissions of an account SAS; "": never
    types: str = ""  # its resource types: service, container (a queue), object (a message)
    service: str = ""  # permissions of a service or user delegation SAS; "": never


ALLOWED: dict[Operation, Allowed] = {
    Operation.LIST_QUEUES: Allowed("l", "s"),
    Operation.GET_SERVICE_PROPERTIES: Allowed("r", "s"),
    Operation.SET_SERVICE_PROPERTIES: Allowed("w", "s"),
    Operation.GET_STATS: Allowed("r", "s"),
    Operation.GET_USER_DELEGATION_KEY: Allowed(),
    Operation.CREATE_QUEUE: Allowed("cw", "c"),
    Operation.DELETE_QUEUE: Allowed("d", "c"),
    Operation.GET_METADATA: Allowed("r", "c", "r"),
    Operation.SET_METADATA: Allowed("w", "c"),
    Operation.GET_ACL: Allowed(),
    Operation.SET_ACL: Allowed(),
    Operation.REDRIVE: Allowed(),
    Operation.PUT_MESSAGE: Allowed("a", "o", "a"),
    Operation.GET_MESSAGES: Allowed("p", "o", "p"),
    Operation.PEEK_MESSAGES: Allowed("r", "o", "r"),
    Operation.CLEAR_MESSAGES: Allowed("d", "o"),
    Operation.UPDATE_MESSAGE: Allowed("u", "o", "u"),
    Operation.DELETE_MESSAGE: Allowed("p", "o", "p"),
}

# What the secondary endpoint, which only reads, can do.
READS = {
    Operation.LIST_QUEUES,
    Operation.GET_SERVICE_PROPERTIES,
    Operation.GET_STATS,
    Operation.GET_METADATA,
    Operation.GET_ACL,
    Operation.PEEK_MESSAGES,
}


def operation_of(call: Call) -> Operation:
    """What a request asks for. AzureError if the service has no such operation."""
    parameters, method = call.parameters, call.request.method
    where = (MESSAGE if call.message_id else MESSAGES) if call.messages else QUEUE if call.queue else SERVICE
    if method == "OPTIONS":
        return Operation.PREFLIGHT
    comp, restype = parameters.get("comp", ""), parameters.get("restype", "")
    operation = ROUTES.get((method, where, restype.lower(), comp.lower()))
    if operation is None:
        raise _unknown(call, where, comp, restype)
    if operation is Operation.GET_MESSAGES and "peekonly" in parameters:
        peek_only = parameters["peekonly"]
        found = {"true": Operation.PEEK_MESSAGES, "false": Operation.GET_MESSAGES}.get(peek_only.lower())
        if found is None:
            raise invalid_value("peekonly", peek_only, "Not a boolean")
        return found
    return operation


def _unknown(call: Call, where: str, comp: str, restype: str) -> AzureError:
    known = {(place, kind, part) for _, place, kind, part in ROUTES}
    if (where, restype.lower(), comp.lower()) in known:
        return AzureError("UnsupportedHttpVerb")
    if comp:
        return call.dialect.unknown_parameter("comp", comp)
    if restype:
        return invalid_value("restype", restype, "Not a known resource type")
    return AzureError("InvalidUri") if where == SERVICE else AzureError("UnsupportedHttpVerb")

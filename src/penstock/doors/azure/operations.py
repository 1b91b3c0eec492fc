"""Every operation of the service: the requests for it, and the permissions that a shared access signature needs."""

from __future__ import annotations

from enum import Enum

from penstock.doors.azure.call import Call
from penstock.doors.azure.errors import AzureError, invalid_value


class Operation(Enum):
    """An operation, with the permissions of a signature: one of them is needed, on one of the resource types."""

    LIST_QUEUES = (1, "l", "s")
    GET_SERVICE_PROPERTIES = (2, "r", "s")
    SET_SERVICE_PROPERTIES = (3, "w", "s")
    GET_STATS = (4, "r", "s")
    GET_USER_DELEGATION_KEY = (5,)
    PREFLIGHT = (6,)
    CREATE_QUEUE = (7, "cw", "c")
    DELETE_QUEUE = (8, "d", "c")
    GET_METADATA = (9, "r", "c", "r")
    SET_METADATA = (10, "w", "c")
    GET_ACL = (11,)
    SET_ACL = (12,)
    REDRIVE = (13,)
    PUT_MESSAGE = (14, "a", "o", "a")
    GET_MESSAGES = (15, "p", "o", "p")
    PEEK_MESSAGES = (16, "r", "o", "r")
    CLEAR_MESSAGES = (17, "d", "o")
    UPDATE_MESSAGE = (18, "u", "o", "u")
    DELETE_MESSAGE = (19, "p", "o", "p")

    def __init__(self, number: int, account: str = "", types: str = "", service: str = "") -> None:
        self.account = account  # permissions of an account SAS. Empty: no account SAS allows the operation
        self.types = types  # resource types of an account SAS: service, container (a queue), object (a message)
        self.service = service  # permissions of a service or user delegation SAS. Empty: none allows the operation


SERVICE, QUEUE, MESSAGES, MESSAGE = "service", "queue", "messages", "message"

# (method, resource, restype, comp) -> operation
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

# The operations of the secondary endpoint, which is read-only.
READS = {
    Operation.LIST_QUEUES,
    Operation.GET_SERVICE_PROPERTIES,
    Operation.GET_STATS,
    Operation.GET_METADATA,
    Operation.GET_ACL,
    Operation.PEEK_MESSAGES,
}


def operation_of(call: Call) -> Operation:
    """Return the operation of a request. Raise AzureError if the service has no such operation."""
    parameters, method = call.parameters, call.request.method
    resource = (MESSAGE if call.message_id else MESSAGES) if call.messages else QUEUE if call.queue else SERVICE
    if method == "OPTIONS":
        return Operation.PREFLIGHT
    comp, restype = parameters.get("comp", ""), parameters.get("restype", "")
    operation = ROUTES.get((method, resource, restype.lower(), comp.lower()))
    if operation is None:
        raise _unknown_operation(call, resource, comp, restype)
    if operation is Operation.GET_MESSAGES and "peekonly" in parameters:
        peek_only = parameters["peekonly"]
        if peek_only.lower() not in ("true", "false"):
            raise invalid_value("peekonly", peek_only, "Not a boolean")
        return Operation.PEEK_MESSAGES if peek_only.lower() == "true" else operation
    return operation


def _unknown_operation(call: Call, resource: str, comp: str, restype: str) -> AzureError:
    if (resource, restype.lower(), comp.lower()) in {route[1:] for route in ROUTES}:
        return AzureError("UnsupportedHttpVerb")
    if comp:
        return call.dialect.unknown_parameter("comp", comp)
    if restype:
        return invalid_value("restype", restype, "Not a known resource type")
    return AzureError("InvalidUri") if resource == SERVICE else AzureError("UnsupportedHttpVerb")

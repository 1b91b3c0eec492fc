"""A call: the account, queue, message and parameters of one request. And its reply."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, NamedTuple
from urllib.parse import unquote

from penstock.doors.azure.accounts import Accounts
from penstock.doors.azure.errors import AzureError, Pairs, invalid_value
from penstock.wire.http1_message import Request

if TYPE_CHECKING:
    from penstock.doors.azure.dialect import Dialect

SECONDARY = "-secondary"


class Call:
    __slots__ = (
        "account",
        "dialect",
        "message_id",
        "messages",
        "parameters",
        "queue",
        "repeated",
        "request",
        "request_id",
        "secondary",
        "version",
    )

    dialect: Dialect

    def __init__(self, request: Request, request_id: str) -> None:
        self.request = request
        self.request_id = request_id
        self.account = ""
        self.secondary = False
        self.queue = ""  # empty: the call is for the service itself
        self.messages = False  # the call is for the messages of the queue
        self.message_id = ""  # not empty: the call is for one message
        self.version = ""
        self.parameters: dict[str, str] = {}
        self.repeated: list[str] = []  # names of parameters given more than once

    def integer(self, name: str, default: int) -> int:
        """Return a parameter that is a whole number."""
        text = self.parameters.get(name)
        if text is None:
            return default
        digits = text[1:] if text[:1] == "-" else text
        if not (digits.isascii() and digits.isdigit()) or len(digits) > 18:
            raise invalid_value(name, text, "Not an integer")
        return int(text)


class Reply(NamedTuple):
    """The answer of an operation, without the headers that every answer has."""

    status: int
    body: bytes = b""  # XML, or empty
    headers: Pairs = ()


def read_parameters(call: Call) -> None:
    """Decode the query. A plus stays a plus, because signatures have them and no parameter has spaces."""
    parameters = call.parameters
    for part in call.request.query.split("&"):
        name, value = _decode(part) if "%" in part else part.partition("=")[::2]
        if not name:
            continue
        name = name.lower()
        if name in parameters:
            call.repeated.append(name)
        parameters[name] = value


@lru_cache(maxsize=1024)  # a client sends the same signature with every request
def _decode(part: str) -> tuple[str, str]:
    name, _, value = part.partition("=")
    return unquote(name), unquote(value, errors="surrogateescape")


def read_address(call: Call, accounts: Accounts, *, prefix: int = 0) -> None:
    """Read account, queue and message from the path (/account/queue/...).

    The first label of the host is the account if an account of that name was configured. `prefix` is the number of
    parts of the path before the account: 1 in the dialect's /queue/account/..., where the host has no account.
    """
    path = call.request.path
    parts = (unquote(path) if "%" in path else path).split("/")[1 + prefix :]
    host = call.request.header("host")
    label = host[: host.find(".")].lower() if "." in host and not prefix else ""
    if label and label.removesuffix(SECONDARY) in accounts:
        parts.insert(0, label)
    account = parts.pop(0) if parts else ""
    call.secondary = account.endswith(SECONDARY)
    call.account = account.removesuffix(SECONDARY)
    if parts and not parts[-1]:
        parts.pop()  # a trailing slash
    depth = len(parts)
    if depth > 3 or (depth > 1 and parts[1] != "messages") or (depth and not all(parts)):
        raise AzureError("InvalidUri")
    if depth:
        call.queue = parts[0]
        call.messages = depth > 1
        call.message_id = parts[2] if depth > 2 else ""

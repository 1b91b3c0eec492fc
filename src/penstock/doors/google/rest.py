"""REST over the same methods as gRPC: JSON in, JSON out.

A body may repeat what the path says: the path counts.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple
from urllib.parse import parse_qsl

import msgspec
from google.protobuf import json_format

from penstock.doors.google.calls import Calls, Context
from penstock.doors.google.errors import CallError, Code, invalid
from penstock.doors.google.json_messages import parse_message
from penstock.doors.google.messages import POOL
from penstock.doors.google.partial import chosen, parse_fields
from penstock.doors.google.policies import KIND as POLICY
from penstock.doors.google.routes import WHOLE, Match, match
from penstock.doors.google.schemas import KIND as SCHEMA
from penstock.engine.port import Queue
from penstock.errors import LostReplyError, NotFoundError
from penstock.wire.hosts import HostGuard, is_loopback, origin_host
from penstock.wire.http1 import Request, Response
from penstock.wire.message import phrase
from penstock.wire.requestlog import RequestLog

JSON = ("Content-Type", "application/json; charset=UTF-8")
PLAIN = ("Content-Type", "text/plain; charset=utf-8")
SERVER = ("Server", "Penstock")  # of the front page: who is here, for whoever finds the port taken
BODY_BYTES_MAX = 14 << 20  # 10 MB of messages in base64

# Parameters every Google API takes, most of them with a `$` and without: https://cloud.google.com/apis/docs/system-parameters
# Only `alt` and `fields` change an answer here; the others say how it should look, or who asks.
_LOOKS = ("callback", "key", "prettyPrint", "quotaUser", "userProject", "outputDefaults", "trace", "unique")
_SYSTEM = frozenset(
    {"$.xgafv", "access_token", "oauth_token", "uploadType", "upload_protocol", *_LOOKS, *(f"${n}" for n in _LOOKS)}
)
_ALT = frozenset({"alt", "$alt"})
_FIELDS = frozenset({"fields", "$fields"})
_ENCODINGS = {"json": False, "json;enum-encoding=int": True}  # are enums numbers?
_MASKS = ("updateMask", "update_mask")
_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"


class Origins:
    """Web pages and this door: whose scripts may call it."""

    def __init__(self, bound: str, origins: Iterable[str]) -> None:
        """`origins`: allowed besides this machine's own; "*" allows every page."""
        self.hosts = HostGuard(bound)
        self._origins = {origin.rstrip("/").lower() for origin in origins}

    def refusal(self, request: Request) -> str:
        """Why a request may not be; empty if it may."""
        if not self.hosts.allows(request.header("host")):
            return "This server does not answer to that Host."
        origin = request.header("origin")
        if origin and not self._allows(origin):
            return "Pages of that origin may not call this server; see the setting pubsub_cors_origins."
        return ""

    def headers(self, request: Request) -> Sequence[tuple[str, str]]:
        origin = request.header("origin")
        if not origin or not self._allows(origin):
            return ()
        wanted = request.header("access-control-request-headers") or "*"
        return (
            ("Access-Control-Allow-Origin", origin),
            ("Access-Control-Allow-Methods", _METHODS),
            ("Access-Control-Allow-Headers", wanted),
            ("Access-Control-Max-Age", "86400"),
            ("Vary", "Origin"),
        )

    def _allows(self, origin: str) -> bool:
        return "*" in self._origins or origin.lower() in self._origins or is_loopback(origin_host(origin))


class Rest:
    def __init__(
        self,
        calls: Calls,
        origins: Origins,
        reset: Callable[[], Awaitable[None]] | None,
        documents: dict[str, Callable[[], Awaitable[bytes]]],
        requests: RequestLog | None = None,
    ) -> None:
        """`reset` forgets everything, where that is allowed; `documents` are JSON files by their path."""
        self.answer = self._answer if requests is None else requests.answers(self._answer, _described)
        self._calls = calls
        self._origins = origins
        self._reset = reset
        self._documents = documents

    async def _answer(self, request: Request) -> Response:
        refusal = self._origins.refusal(request)
        if refusal:
            error = self._calls.error(CallError(Code.PERMISSION_DENIED, refusal), request.path)
            response = error_response(error)
        elif request.method == "OPTIONS":
            response = Response(204)
        else:
            response = await self._admitted(request)
        response.headers = (*response.headers, *self._origins.headers(request))
        return response

    def refusal(self, status: int) -> Response:
        """The answer to a request that could not be read."""
        codes = {413: Code.RESOURCE_EXHAUSTED, 500: Code.INTERNAL, 503: Code.UNAVAILABLE}
        error = error_response(CallError(codes.get(status, Code.INVALID_ARGUMENT), phrase(status)))
        return Response(status, error.headers, error.body)

    async def _admitted(self, request: Request) -> Response:
        found = match(request.method, request.path)
        try:
            return await (self._other(request) if found is None else self._call(found, request))
        except LostReplyError:
            raise
        except Exception as error:  # noqa: BLE001 - the outer edge: every failure becomes a status
            return error_response(self._calls.error(error, request.path if found is None else found.route.path))

    async def _other(self, request: Request) -> Response:
        if request.path == "/" and request.method in ("GET", "HEAD"):
            return Response(200, (PLAIN, SERVER), b"Ok\n")
        if request.path == "/reset" and request.method == "POST" and self._reset is not None:
            self._calls.admit(request.index, request.path)
            await self._reset()
            self._calls.log.warning("POST /reset: everything is forgotten")
            return Response(200, (PLAIN,), b"Resetting...\n")
        if request.path in self._documents and request.method == "GET":
            return Response(200, (JSON,), await self._documents[request.path]())
        raise CallError(Code.NOT_FOUND, f"There is no {request.method} {request.path[:200]}.")

    async def _call(self, found: Match, request: Request) -> Response:
        method = self._calls.methods[found.route.path]
        assert method.unary is not None, "no route leads to a streaming method"
        self._calls.admit(request.index, method.path)
        asked = parameters(request.query)
        selection = parse_fields(asked.mask, method.response.DESCRIPTOR) if asked.mask else {}
        message = request_message(method.request, found, request.body, asked.fields)
        context = Context({}, asyncio.get_running_loop(), message.ByteSize(), caller=request.peer)
        work = method.unary(message, context)
        result = await (_unless_left(work, request) if method.waits else work)
        if isinstance(result, bytes):
            result = method.response.FromString(result)
        content = json_format.MessageToDict(result, use_integers_for_enums=asked.enums_as_numbers, descriptor_pool=POOL)
        return Response(200, (JSON,), json.dumps(chosen(content, selection)).encode())


def _described(request: Request) -> tuple[str, str]:
    """For the request log: the method, by the name it has in gRPC, and the name in the path."""
    found = match(request.method, request.path)
    return (request.method, request.path) if found is None else (found.route.path.rpartition("/")[2], found.name)


async def _unless_left(work: Awaitable[Any], request: Request) -> Any:
    """Let a method wait for messages as long as its caller is there: what it took then would be out of reach."""
    task = asyncio.ensure_future(work)
    request.on_left = task.cancel
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise CallError(Code.CANCELLED, "The caller left.") from None
        task.cancel()
        raise


class Parameters(NamedTuple):
    """What a query says."""

    fields: list[tuple[str, str]]  # of the request
    enums_as_numbers: bool  # in the answer
    mask: str  # which part of the answer; empty: all of it


def parameters(query: str) -> Parameters:
    fields, enums_as_numbers, mask = [], False, ""
    for key, value in parse_qsl(query, keep_blank_values=True):
        if key in _ALT:
            if value not in _ENCODINGS:
                raise invalid(f"The value of {key} is not supported: {value[:100]}")
            enums_as_numbers = _ENCODINGS[value]
        elif key in _FIELDS:
            mask = value
        elif key not in _SYSTEM:
            fields.append((key, value))
    return Parameters(fields, enums_as_numbers, mask)


def request_message(kind: Any, found: Match, body: bytes, parameters: list[tuple[str, str]]) -> Any:
    route = found.route
    fields: dict[str, Any] = {}
    if route.body:
        content = _body(body)
        fields = content if route.body == WHOLE else {route.body: content}
    for key, value in parameters:
        _put(fields, key.split("."), value)
    for key in _MASKS:
        if isinstance(fields.get(key), str):
            fields[key] = camel_case(fields[key])
    message = parse_message(fields, kind)
    target, name = message, route.field
    if "." in name:
        outer, _, name = name.partition(".")
        target = getattr(message, outer)
    setattr(target, name, found.name)
    return message


def camel_case(mask: str) -> str:
    """A field mask as JSON writes it; the service also takes the names of the .proto."""
    return re.sub("_([a-z])", lambda found: found[1].upper(), mask)


def _body(body: bytes) -> dict[str, Any]:
    try:
        content = msgspec.json.decode(body) if body.strip() else {}
    except msgspec.DecodeError as error:
        raise invalid(f"Invalid JSON payload received. {str(error)[:300]}") from None
    except UnicodeDecodeError:
        raise invalid("Invalid JSON payload received. The body is not UTF-8.") from None
    except RecursionError:
        raise invalid("Invalid JSON payload received. The body is nested too deeply.") from None
    if not isinstance(content, dict):
        raise invalid("Invalid JSON payload received. The body must be an object.")
    return content


def _put(fields: dict[str, Any], steps: list[str], value: str) -> None:
    for step in steps[:-1]:
        inner = fields.setdefault(step, {})
        if not isinstance(inner, dict):
            raise invalid(f"Invalid query parameter: {'.'.join(steps)[:100]}")
        fields = inner
    fields[steps[-1]] = value


def error_response(error: CallError) -> Response:
    status = error.code.http
    content: dict[str, Any] = {"code": status, "message": error.message, "status": error.code.name}
    if details := error.details():
        content["details"] = details
    return Response(status, (JSON,), json.dumps({"error": content}).encode())


async def forget_everything(queue: Queue) -> None:
    """For tests that share one server."""
    for subscription in await queue.subscriptions():
        await _gone(queue.delete_subscription(subscription.name))
    for snapshot in await queue.snapshots():
        await _gone(queue.delete_snapshot(snapshot.name))
    for topic in await queue.topics():
        await _gone(queue.delete_topic(topic.name))
    for kind in (SCHEMA, POLICY):
        for name in await queue.documents(kind):
            await _gone(queue.remove_document(kind, name))


async def _gone(deletion: Awaitable[None]) -> None:
    with suppress(NotFoundError):  # another request was first
        await deletion

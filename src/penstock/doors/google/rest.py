"""REST over the same methods as gRPC: JSON in, JSON out.

A body may repeat the name in the path. The path takes precedence.
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
from penstock.doors.google.field_selection import parse_fields, select_fields
from penstock.doors.google.json_messages import parse_message
from penstock.doors.google.messages import POOL
from penstock.doors.google.policies import KIND as POLICY
from penstock.doors.google.routes import WHOLE, Match, match
from penstock.doors.google.schemas.service import KIND as SCHEMA
from penstock.engine.port import Queue
from penstock.errors import LostReplyError, NotFoundError
from penstock.wire.hosts import HostGuard, is_loopback, origin_host
from penstock.wire.http1 import Request, Response
from penstock.wire.http1_message import phrase
from penstock.wire.request_log import RequestLog

JSON = ("Content-Type", "application/json; charset=UTF-8")
PLAIN = ("Content-Type", "text/plain; charset=utf-8")
SERVER = ("Server", "Penstock")  # of the front page, so that a server that finds the port taken can name its owner
BODY_BYTES_MAX = 14 << 20  # 10 MB of messages in base64
INLINE_BYTES = 256 << 10  # larger bodies are parsed in a thread, one after another
COMMAS_MAX = 500_000  # in a body. Values cost up to 100 times their size in memory and time

# Parameters of every Google API, most of them with and without `$`: https://cloud.google.com/apis/docs/system-parameters
# Only `alt` and `fields` change an answer here. The others are ignored.
_IGNORED = ("callback", "key", "prettyPrint", "quotaUser", "userProject", "outputDefaults", "trace", "unique")
_SYSTEM = frozenset(
    {"$.xgafv", "access_token", "oauth_token", "uploadType", "upload_protocol", *_IGNORED, *(f"${n}" for n in _IGNORED)}
)
_ALT = frozenset({"alt", "$alt"})
_FIELDS = frozenset({"fields", "$fields"})
_ENCODINGS = {"json": False, "json;enum-encoding=int": True}  # value: whether enums are numbers
_MASKS = ("updateMask", "update_mask")
_METHODS = "DELETE, GET, HEAD, OPTIONS, PATCH, POST, PUT"


class Origins:
    """The web pages whose scripts may call this door."""

    def __init__(self, bound: str, origins: Iterable[str]) -> None:
        """`origins`: allowed in addition to this machine's own. "*" allows every page."""
        self.hosts = HostGuard(bound)
        self._origins = {origin.rstrip("/").lower() for origin in origins}

    def refusal(self, request: Request) -> str:
        """Return why a request is refused, or an empty string if it is allowed."""
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
        """`reset` deletes everything, or is None if that is not allowed. `documents`: JSON files, by path."""
        self.answer = self._answer if requests is None else requests.answers(self._answer, _describe)
        self._calls = calls
        self._origins = origins
        self._reset = reset
        self._documents = documents
        self._parsing = asyncio.Lock()

    async def _answer(self, request: Request) -> Response:
        refusal = self._origins.refusal(request)
        if refusal:
            error = self._calls.error(CallError(Code.PERMISSION_DENIED, refusal), request.path)
            response = error_response(error)
        elif request.method == "OPTIONS":
            response = Response(204)
        else:
            response = await self._route(request)
        response.headers = (*response.headers, *self._origins.headers(request))
        return response

    def refusal(self, status: int) -> Response:
        """Return the answer to a request that could not be read."""
        codes = {413: Code.RESOURCE_EXHAUSTED, 500: Code.INTERNAL, 503: Code.UNAVAILABLE}
        error = error_response(CallError(codes.get(status, Code.INVALID_ARGUMENT), phrase(status)))
        return Response(status, error.headers, error.body)

    async def _route(self, request: Request) -> Response:
        matched = match(request.method, request.path)
        try:
            return await (self._answer_other(request) if matched is None else self._call(matched, request))
        except LostReplyError:
            raise
        except Exception as error:  # noqa: BLE001 - the outer edge: every failure becomes a status
            return error_response(self._calls.error(error, request.path if matched is None else matched.route.path))

    async def _answer_other(self, request: Request) -> Response:
        if request.path == "/" and request.method in ("GET", "HEAD"):
            return Response(200, (PLAIN, SERVER), b"Ok\n")
        if request.path == "/reset" and request.method == "POST" and self._reset is not None:
            self._calls.admit(request.index, request.path)
            await self._reset()
            self._calls.log.warning("POST /reset: everything was deleted")
            return Response(200, (PLAIN,), b"Resetting...\n")
        if request.path in self._documents and request.method == "GET":
            return Response(200, (JSON,), await self._documents[request.path]())
        raise CallError(Code.NOT_FOUND, f"There is no {request.method} {request.path[:200]}.")

    async def _call(self, matched: Match, request: Request) -> Response:
        method = self._calls.methods[matched.route.path]
        assert method.unary is not None, "a route leads to a streaming method"
        self._calls.admit(request.index, method.path)
        query = parse_query(request.query)
        selection = parse_fields(query.mask, method.response.DESCRIPTOR) if query.mask else {}
        message = await self._parse(method.request, matched, request.body, query.fields)
        context = Context(headers={}, loop=asyncio.get_running_loop(), size=message.ByteSize(), caller=request.peer)
        work = method.unary(message, context)
        result = await (_cancel_if_left(work, request) if method.waits else work)
        if isinstance(result, bytes):
            result = method.response.FromString(result)
        content = json_format.MessageToDict(result, use_integers_for_enums=query.enums_as_numbers, descriptor_pool=POOL)
        return Response(200, (JSON,), json.dumps(select_fields(content, selection)).encode())

    async def _parse(self, kind: Any, matched: Match, body: bytes, parameters: list[tuple[str, str]]) -> Any:
        if len(body) <= INLINE_BYTES:
            return request_message(kind, matched, body, parameters)
        async with self._parsing:
            return await asyncio.to_thread(request_message, kind, matched, body, parameters)


def _describe(request: Request) -> tuple[str, str]:
    """Return the verb and the resource for the request log: the gRPC name of the method, and the name in the path."""
    matched = match(request.method, request.path)
    return (request.method, request.path) if matched is None else (matched.route.path.rpartition("/")[2], matched.name)


async def _cancel_if_left(work: Awaitable[Any], request: Request) -> Any:
    """Run a method that waits for messages. Cancel it if its caller disconnects, so that it leases none in vain."""
    task = asyncio.ensure_future(work)
    request.on_left = task.cancel
    try:
        return await asyncio.shield(task)
    except asyncio.CancelledError:
        if task.cancelled():
            raise CallError(Code.CANCELLED, "The caller disconnected.") from None
        task.cancel()
        raise


class Query(NamedTuple):
    """The parsed query string of a REST request."""

    fields: list[tuple[str, str]]  # fields of the request message
    enums_as_numbers: bool  # in the answer
    mask: str  # the selected parts of the answer. Empty: everything


def parse_query(text: str) -> Query:
    fields, enums_as_numbers, mask = [], False, ""
    for key, value in parse_qsl(text, keep_blank_values=True):
        if key in _ALT:
            if value not in _ENCODINGS:
                raise invalid(f"The value of {key} is not supported: {value[:100]}")
            enums_as_numbers = _ENCODINGS[value]
        elif key in _FIELDS:
            mask = value
        elif key not in _SYSTEM:
            fields.append((key, value))
    return Query(fields, enums_as_numbers, mask)


def request_message(kind: Any, matched: Match, body: bytes, parameters: list[tuple[str, str]]) -> Any:
    route = matched.route
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
    setattr(target, name, matched.name)
    return message


def camel_case(mask: str) -> str:
    """Convert a field mask to the names of JSON. The service accepts the names of the .proto file too."""
    return re.sub("_([a-z])", lambda letter: letter[1].upper(), mask)


def _body(body: bytes) -> dict[str, Any]:
    if body.count(b",") > COMMAS_MAX:
        raise invalid(f"Invalid JSON payload received. The body has more than {COMMAS_MAX:,} values.")
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
    """Delete everything, for tests that share one server."""
    for subscription in await queue.subscriptions():
        await _ignore_missing(queue.delete_subscription(subscription.name))
    for snapshot in await queue.snapshots():
        await _ignore_missing(queue.delete_snapshot(snapshot.name))
    for topic in await queue.topics():
        await _ignore_missing(queue.delete_topic(topic.name))
    for kind in (SCHEMA, POLICY):
        for name in await queue.documents(kind):
            await _ignore_missing(queue.remove_document(kind, name))


async def _ignore_missing(deletion: Awaitable[None]) -> None:
    with suppress(NotFoundError):  # another request deleted it first
        await deletion

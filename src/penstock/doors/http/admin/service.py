"""The admin API: finds the route of a request, decodes the request and encodes the answer."""

from __future__ import annotations

from typing import Any

import msgspec

from penstock.doors.http.admin import openapi
from penstock.doors.http.admin.access import READS, Access
from penstock.doors.http.admin.calls import JSON_TYPE, Call, Context, NoQuery, Route, route
from penstock.doors.http.admin.checking import read_body, read_query
from penstock.doors.http.admin.routes import BASE, ROUTES, Table
from penstock.doors.http.errors import JSON, error_response
from penstock.errors import InvalidArgumentError
from penstock.wire.http1 import Request, Response

BODY_BYTES_MAX = 16 << 20

_FRESH = ("Cache-Control", "no-store")
_NOTHING = f"Not found. GET {BASE}/openapi.json describes the admin API."


class Admin:
    def __init__(self, context: Context, access: Access, routes: tuple[Route, ...] = ROUTES) -> None:
        described = route(
            "GET", "/openapi.json", self._describe, "Get the OpenAPI document of the admin API.", answer=dict[str, Any]
        )
        self._routes = (*routes, described)
        self._table = Table(self._routes)
        self._context = context
        self._access = access
        self._description: Response | None = None  # made when it is first asked for

    async def answer(self, request: Request) -> Response:
        """Return the answer to a request. A PenstockError is left to the caller."""
        if refused := self._access.refusal(request):
            return refused
        place = self._table.find(request.path.removeprefix(BASE))
        if place is None:
            return error_response(404, _NOTHING)
        route = place.routes.get("GET" if request.method == "HEAD" else request.method)
        if route is None:
            methods = ", ".join(sorted(place.routes))
            return error_response(405, f"Allowed methods: {methods}.", ("Allow", methods))
        if request.body and request.header("content-type").partition(";")[0].strip().lower() != JSON_TYPE:
            return error_response(415, f"A body must have Content-Type: {JSON_TYPE}.")
        call = Call(
            self._context,
            place.named,
            read_query(route.query, request.query),
            _body(route, request),
            request,
            self._access.may_change(request),
        )
        return _response(route, await route.handler(call))

    async def _describe(self, call: Call[NoQuery, None]) -> Response:
        if self._description is None:
            document = openapi.document(self._routes, call.context.version, BASE)
            self._description = Response(200, (JSON, _FRESH), msgspec.json.encode(document))
        return self._description


def _body(route: Route, request: Request) -> Any:
    if route.body is not None:
        return read_body(route.body, request.body)
    if request.body and request.method not in READS:
        raise InvalidArgumentError("This request takes no body")
    return None


def _response(route: Route, answer: object) -> Response:
    if isinstance(answer, Response):
        return answer
    if answer is None:
        return Response(204, (_FRESH,))
    dry = route.dry_answer is not None and isinstance(answer, route.dry_answer)
    return Response(200 if dry else route.status, (JSON, _FRESH), msgspec.json.encode(answer))

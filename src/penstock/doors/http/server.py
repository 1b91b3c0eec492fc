"""The HTTP door: health, readiness, metrics, the admin API and the console."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Sequence

import msgspec

from penstock.doors.consumers import Consumer
from penstock.doors.http.admin.access import Access
from penstock.doors.http.admin.calls import Context
from penstock.doors.http.admin.routes import BASE
from penstock.doors.http.admin.service import BODY_BYTES_MAX, Admin
from penstock.doors.http.errors import JSON, error_response, response_to
from penstock.doors.http.metrics import CONTENT_TYPE, render
from penstock.doors.http.options import HttpOptions
from penstock.doors.http.pages import BASE as CONSOLE
from penstock.doors.http.pages import INDEX, Pages, preference
from penstock.doors.http.scrapes import gather, page_parts
from penstock.doors.port import Condition, join_address
from penstock.engine.port import SubscriptionMetadata
from penstock.engine.statistics import Statistics
from penstock.errors import LostReplyError, PenstockError
from penstock.services.process import process_statistics
from penstock.wire.budget import Budget
from penstock.wire.hosts import HostGuard
from penstock.wire.http1 import HttpLimits, HttpServer, Request, Response
from penstock.wire.request_log import RequestLog

PROBES = 64  # connections over the limits that may ask for health and readiness

_PLAIN = ("Content-Type", "text/plain; charset=utf-8")
_FRESH = ("Cache-Control", "no-store")
_METRICS = ("Content-Type", CONTENT_TYPE)

_ON_BUGS = (
    "Commands failed because of bugs at these places in the code and were undone. The log has details. Please report "
    "them. Stored data is not affected. A restart resets the status to ok."
)
_FRONT_PAGE = """\
Penstock {version}

GET /health   200 while the server runs and its journal works
GET /ready    200 once every protocol answers
GET /metrics  Prometheus text
GET /admin/v1/openapi.json  the admin API

In a browser, this address shows the console.
"""


def _takes_html(accept: str) -> bool:
    html = preference(accept or "*/*", "text/html")
    return html > 0 and html >= preference(accept, "text/plain")


class HttpDoor:
    name = "http"

    def __init__(
        self,
        *,
        host: str,
        port: int,
        statistics: Statistics,
        condition: Condition,
        log: logging.Logger,
        version: str,
        options: HttpOptions | None = None,
        budget: Budget | None = None,
        requests: RequestLog | None = None,
        admin: Context | None = None,
    ) -> None:
        """Without `admin` there is no admin API."""
        self.address = ""
        self._host = host
        self._port = port
        self._statistics = statistics
        self._condition = condition
        self._version = version
        options = options or HttpOptions()
        self._hosts = HostGuard(host, options.allowed_hosts)
        self._access = Access(options)
        self._resources_max = options.metrics_resources
        self._services = admin.services if admin is not None else None
        self._context = admin
        self._admin = Admin(admin, self._access) if admin is not None else None
        self._pages = Pages()
        self._budget = budget or Budget()
        limits = HttpLimits(
            body_bytes_max=64 << 10,
            large_bodies=(BASE.encode(), BODY_BYTES_MAX),
            reserved_paths=("/health", "/ready"),
            reserve=PROBES,
        )
        self._log = log
        self._server = HttpServer(
            self._answer if requests is None else requests.answers(self._answer),
            log=log,
            limits=limits,
            refusal=error_response,
            budget=self._budget,
            requests=requests,
        )
        self.counts = self._server.counts
        self._routes: dict[str, Callable[[], Awaitable[Response]]] = {
            "/": self._front_page,
            "/health": self._health,
            "/ready": self._ready,
            "/metrics": self._metrics,
        }

    @property
    def guarded(self) -> bool:
        return self._access.guarded

    @property
    def hints(self) -> Sequence[str]:
        return [f"http://{self.address}/ in a browser", f"http://{self.address}/metrics"]

    def name_of(self, topic: str) -> str | None:
        """Return None: this door has no names of its own for topics."""
        return None

    def consumers(self, subscription: SubscriptionMetadata) -> Sequence[Consumer]:
        return self._context.consumers.of(subscription.name) if self._context is not None else ()

    async def start(self) -> None:
        self.address = join_address(*await self._server.start(self._host, self._port))
        self._hosts.listens_at(self._server.connections.addresses)
        if self._services is not None:
            self._services.start()

    async def stop(self, grace_seconds: float) -> None:
        if self._services is not None:
            await self._services.stop()
        await self._server.stop(grace_seconds)

    async def _answer(self, request: Request) -> Response:
        response = await self._answer_allowed(request)
        if response.status >= 400:
            self._log.debug("refused %s %s: %d", request.method, request.path, response.status)
        return response

    async def _answer_allowed(self, request: Request) -> Response:
        if not self._hosts.allows(request.header("host")):
            return error_response(403, "This Host is not allowed; see the setting http_allowed_hosts.")
        try:
            return await self._route(request)
        except LostReplyError:
            raise
        except PenstockError as error:
            return response_to(error)

    async def _route(self, request: Request) -> Response:
        if self._admin is not None and request.path.startswith(f"{BASE}/"):
            return await self._admin.answer(request)
        if self._admin is not None and request.path.startswith(CONSOLE) and request.method in ("GET", "HEAD"):
            return self._pages.answer(request, request.path.removeprefix(CONSOLE))
        route = self._routes.get(request.path)
        if route is None:
            return error_response(404, "Not found. GET / lists the paths of this server.")
        if request.method not in ("GET", "HEAD"):
            return error_response(405, "Only GET and HEAD are allowed.", ("Allow", "GET, HEAD"))
        if request.path == "/" and self._admin is not None and _takes_html(request.header("accept")):
            return self._pages.answer(request, INDEX)
        return await route()

    async def _front_page(self) -> Response:
        return Response(200, (_PLAIN, ("Vary", "Accept")), _FRONT_PAGE.format(version=self._version).encode())

    async def _health(self) -> Response:
        """Return the health. Degraded has status 200: the failed commands were undone, so a restart would not help, and
        a client that triggers a bug must not be able to have the server restarted."""
        failed, bugs = self._condition.failed, self._statistics.internal_errors
        state: dict[str, object] = {"status": "failed" if failed else "degraded" if bugs else "ok"}
        if bugs:
            state |= {"internal_errors": dict(bugs), "what_to_do": _ON_BUGS}
        return Response(503 if failed else 200, (JSON, _FRESH), msgspec.json.encode(state))

    async def _ready(self) -> Response:
        condition = self._condition
        state = {"ready": condition.ready, "doors": condition.doors}
        return Response(200 if condition.ready else 503, (JSON, _FRESH), msgspec.json.encode(state))

    async def _metrics(self) -> Response:
        """Return the metrics, sent in parts. All numbers are gathered first, so that an error still gets its status."""
        doors, version, context = self._condition.counts, self._version, self._context
        if context is None:
            lines = render(self._statistics.statistics(), process_statistics(), self._budget, doors, version=version)
            return Response(200, (_METRICS, _FRESH), "".join(lines).encode("utf-8", "replace"))
        gathered = await gather(context, self._statistics, self._resources_max)
        lines = render(
            gathered.statistics,
            process_statistics(),
            self._budget,
            doors,
            version=version,
            totals=gathered.totals,
            resources=gathered.resources,
        )
        return Response(200, (_METRICS, _FRESH), parts=page_parts(context.listing, lines))

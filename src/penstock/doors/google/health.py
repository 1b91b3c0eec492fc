"""gRPC health (grpc.health.v1): whether the server takes calls."""

from __future__ import annotations

from collections.abc import Callable, Collection
from typing import Any

from penstock.doors.google.calls import Context, StreamingCall
from penstock.doors.google.errors import CallError, Code
from penstock.doors.google.messages import message

SERVICE = "grpc.health.v1.Health"
SERVING, NOT_SERVING, SERVICE_UNKNOWN = 1, 2, 3

_Response = message("grpc.health.v1.HealthCheckResponse")


class Health:
    def __init__(self, services: Collection[str], is_serving: Callable[[], bool]) -> None:
        self._services = services
        self._is_serving = is_serving

    async def check(self, request: Any, context: Context) -> Any:
        if request.service and request.service not in self._services:
            raise CallError(Code.NOT_FOUND, f"unknown service {request.service[:100]}")
        return _Response(status=SERVING if self._is_serving() else NOT_SERVING)

    async def watch(self, call: StreamingCall) -> None:
        """The state now; when it changes the server goes away, and the stream ends with it."""
        request = await call.next_request()
        known = request is not None and (not request.service or request.service in self._services)
        status = SERVING if self._is_serving() else NOT_SERVING
        await call.send(_Response(status=status if known else SERVICE_UNKNOWN).SerializeToString())
        await call.closed()

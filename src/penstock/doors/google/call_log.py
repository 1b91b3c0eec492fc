"""The lines of the request log for gRPC calls. REST requests are logged by the HTTP server."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from penstock.doors.google.calls import Context, Method, StreamingCall
from penstock.doors.google.errors import CallError, Code, call_error
from penstock.wire.request_log import BEGUN, RequestLog

# Request fields that may hold the resource name.
_NAMES = ("name", "subscription", "snapshot", "topic", "project", "parent", "resource")
_WRITTEN = "penstock_request_written"  # attribute of an error that is in the request log already


class CallLog:
    def __init__(self, requests: RequestLog) -> None:
        self._requests = requests

    def wrap(self, method: Method) -> Method:
        """Return the method with logging: one line for a unary call, two for a stream (begin and end)."""
        if method.unary is not None:
            return replace(method, unary=self._unary(method))
        return replace(method, streaming=self._streaming(method))

    def log_refusal(self, path: str, error: Exception) -> None:
        """Log a failed call, unless its method logged it already."""
        if not getattr(error, _WRITTEN, False):
            self._requests.write(path.partition("?")[0].rpartition("/")[2][:200], "", code_of(error).name)

    def log_begin(self, method: Method, resource: str) -> None:
        self._requests.write(method.name, resource, BEGUN)

    def _unary(self, method: Method) -> Any:
        assert method.unary is not None, "not a unary method"
        inner, requests = method.unary, self._requests

        async def unary(request: Any, context: Context) -> Any:
            since, result = requests.clock(), Code.CANCELLED  # of a call that neither returns nor raises an Exception
            try:
                response = await inner(request, context)
                result = Code.OK
                return response
            except Exception as error:
                result = self._mark_written(error)
                raise
            finally:
                requests.write(method.name, resource_of(request), result.name, since, bytes=context.size)

        return unary

    def _streaming(self, method: Method) -> Any:
        assert method.streaming is not None, "not a streaming method"
        inner, requests = method.streaming, self._requests

        async def streaming(call: StreamingCall) -> None:
            since, result = requests.clock(), Code.OK
            try:
                await inner(call)
            except asyncio.CancelledError:
                result = call.ended_with or Code.CANCELLED
                raise
            except Exception as error:
                result = self._mark_written(error)
                raise
            finally:
                requests.write(method.name, call.resource, result.name, since, messages=call.messages, acks=call.acks)

        return streaming

    def _mark_written(self, error: Exception) -> Code:
        setattr(error, _WRITTEN, True)
        return code_of(error)


def code_of(error: Exception) -> Code:
    mapped: CallError | None = call_error(error)
    return Code.INTERNAL if mapped is None else mapped.code


def resource_of(request: Any) -> str:
    """Return the name of the resource that a request is about, or an empty string."""
    for field in _NAMES:
        value = getattr(request, field, "")
        name = value if isinstance(value, str) else getattr(value, "name", "")
        if name:
            return str(name)
    return ""

"""Lines of the request log about gRPC calls; REST has lines of its own, as every HTTP request has."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from typing import Any

from penstock.doors.google.calls import Context, Method, StreamingCall
from penstock.doors.google.errors import CallError, Code, call_error
from penstock.wire.requestlog import BEGUN, RequestLog

_NAMES = ("name", "subscription", "snapshot", "topic", "project", "parent", "resource")  # fields that may name one
_WRITTEN = "penstock_request_written"  # on an error that has its line


class CallLog:
    def __init__(self, requests: RequestLog) -> None:
        self._requests = requests

    def watched(self, method: Method) -> Method:
        """The same method, with a line for each call of it; a stream has one at its begin and one at its end."""
        if method.unary is not None:
            return replace(method, unary=self._unary(method))
        return replace(method, streaming=self._streaming(method))

    def refused(self, path: str, error: Exception) -> None:
        """A call failed; if that was before its method ran, nobody has written its line."""
        if not getattr(error, _WRITTEN, False):
            self._requests.write(path.partition("?")[0].rpartition("/")[2][:200], "", code_of(error).name)

    def begun(self, method: Method, resource: str) -> None:
        self._requests.write(method.name, resource, BEGUN)

    def _unary(self, method: Method) -> Any:
        assert method.unary is not None, "asked for a unary method"
        inner, requests = method.unary, self._requests

        async def unary(request: Any, context: Context) -> Any:
            since, result = requests.clock(), Code.CANCELLED  # unless something else becomes of it
            try:
                response = await inner(request, context)
                result = Code.OK
                return response
            except Exception as error:
                result = self._noted(error)
                raise
            finally:
                requests.write(method.name, resource_of(request), result.name, since, bytes=context.size)

        return unary

    def _streaming(self, method: Method) -> Any:
        assert method.streaming is not None, "asked for a streaming method"
        inner, requests = method.streaming, self._requests

        async def streaming(call: StreamingCall) -> None:
            since, result = requests.clock(), Code.OK
            try:
                await inner(call)
            except asyncio.CancelledError:
                result = call.ended_with or Code.CANCELLED
                raise
            except Exception as error:
                result = self._noted(error)
                raise
            finally:
                requests.write(method.name, call.resource, result.name, since, messages=call.messages, acks=call.acks)

        return streaming

    def _noted(self, error: Exception) -> Code:
        setattr(error, _WRITTEN, True)
        return code_of(error)


def code_of(error: Exception) -> Code:
    known: CallError | None = call_error(error)
    return Code.INTERNAL if known is None else known.code


def resource_of(request: Any) -> str:
    """What a request is about: the name it has in one of the fields for that."""
    for field in _NAMES:
        value = getattr(request, field, "")
        name = value if isinstance(value, str) else getattr(value, "name", "")
        if name:
            return str(name)
    return ""

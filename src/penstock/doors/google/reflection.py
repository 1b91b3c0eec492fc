"""gRPC server reflection (v1 and v1alpha), for tools such as grpcurl."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from google.protobuf import descriptor_pb2

from penstock.doors.google.calls import Method, StreamingCall
from penstock.doors.google.errors import Code
from penstock.doors.google.messages import POOL, message

SERVICES = ("grpc.reflection.v1.ServerReflection", "grpc.reflection.v1alpha.ServerReflection")


class Reflection:
    def __init__(self, methods: Iterable[Method]) -> None:
        self._methods = list(methods)
        self._services = {method.service: method.request.DESCRIPTOR.file for method in self._methods}

    async def serve(self, call: StreamingCall) -> None:
        package = call.method.service.rpartition(".")[0]
        while (request := await call.next_request()) is not None:
            response = message(f"{package}.ServerReflectionResponse")(valid_host=request.host)
            response.original_request.CopyFrom(request)
            self._answer(request, response)
            await call.send(response.SerializeToString())

    def _answer(self, request: Any, response: Any) -> None:
        which = request.WhichOneof("message_request")
        if which == "list_services":
            for name in sorted(self._services):
                response.list_services_response.service.add(name=name)
            return
        files = self._files(which, request)
        if files:
            response.file_descriptor_response.file_descriptor_proto.extend(files)
        else:
            response.error_response.error_code = int(Code.NOT_FOUND)
            response.error_response.error_message = "not found"

    def _files(self, which: str | None, request: Any) -> list[bytes]:
        try:
            if which == "file_by_filename":
                file = POOL.FindFileByName(request.file_by_filename)
            elif which == "file_containing_symbol":
                symbol = request.file_containing_symbol
                own = [file for name, file in self._services.items() if f"{symbol}.".startswith(f"{name}.")]
                file = own[0] if own else POOL.FindFileContainingSymbol(symbol)
            else:
                return []
        except KeyError:
            return []
        return [self._encode(needed) for needed in _with_dependencies(file)]

    def _encode(self, file: Any) -> bytes:
        described = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
        for service in sorted(name for name, home in self._services.items() if home.name == file.name):
            written = described.service.add(name=service.rpartition(".")[2])
            for method in (method for method in self._methods if method.service == service):
                written.method.add(
                    name=method.name,
                    input_type=f".{method.request.DESCRIPTOR.full_name}",
                    output_type=f".{method.response.DESCRIPTOR.full_name}",
                    client_streaming=method.streaming is not None and not method.answers_one,
                    server_streaming=method.streaming is not None,
                )
        encoded: bytes = described.SerializeToString()
        return encoded


def _with_dependencies(file: Any) -> list[Any]:
    visited, waiting = {}, [file]
    while waiting:
        current = waiting.pop()
        if current.name not in visited:
            visited[current.name] = current
            waiting.extend(current.dependencies)
    return list(visited.values())

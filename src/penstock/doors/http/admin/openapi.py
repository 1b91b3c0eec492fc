"""The OpenAPI document of the admin API, made from its routes."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

import msgspec

from penstock.doors.http.admin.calls import JSON_TYPE, Route
from penstock.doors.http.admin.checking import record_schema

_REFERENCE = "#/components/schemas/{name}"
_NAMED = re.compile(r"{(\w+)}")
_ABOUT = {
    "project": "The name of a project.",
    "offset": "An offset of the topic.",
    "id": "An id from an earlier answer.",
    "fault": "Id of the fault.",
    "name": "A name.",
}
_ABOUT_NAMES = "A short name, or a full one such as projects/p/{0}s/x with its slashes escaped (%2F)."


class ErrorDetail(msgspec.Struct):
    code: int
    message: str


class Error(msgspec.Struct):
    error: ErrorDetail


def document(routes: Iterable[Route], version: str, base: str) -> dict[str, Any]:
    routes = tuple(routes)
    kinds = [
        kind for route in routes for kind in (*_kinds(route.answer), route.dry_answer, route.body) if kind is not None
    ]
    _, schemas = msgspec.json.schema_components([*dict.fromkeys(kinds), Error], ref_template=_REFERENCE)
    paths: dict[str, Any] = {}
    for route in routes:
        paths.setdefault(route.path, {})[route.method.lower()] = _operation(route)
    return {
        "openapi": "3.1.0",
        "info": {
            "title": "Penstock admin API",
            "version": version,
            "description": "Inspect and administer a server. Instants are RFC 3339 in UTC. Durations are in seconds.",
        },
        "servers": [{"url": base}],
        "security": [{}, {"token": []}],
        "paths": paths,
        "components": {
            "schemas": schemas,
            "securitySchemes": {"token": {"type": "http", "scheme": "bearer"}},
            "responses": {
                "Error": {"description": "The request failed. One sentence says why.", "content": _content(Error)}
            },
        },
    }


def _operation(route: Route) -> dict[str, Any]:
    answer: dict[str, Any] = {"description": route.summary}
    if route.status != 204 and route.answer is not None:
        answer["content"] = _content(route.answer, route.media)
    operation: dict[str, Any] = {
        "operationId": route.handler.__name__,
        "summary": route.summary,
        "tags": [route.path.split("/")[1]],
        "parameters": [*_path_parameters(route), *_query_parameters(route.query)],
        "responses": {
            str(status_of(route)): answer,
            "default": {"$ref": "#/components/responses/Error"},
        },
    }
    if route.dry_answer is not None:
        dry = {"description": "The preview of a dry run.", "content": _content(route.dry_answer)}
        operation["responses"] = {"200": dry, **operation["responses"]}
    if route.body is not None:
        required = not _may_be_empty(route.body)
        operation["requestBody"] = {"required": required, "content": _content(route.body)}
    return operation


def status_of(route: Route) -> int:
    return 204 if route.answer is None else route.status


def _may_be_empty(body: type[msgspec.Struct]) -> bool:
    return all(not field.required for field in msgspec.structs.fields(body))


def _content(kind: Any, media: str = JSON_TYPE) -> dict[str, Any]:
    schemas, _ = msgspec.json.schema_components(_kinds(kind), ref_template=_REFERENCE)
    return {media: {"schema": schemas[0] if len(schemas) == 1 else {"anyOf": list(schemas)}}}


def _kinds(answer: Any) -> tuple[Any, ...]:
    return answer if isinstance(answer, tuple) else (answer,)


def _path_parameters(route: Route) -> list[dict[str, Any]]:
    return [
        {
            "name": name,
            "in": "path",
            "required": True,
            "description": _ABOUT.get(name) or _ABOUT_NAMES.format(name),
            "schema": {"type": "integer", "minimum": 0} if name == "offset" else {"type": "string", "minLength": 1},
        }
        for name in _NAMED.findall(route.path)
    ]


def _query_parameters(query: type[msgspec.Struct]) -> list[dict[str, Any]]:
    shape = record_schema(query)
    required = shape.get("required", ())
    parameters = []
    for name, schema in shape["properties"].items():
        given = dict(schema)
        about = given.pop("description", "") or _ABOUT.get(name, "")
        parameters.append(
            {"name": name, "in": "query", "required": name in required, "description": about, "schema": given}
        )
    return parameters

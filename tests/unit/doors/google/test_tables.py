"""Tables that must be complete: errors, routes, descriptors."""

from __future__ import annotations

import json
from collections.abc import Iterator
from http import HTTPStatus
from importlib import resources
from typing import Any

import pytest

from penstock import errors
from penstock.doors.google.errors import CODES, CallError, Code, call_error
from penstock.doors.google.messages import BUNDLE, ErrorInfo, Status
from penstock.doors.google.routes import ROUTES, match
from tests.doors.google.descriptors import descriptor_set


def leaves(kind: type[errors.PenstockError]) -> Iterator[type[errors.PenstockError]]:
    yield kind
    for inner in kind.__subclasses__():
        yield from leaves(inner)


def test_every_error_of_the_tree_has_a_code() -> None:
    for kind in leaves(errors.PenstockError):
        if kind is not errors.PenstockError:
            known = call_error(kind("text"))
            assert known is not None, kind
            assert known.code is not Code.UNKNOWN


def test_every_code_has_a_status() -> None:
    assert [code.name for code in Code if code.http not in list(HTTPStatus) and code is not Code.CANCELLED] == []
    assert Code.CANCELLED.http == 499  # not a standard status of HTTP
    assert set(CODES.values()) <= set(Code)


def test_a_bug_is_not_an_expected_error() -> None:
    assert call_error(KeyError("x")) is None


def test_details_are_packed_as_clients_read_them() -> None:
    error = CallError(Code.ABORTED, "text", {"receipt": "why"}, "REASON")
    status, info = Status.FromString(error.status()), ErrorInfo()
    assert status.details[0].Unpack(info)
    assert (status.code, info.reason, dict(info.metadata)) == (10, "REASON", {"receipt": "why"})


def test_the_messages_match_the_official_client() -> None:
    """`python -m tests.doors.google.descriptors` rewrites them."""
    assert BUNDLE.read_bytes() == descriptor_set()


def methods(resource: dict[str, Any]) -> Iterator[dict[str, Any]]:
    yield from resource.get("methods", {}).values()
    for inner in resource.get("resources", {}).values():
        yield from methods(inner)


def test_every_method_of_the_public_list_has_a_route() -> None:
    path = resources.files("googleapiclient") / "discovery_cache" / "documents" / "pubsub.v1.json"
    public = list(methods(json.loads(path.read_text())))
    found = set()
    for method in public:
        example = "/" + method["flatPath"].replace("{projectsId}", "p")
        for collection in ("topics", "subscriptions", "snapshots", "schemas"):
            example = example.replace(f"{{{collection}Id}}", "abc")
        matched = match(method["httpMethod"], example)
        assert matched is not None, method["id"]
        assert matched.name in ("projects/p", example.split(":")[0].removeprefix("/v1/").rsplit("/s", 1)[0]) or (
            example.startswith(f"/v1/{matched.name}")
        )
        found.add((method["httpMethod"], matched.route.path, method["flatPath"]))
    assert len(found) == len(public) == len(ROUTES) == 46


@pytest.mark.parametrize(
    "path",
    ["/", "", "/v1", "/v1/projects/p", "/v1/topics/abc", "/v1/projects/p/topics/a/b", "/v1/projects/p/topics/abc:x"],
)
def test_a_path_without_a_route(path: str) -> None:
    assert match("GET", path) is None

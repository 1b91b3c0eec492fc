"""Faults in the admin API: rules are added and removed, invalid ones are refused, and a client can wait for hits."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from http.client import RemoteDisconnected
from typing import Any, cast

import pytest

from penstock.admin.client import Client
from penstock.engine.port import Queue
from penstock.errors import InvalidArgumentError
from penstock.services.faults.faults import Faults
from penstock.services.faults.queue import FaultyQueue
from penstock.testing.faults import Faults as ClientFaults
from tests.doors.http.harness import SECONDS, Harness


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness() as harness:
        faults = harness.call(Faults, harness.queue.clock.now)
        faults.codes["azure"] = {"ServerBusy"}
        harness.context.faults = faults
        harness.context.queue = cast(Queue, FaultyQueue(harness.queue.at("http"), faults))
        yield harness


@pytest.fixture
def faults(harness: Harness) -> Iterator[ClientFaults]:
    with Client(harness.door.address) as client:
        yield ClientFaults(client)


def test_only_a_server_for_tests_makes_faults() -> None:
    with Harness() as harness:
        for method, path, body in (
            ("GET", "/faults", None),
            ("POST", "/faults", {"effect": "close"}),
            ("DELETE", "/faults", None),
            ("GET", "/faults/1", None),
            ("DELETE", "/faults/1", None),
            ("GET", "/faults/1/hits", None),
        ):
            answer = harness.ask(method, path, body)
            assert answer.status == 412
            assert answer.sentence == "This works only on a server started with --testing"


def test_a_rule_is_added_hit_and_removed(harness: Harness) -> None:
    rule = {"effect": "error", "error": "unavailable", "door": "http", "verb": "create", "retry_after_seconds": 1.2}
    made = harness.ask("POST", "/faults", rule)
    assert made.status == 201
    assert (made.json["id"], made.json["rule"]["verb"], made.json["hits"]) == ("1", "create", 0)
    refused = harness.ask("POST", "/topics", {"name": "t"})
    assert (refused.status, refused.headers["Retry-After"]) == (503, "2")
    assert refused.sentence == "The broker is not available; try again later. (fault 1)"
    assert harness.ask("GET", "/faults/1").json["hits"] == 1
    (hit,) = harness.ask("GET", "/faults/1/hits").json["hits"]
    assert (hit["number"], hit["call"], hit["door"], hit["verb"]) == (1, 1, "http", "create")
    assert hit["resource"] == "projects/penstock/topics/t"
    assert harness.ask("DELETE", "/faults/1").status == 204
    assert harness.ask("POST", "/topics", {"name": "t"}).status == 201
    assert harness.ask("GET", "/faults/1").sentence == "Fault not found: 1"


def test_a_reply_that_is_lost(harness: Harness) -> None:
    harness.ask("POST", "/faults", {"effect": "drop", "door": "http", "verb": "create"})
    with pytest.raises(RemoteDisconnected):
        harness.ask("POST", "/topics", {"name": "t"})
    assert harness.ask("GET", "/topics/t").status == 200


@pytest.mark.parametrize(
    ("rule", "sentence"),
    [
        ({}, "The field effect is missing"),
        (
            {"effect": "explode"},
            "effect must be close, disk_full, drop, duplicate, error, expire, hold, latency or reorder",
        ),
        ({"effect": "close", "door": "window"}, "door must be azure, flight, http, pubsub or text"),
        ({"effect": "close", "nth": 0}, "nth must be a whole number, at least 1"),
        ({"effect": "close", "probability": 2}, "probability must be a number, at most 1"),
        ({"effect": "close", "times": -1}, "times must be a whole number, at least 0"),
        ({"effect": "latency", "seconds": 4000}, "seconds must be a number, at most 3600"),
        ({"effect": "close", "topic": "t"}, "Unknown field: topic"),
        ({"effect": "close", "nth": 1, "every": 1}, "Set only one of nth, every and probability, not nth and every"),
        (
            {"effect": "error", "code": "Teapot", "door": "azure"},
            "azure has no code Teapot; its codes are ServerBusy",
        ),
    ],
)
def test_a_bad_rule_gets_one_sentence(harness: Harness, rule: dict[str, Any], sentence: str) -> None:
    answer = harness.ask("POST", "/faults", rule)
    assert (answer.status, answer.sentence) == (400, sentence)
    assert harness.ask("GET", "/faults").json["total"] == 0


def test_faults_are_listed_in_pages_and_removed_by_project(harness: Harness) -> None:
    for number in range(5):
        harness.ask("POST", "/faults", {"effect": "close", "project": f"p{number % 2}"})
    page = harness.ask("GET", "/faults", page_size=2).json
    assert [each["id"] for each in page["faults"]] == ["1", "2"]
    rest = harness.ask("GET", "/faults", page_size=5, page_token=page["next_page_token"]).json
    assert [each["id"] for each in rest["faults"]] == ["3", "4", "5"]
    assert harness.ask("GET", "/faults", project="p1").json["total"] == 2
    assert harness.ask("DELETE", "/faults", project="p1").json == {"removed": 2}
    assert harness.ask("DELETE", "/faults").json == {"removed": 3}


def test_hits_can_be_waited_for(harness: Harness, faults: ClientFaults) -> None:
    fault = faults.add(door="http", verb="create", error="not_found")
    with ThreadPoolExecutor(1) as threads:
        waiting = threads.submit(fault.wait, 2, SECONDS)
        for _ in range(2):
            assert harness.ask("POST", "/topics", {"name": "t"}).status == 404
        waiting.result(SECONDS)
    with pytest.raises(AssertionError, match="error='not_found'; 2 hits in 2 calls> did not hit 3 times within 0 sec"):
        fault.wait(3, 0)


def test_the_python_face(harness: Harness, faults: ClientFaults) -> None:
    with faults.add(door="http", verb="create", nth=1, code="", error="unavailable") as fault:
        assert harness.ask("POST", "/topics", {"name": "t"}).status == 503
        assert [each.id for each in faults] == [fault.id]
    assert list(faults) == []
    assert (fault.hits, fault.calls, fault.held) == (1, 1, 0)
    assert [each["resource"] for each in fault.log] == ["projects/penstock/topics/t"]
    fault.remove()
    faults.add(effect="close")
    assert faults.clear() == 1
    with pytest.raises(InvalidArgumentError, match="effect must be close"):
        faults.add(door="http")
    with pytest.raises(InvalidArgumentError, match="The effect latency needs seconds"):
        faults.add(latency=0)

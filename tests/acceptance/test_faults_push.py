"""Faults of push and their effects on an endpoint, as in the table of docs/testing-faults.md."""

from __future__ import annotations

import json
import queue
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import Any

import pytest

from penstock.testing.faults import Faults
from tests.acceptance.fault_project import FaultProject, Topic
from tests.server_process import SECONDS


class Endpoint:
    """A web server that accepts every request."""

    def __init__(self) -> None:
        arrived: queue.Queue[dict[str, Any]] = queue.Queue()
        self.arrived = arrived

        class Answer(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                arrived.put(json.loads(self.rfile.read(int(self.headers["Content-Length"])))["message"])
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: object) -> None:
                return

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answer)
        self.url = f"http://127.0.0.1:{self._server.server_port}"
        self._thread = Thread(target=self._server.serve_forever, args=[0.02], daemon=True)
        self._thread.start()

    def next_id(self) -> str:
        return str(self.arrived.get(timeout=SECONDS)["messageId"])

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    endpoint = Endpoint()
    yield endpoint
    endpoint.close()


@pytest.fixture
def topic(project: FaultProject, endpoint: Endpoint) -> Topic:
    return project.watched(push_config={"push_endpoint": endpoint.url})


def test_push_is_paused_and_continues(faults: Faults, endpoint: Endpoint, topic: Topic) -> None:
    (first,) = topic.publish("a")
    assert endpoint.next_id() == first
    fault = faults.add(verb="push", resource=topic.id, effect="hold").wait()
    (second,) = topic.publish("b")
    assert fault.held == 1
    assert endpoint.arrived.empty()
    fault.remove()
    assert endpoint.next_id() == second


def test_the_endpoint_gets_a_message_twice(faults: Faults, endpoint: Endpoint, topic: Topic) -> None:
    with faults.add(verb="push", resource=topic.id, times=1, effect="duplicate"):
        (sent,) = topic.publish("a")
        assert [endpoint.next_id(), endpoint.next_id()] == [sent, sent]


def test_the_lease_ends_while_the_endpoint_works(faults: Faults, endpoint: Endpoint, topic: Topic) -> None:
    with faults.add(verb="push", resource=topic.id, effect="expire") as fault:
        (sent,) = topic.publish("a")
        assert [endpoint.next_id(), endpoint.next_id()] == [sent, sent]
    assert fault.hits == 1


def test_push_continues_after_an_error(faults: Faults, endpoint: Endpoint, topic: Topic) -> None:
    fault = faults.add(verb="push", resource=topic.id, times=2, error="unavailable").wait(2)
    (sent,) = topic.publish("a")
    assert endpoint.next_id() == sent
    assert fault.hits == 2


def test_a_message_is_pushed_again_after_a_failed_ack(faults: Faults, endpoint: Endpoint, topic: Topic) -> None:
    """An accepted message is pushed again after its ack deadline plus ten seconds for the way."""
    with faults.add(door="pubsub", verb="ack", resource=topic.id, nth=1, error="unavailable") as fault:
        (sent,) = topic.publish("a")
        assert endpoint.next_id() == sent
        fault.wait()
    assert topic.waiting == 1
    topic.project.clock.advance(20)
    assert endpoint.next_id() == sent

"""Clients that disappear, never ack or never read: other clients are served, and the memory of a server is bounded."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from penstock.doors.google import messages as m
from penstock.doors.google.framing import frame_message
from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack
from tests.acceptance.google_server import TimedServer

SECONDS = 30
PUBLISHER, SUBSCRIBER = "/google.pubsub.v1.Publisher/", "/google.pubsub.v1.Subscriber/"
TOPIC, SLOW, FAST = "projects/p/topics/abc", "projects/p/subscriptions/slow", "projects/p/subscriptions/fast"
MESSAGES, SIZE = 400, 100_000  # 40 MB


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TimedServer]:
    folder: Path = tmp_path_factory.mktemp("hostile")
    with TimedServer(folder, "--data", str(folder / "data"), "--grace-seconds", "1") as server:
        yield server


class Caller:
    def __init__(self, server: TimedServer) -> None:
        options = [("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        self.channel = grpc.insecure_channel(server.address, options=options)

    def call(self, path: str, request: Any, answer: Any = None) -> Any:
        stub = self.channel.unary_unary(path, None, answer.FromString if answer else None)
        return stub(request.SerializeToString(), timeout=SECONDS)


@pytest.fixture(scope="module")
def caller(server: TimedServer) -> Iterator[Caller]:
    caller = Caller(server)
    caller.call(PUBLISHER + "CreateTopic", m.Topic(name=TOPIC))
    for name in (SLOW, FAST):
        caller.call(SUBSCRIBER + "CreateSubscription", m.Subscription(name=name, topic=TOPIC))
    body = m.PubsubMessage(data=os.urandom(SIZE))
    for _ in range(MESSAGES // 20):
        caller.call(PUBLISHER + "Publish", m.PublishRequest(topic=TOPIC, messages=[body] * 20))
    yield caller
    caller.channel.close()


def deaf(server: TimedServer, *, window: int) -> socket.socket:
    """Open a stream that allows any number of messages, and never read from it."""
    host, _, port = server.address.rpartition(":")
    connection = socket.socket()
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
    connection.connect((host, int(port)))
    headers = [(":method", "POST"), (":scheme", "http"), (":path", SUBSCRIBER + "StreamingPull")]
    headers += [("content-type", "application/grpc"), ("te", "trailers")]
    first = m.StreamingPullRequest(subscription=SLOW, stream_ack_deadline_seconds=10)
    connection.sendall(
        h2.PREFACE
        + h2.settings({4: window})
        + h2.window_update(0, window)
        + h2.frame(h2.HEADERS, h2.END_HEADERS, 1, hpack.encode(headers))
        + h2.frame(h2.DATA, 0, 1, frame_message(first.SerializeToString()))
    )
    return connection


def pull(caller: Caller, name: str) -> list[Any]:
    request = m.message("google.pubsub.v1.PullRequest")(subscription=name, max_messages=10)
    return list(caller.call(SUBSCRIBER + "Pull", request, m.PullResponse).received_messages)


def ack(caller: Caller, name: str, received: list[Any]) -> None:
    kind = m.message("google.pubsub.v1.AcknowledgeRequest")
    caller.call(SUBSCRIBER + "Acknowledge", kind(subscription=name, ack_ids=[each.ack_id for each in received]))


@pytest.mark.parametrize("window", [1 << 30, 0], ids=["a full socket", "no window"])
def test_clients_that_never_read(server: TimedServer, caller: Caller, window: int) -> None:
    before = server.resident_bytes()
    lazy = [deaf(server, window=window or 1) for _ in range(20)]
    paces = []
    for _ in range(20):  # meanwhile another client is served at its usual rate
        started = time.monotonic()
        ack(caller, FAST, pull(caller, FAST))
        paces.append(time.monotonic() - started)
    assert sorted(paces)[10] < 1
    assert server.resident_bytes() - before < 200 << 20  # far less than twenty times the backlog
    for connection in lazy:
        connection.close()


def test_messages_of_vanished_clients_are_redelivered(server: TimedServer, caller: Caller) -> None:
    """The leases end after ten seconds. The first pull after that gets the messages."""
    seen: set[str] = set()
    with server.clock("p") as clock:
        clock.automatic()
    until = time.monotonic() + SECONDS
    while len(seen) < MESSAGES and time.monotonic() < until:
        batch = pull(caller, SLOW)
        if batch:
            ack(caller, SLOW, batch)
        seen |= {each.message.message_id for each in batch}
    assert len(seen) == MESSAGES

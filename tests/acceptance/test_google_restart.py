"""A server that is killed during a stream and restarted: the client continues, and no accepted message is lost."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import timedelta
from pathlib import Path

import grpc
import pytest
from google.api_core import bidi
from google.api_core.exceptions import GoogleAPICallError
from google.api_core.retry import Retry, if_exception_type
from google.cloud import pubsub_v1
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from tests.acceptance.google_server import TimedServer

SECONDS = 60
ROUNDS = 2
BATCH = 200
LEASES = pubsub_v1.types.FlowControl(min_duration_per_lease_extension=10, max_duration_per_lease_extension=10)
SOON = [("grpc.initial_reconnect_backoff_ms", 100), ("grpc.max_reconnect_backoff_ms", 200)]
AGAIN = Retry(if_exception_type(GoogleAPICallError), initial=0.1, maximum=0.2, timeout=10 * SECONDS)


@pytest.fixture(autouse=True)
def reopened_soon(monkeypatch: pytest.MonkeyPatch) -> None:
    """Shorten a pause of the client.

    It tries five times to reopen a stream, and then waits for ten seconds, here for one.
    """
    throttle = bidi._Throttle
    monkeypatch.setattr(bidi, "_Throttle", lambda access_limit, **_: throttle(access_limit, timedelta(seconds=1)))


@contextmanager
def clients(server: TimedServer) -> Iterator[tuple[pubsub_v1.PublisherClient, pubsub_v1.SubscriberClient]]:
    """Yield Google's clients with short pauses between attempts. By default the pauses grow to a minute."""
    with grpc.insecure_channel(server.address, SOON) as channel:
        options = pubsub_v1.types.PublisherOptions(retry=AGAIN)
        publisher = pubsub_v1.PublisherClient(
            transport=PublisherGrpcTransport(channel=channel), publisher_options=options
        )
        with pubsub_v1.SubscriberClient(transport=SubscriberGrpcTransport(channel=channel)) as subscriber:
            yield publisher, subscriber
        publisher.stop()


@pytest.mark.kill
def test_killed_in_the_middle_of_a_stream(tmp_path: Path) -> None:
    with TimedServer(tmp_path, "--data", str(tmp_path / "data")) as server, clients(server) as (publisher, subscriber):
        topic = publisher.create_topic(name="projects/p/topics/restart").name
        path = subscriber.create_subscription(name="projects/p/subscriptions/restart", topic=topic).name
        seen: set[bytes] = set()
        changed = threading.Condition()

        def receive(message: pubsub_v1.subscriber.message.Message) -> None:
            message.ack()
            with changed:
                seen.add(message.data)
                changed.notify_all()

        stream = subscriber.subscribe(path, receive, flow_control=LEASES)
        accepted: set[bytes] = set()
        for number in range(ROUNDS):
            bodies = [b"%d-%d" % (number, place) for place in range(BATCH)]
            futures = {body: publisher.publish(topic, body) for body in bodies}
            if number:
                server.kill()
                server.start()
            for body, future in futures.items():
                future.result(SECONDS)  # the client repeats publishes without an answer
                accepted.add(body)
        # The leases last ten seconds. Messages that the killed server had delivered come again when their leases end.
        with server.clock("p") as clock:
            clock.advance(LEASES.max_duration_per_lease_extension)
        with changed:
            assert changed.wait_for(lambda: accepted <= seen, SECONDS), len(accepted - seen)
        assert len(accepted) == ROUNDS * BATCH
        assert not stream.done()
        stream.cancel()
        stream.result(SECONDS)


def test_a_stream_that_is_told_to_come_back_does(tmp_path: Path) -> None:
    """SIGTERM ends the stream with UNAVAILABLE. Clients then connect again."""
    with TimedServer(tmp_path, "--data", str(tmp_path / "data")) as server, clients(server) as (publisher, subscriber):
        topic = publisher.create_topic(name="projects/p/topics/stopped").name
        path = subscriber.create_subscription(name="projects/p/subscriptions/stopped", topic=topic).name
        seen = threading.Event()

        def receive(message: pubsub_v1.subscriber.message.Message) -> None:
            message.ack()
            seen.set()

        stream = subscriber.subscribe(path, receive)
        publisher.publish(topic, b"before").result(SECONDS)
        assert seen.wait(SECONDS)
        assert server.stop() == 0
        seen.clear()
        server.start()
        publisher.publish(topic, b"after").result(SECONDS)
        assert seen.wait(SECONDS)
        stream.cancel()
        stream.result(SECONDS)

"""A server that is killed and comes back in the middle of a stream: the client goes on, nothing accepted is lost."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from google.cloud import pubsub_v1

from tests.acceptance.google_server import GoogleServer

SECONDS = 60
ROUNDS = 2
BATCH = 200
LEASES = pubsub_v1.types.FlowControl(min_duration_per_lease_extension=10, max_duration_per_lease_extension=10)


@pytest.mark.kill
def test_killed_in_the_middle_of_a_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    server = GoogleServer(tmp_path, "--data", str(tmp_path / "data"))
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
    publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
    topic = publisher.create_topic(name="projects/p/topics/restart").name
    path = subscriber.create_subscription(name="projects/p/subscriptions/restart", topic=topic).name
    seen: set[bytes] = set()
    changed = threading.Condition()

    def receive(message: pubsub_v1.subscriber.message.Message) -> None:
        message.ack()
        with changed:
            seen.add(message.data)
            changed.notify_all()

    # Leases of ten seconds: what the dead server had handed out comes back when its lease is over.
    stream = subscriber.subscribe(path, receive, flow_control=LEASES)
    accepted: set[bytes] = set()
    for number in range(ROUNDS):
        bodies = [b"%d-%d" % (number, place) for place in range(BATCH)]
        futures = {body: publisher.publish(topic, body) for body in bodies}
        if number:
            server.kill()
            server.start()
        for body, future in futures.items():
            future.result(SECONDS)  # what was not answered the client publishes again
            accepted.add(body)
    with changed:
        assert changed.wait_for(lambda: accepted <= seen, SECONDS), len(accepted - seen)
    assert len(accepted) == ROUNDS * BATCH
    assert not stream.done()
    stream.cancel()
    stream.result(SECONDS)
    publisher.stop()
    publisher.transport.close()
    subscriber.close()
    assert server.stop() == 0


@pytest.mark.nightly  # the client waits ten seconds before it opens a stream a second time
def test_a_stream_that_is_told_to_come_back_does(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SIGTERM: the stream ends with UNAVAILABLE, which clients take as an invitation to connect again."""
    server = GoogleServer(tmp_path, "--data", str(tmp_path / "data"))
    monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.address)
    publisher, subscriber = pubsub_v1.PublisherClient(), pubsub_v1.SubscriberClient()
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
    publisher.stop()
    publisher.transport.close()
    subscriber.close()
    assert server.stop() == 0

"""The official client with OpenTelemetry on: what it adds to a message passes, and a trace goes from end to end."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from google.cloud import pubsub_v1
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.acceptance.google_server import GoogleServer

SECONDS = 30


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    folder: Path = tmp_path_factory.mktemp("google-tracing")
    with GoogleServer(folder, "--memory") as server, pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", server.address)
        yield server


@pytest.fixture(scope="module")
def spans() -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def test_a_traced_publish_is_taken_and_its_trace_reaches_the_subscriber(
    server: GoogleServer, spans: InMemorySpanExporter
) -> None:
    options = pubsub_v1.types.PublisherOptions(enable_open_telemetry_tracing=True)
    publisher = pubsub_v1.PublisherClient(publisher_options=options)
    settings = pubsub_v1.types.SubscriberOptions(enable_open_telemetry_tracing=True)
    topic, path = publisher.topic_path("p", "traced"), "projects/p/subscriptions/traced"
    publisher.create_topic(name=topic)
    got: list[Any] = []
    arrived = threading.Event()

    def receive(message: Any) -> None:
        got.append(message)
        message.ack()
        arrived.set()

    with pubsub_v1.SubscriberClient(subscriber_options=settings) as subscriber:
        subscriber.create_subscription(name=path, topic=topic)
        stream = subscriber.subscribe(path, receive)
        assert publisher.publish(topic, b"traced").result(SECONDS)
        assert arrived.wait(SECONDS)
        stream.cancel()
        stream.result(SECONDS)
    publisher.stop()
    publisher.transport.close()
    (number,) = {span.context.trace_id for span in spans.get_finished_spans() if span.name.endswith(" create")}
    assert f"{number:032x}" in got[0].attributes["googclient_traceparent"]

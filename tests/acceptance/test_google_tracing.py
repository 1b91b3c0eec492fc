"""The official client with OpenTelemetry enabled: its attributes are kept, and a trace covers the whole way."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from google.cloud import pubsub_v1
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from penstock.testing import Project

SECONDS = 30


@pytest.fixture(scope="module")
def spans() -> InMemorySpanExporter:
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    trace.set_tracer_provider(provider)
    return exporter


def test_the_trace_of_a_publish_reaches_the_subscriber(penstock_project: Project, spans: InMemorySpanExporter) -> None:
    options = pubsub_v1.types.PublisherOptions(enable_open_telemetry_tracing=True)
    publisher = penstock_project.google_publisher(publisher_options=options)
    settings = pubsub_v1.types.SubscriberOptions(enable_open_telemetry_tracing=True)
    subscriber = penstock_project.google_subscriber(subscriber_options=settings)
    topic, path = penstock_project.topic("traced"), penstock_project.subscription("traced")
    publisher.create_topic(name=topic)
    subscriber.create_subscription(name=path, topic=topic)
    got: list[Any] = []
    arrived = threading.Event()

    def receive(message: Any) -> None:
        got.append(message)
        message.ack()
        arrived.set()

    stream = subscriber.subscribe(path, receive)
    assert publisher.publish(topic, b"traced").result(SECONDS)
    assert arrived.wait(SECONDS)
    stream.cancel()
    stream.result(SECONDS)
    (number,) = {span.context.trace_id for span in spans.get_finished_spans() if span.name.endswith(" create")}
    assert f"{number:032x}" in got[0].attributes["googclient_traceparent"]

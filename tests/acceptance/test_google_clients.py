"""The unmodified official Python client against a real server with its data on disk."""

from __future__ import annotations

import asyncio
import itertools
import runpy
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import TimeoutError as FutureTimeoutError
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.api_core import exceptions
from google.cloud import pubsub_v1
from google.cloud.pubsub_v1.subscriber import exceptions as subscriber_exceptions
from google.protobuf import duration_pb2, field_mask_pb2
from google.pubsub_v1 import PublisherAsyncClient, SubscriberAsyncClient
from google.pubsub_v1.types import Encoding, Schema
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha.proto_reflection_descriptor_database import ProtoReflectionDescriptorDatabase

from tests.acceptance.google_server import GoogleServer

SECONDS = 30
PROJECT = "acceptance"
NUMBERS = itertools.count(1)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    folder = tmp_path_factory.mktemp("google")
    with GoogleServer(folder, "--data", str(folder / "data")) as server:
        yield server


@pytest.fixture(scope="module", autouse=True)
def environment(server: GoogleServer) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PUBSUB_EMULATOR_HOST", server.address)
        yield


@pytest.fixture(scope="module")
def publisher(environment: None) -> Iterator[pubsub_v1.PublisherClient]:
    client = pubsub_v1.PublisherClient()
    yield client
    client.stop()
    client.transport.close()


@pytest.fixture(scope="module")
def subscriber(environment: None) -> Iterator[pubsub_v1.SubscriberClient]:
    with pubsub_v1.SubscriberClient() as client:
        yield client


@pytest.fixture
def topic(publisher: pubsub_v1.PublisherClient) -> str:
    path = publisher.topic_path(PROJECT, f"topic-{next(NUMBERS)}")
    publisher.create_topic(name=path)
    return path


Subscribe = Callable[..., str]


@pytest.fixture
def subscribe(subscriber: pubsub_v1.SubscriberClient) -> Subscribe:
    def create(topic: str, **fields: Any) -> str:
        path = subscriber.subscription_path(PROJECT, f"subscription-{next(NUMBERS)}")
        subscriber.create_subscription(request={"name": path, "topic": topic, **fields})
        return path

    return create


class Listener:
    """A streaming subscriber that acks and collects its messages."""

    def __init__(
        self, subscriber: pubsub_v1.SubscriberClient, path: str, act: Callable[[Any], None] | None = None
    ) -> None:
        self.bodies: list[bytes] = []
        self._act = act or (lambda message: message.ack())
        self._changed = threading.Condition()
        self.future = subscriber.subscribe(path, self._receive)

    def _receive(self, message: Any) -> None:
        self._act(message)
        with self._changed:
            self.bodies.append(message.data)
            self._changed.notify_all()

    def wait_for(self, count: int) -> list[bytes]:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.bodies) >= count, SECONDS), len(self.bodies)
        return self.bodies

    def close(self) -> None:
        self.future.cancel()
        try:
            self.future.result(SECONDS)
        except (exceptions.GoogleAPICallError, FutureTimeoutError) as error:
            raise AssertionError("the stream ended badly") from error


def test_a_batching_publisher_and_a_streaming_subscriber(
    publisher: pubsub_v1.PublisherClient, subscriber: pubsub_v1.SubscriberClient, topic: str, subscribe: Subscribe
) -> None:
    listener = Listener(subscriber, subscribe(topic))
    futures = [publisher.publish(topic, b"%d" % number, kind="test") for number in range(500)]
    ids = [future.result(SECONDS) for future in futures]
    assert len(set(ids)) == 500
    assert sorted(listener.wait_for(500), key=int) == [b"%d" % number for number in range(500)]
    listener.close()


def test_ordering(subscriber: pubsub_v1.SubscriberClient, topic: str, subscribe: Subscribe) -> None:
    options = pubsub_v1.types.PublisherOptions(enable_message_ordering=True)
    publisher = pubsub_v1.PublisherClient(publisher_options=options)
    path = subscribe(topic, enable_message_ordering=True)
    futures = [publisher.publish(topic, b"%d" % number, ordering_key=f"key-{number % 3}") for number in range(300)]
    for future in futures:
        future.result(SECONDS)
    listener = Listener(subscriber, path)
    bodies = [int(body) for body in listener.wait_for(300)]
    for key in range(3):
        assert [number for number in bodies if number % 3 == key] == list(range(key, 300, 3))
    listener.close()
    publisher.stop()
    publisher.transport.close()


def test_after_a_nack_an_ordering_key_resumes_at_the_nacked_message(
    subscriber: pubsub_v1.SubscriberClient, topic: str, subscribe: Subscribe
) -> None:
    options = pubsub_v1.types.PublisherOptions(enable_message_ordering=True)
    publisher = pubsub_v1.PublisherClient(publisher_options=options)
    path = subscribe(topic, enable_message_ordering=True)
    for number in range(10):
        publisher.publish(topic, b"%d" % number, ordering_key="key").result(SECONDS)
    failed: list[bytes] = []

    def fail_once(message: Any) -> None:
        if message.data == b"3" and not failed:
            failed.append(message.data)
            message.nack()
        else:
            message.ack()

    listener = Listener(subscriber, path, fail_once)
    bodies = [int(body) for body in listener.wait_for(11)]
    # The client may already have acked later messages before its nack arrived. The messages that come again are in
    # order.
    again = bodies[bodies.index(3, bodies.index(3) + 1) :]
    assert again == list(range(3, 3 + len(again)))
    listener.close()
    publisher.stop()
    publisher.transport.close()


def test_exactly_once(
    publisher: pubsub_v1.PublisherClient, subscriber: pubsub_v1.SubscriberClient, topic: str, subscribe: Subscribe
) -> None:
    path = subscribe(topic, enable_exactly_once_delivery=True)
    outcomes: list[Any] = []
    seen = threading.Event()

    def ack_twice(message: Any) -> None:
        outcomes.append(message.ack_with_response().result(SECONDS))
        second = subscriber_exceptions.AcknowledgeStatus.SUCCESS
        try:
            message.ack_with_response().result(SECONDS)
        except subscriber_exceptions.AcknowledgeError as error:
            second = error.error_code
        outcomes.append(second)
        seen.set()

    listener = Listener(subscriber, path, ack_twice)
    publisher.publish(topic, b"once").result(SECONDS)
    assert seen.wait(SECONDS)
    status = subscriber_exceptions.AcknowledgeStatus
    assert outcomes == [status.SUCCESS, status.INVALID_ACK_ID]
    listener.close()


def test_a_filter_and_a_dead_letter_policy(
    publisher: pubsub_v1.PublisherClient, subscriber: pubsub_v1.SubscriberClient, topic: str, subscribe: Subscribe
) -> None:
    grave = publisher.create_topic(name=f"{topic}-dead").name
    mourner = subscribe(grave)
    policy = {"dead_letter_topic": grave, "max_delivery_attempts": 5}
    path = subscribe(topic, filter='attributes.kind = "bad"', dead_letter_policy=policy)
    attempts: list[int] = []

    def refuse(message: Any) -> None:
        attempts.append(message.delivery_attempt)
        message.nack()

    publisher.publish(topic, b"fine", kind="good").result(SECONDS)
    publisher.publish(topic, b"doomed", kind="bad").result(SECONDS)
    listener = Listener(subscriber, path, refuse)
    dead = Listener(subscriber, mourner)
    assert dead.wait_for(1) == [b"doomed"]
    assert attempts == [1, 2, 3, 4, 5]
    listener.close()
    dead.close()


def test_synchronous_pull_with_nothing_to_pull(
    subscriber: pubsub_v1.SubscriberClient, topic: str, subscribe: Subscribe
) -> None:
    response = subscriber.pull(subscription=subscribe(topic), max_messages=10, timeout=2)
    assert not response.received_messages


def test_snapshots_and_seek(
    publisher: pubsub_v1.PublisherClient, subscriber: pubsub_v1.SubscriberClient, topic: str, subscribe: Subscribe
) -> None:
    path = subscribe(topic)
    snapshot = subscriber.snapshot_path(PROJECT, f"snapshot-{next(NUMBERS)}")
    subscriber.create_snapshot(name=snapshot, subscription=path)
    publisher.publish(topic, b"1").result(SECONDS)
    received = subscriber.pull(subscription=path, max_messages=10).received_messages
    subscriber.acknowledge(subscription=path, ack_ids=[each.ack_id for each in received])
    subscriber.seek(request={"subscription": path, "snapshot": snapshot})
    again = subscriber.pull(subscription=path, max_messages=10).received_messages
    assert [each.message.data for each in again] == [b"1"]
    assert [each.name for each in subscriber.list_snapshots(project=f"projects/{PROJECT}")] == [snapshot]
    subscriber.delete_snapshot(snapshot=snapshot)


def test_updates_lists_labels_and_policies(
    publisher: pubsub_v1.PublisherClient, subscriber: pubsub_v1.SubscriberClient, topic: str, subscribe: Subscribe
) -> None:
    path = subscribe(topic, labels={"a": "1"})
    changed = subscriber.update_subscription(
        subscription={"name": path, "expiration_policy": {"ttl": duration_pb2.Duration(seconds=90000)}},
        update_mask=field_mask_pb2.FieldMask(paths=["expiration_policy.ttl"]),
    )
    assert changed.expiration_policy.ttl.total_seconds() == 90000
    assert list(publisher.list_topic_subscriptions(topic=topic)) == [path]
    assert topic in [each.name for each in publisher.list_topics(project=f"projects/{PROJECT}")]
    policy = publisher.get_iam_policy(request={"resource": topic})
    policy.bindings.add(role="roles/pubsub.viewer", members=["user:someone@example.com"])
    kept = publisher.set_iam_policy(request={"resource": topic, "policy": policy})
    assert kept.bindings == policy.bindings
    asked = publisher.test_iam_permissions(request={"resource": topic, "permissions": ["pubsub.topics.get"]})
    assert list(asked.permissions) == ["pubsub.topics.get"]
    publisher.detach_subscription(request={"subscription": path})
    assert subscriber.get_subscription(subscription=path).detached


AVRO = '{"type": "record", "name": "State", "fields": [{"name": "name", "type": "string"}]}'
PROTO = 'syntax = "proto3"; message State { string name = 1; int32 post_code = 2; }'


@pytest.mark.parametrize(
    ("kind", "definition", "good", "bad"),
    [
        (Schema.Type.AVRO, AVRO, b'{"name": "Alaska"}', b'{"name": 1}'),
        (Schema.Type.PROTOCOL_BUFFER, PROTO, b'{"name": "Alaska", "post_code": 7}', b'{"nothing": 1}'),
    ],
)
def test_a_topic_with_a_schema(
    publisher: pubsub_v1.PublisherClient,
    subscriber: pubsub_v1.SubscriberClient,
    subscribe: Subscribe,
    kind: Any,
    definition: str,
    good: bytes,
    bad: bytes,
) -> None:
    from google.pubsub_v1 import SchemaServiceClient

    schemas = SchemaServiceClient(transport=_plain(SchemaServiceClient))
    identifier = f"schema-{next(NUMBERS)}"
    schema = schemas.create_schema(
        parent=f"projects/{PROJECT}", schema=Schema(type_=kind, definition=definition), schema_id=identifier
    )
    settings = {"schema": schema.name, "encoding": Encoding.JSON}
    topic = publisher.create_topic(
        request={"name": f"projects/{PROJECT}/topics/topic-{next(NUMBERS)}", "schema_settings": settings}
    ).name
    path = subscribe(topic)
    publisher.publish(topic, good).result(SECONDS)
    with pytest.raises(exceptions.InvalidArgument):
        publisher.publish(topic, bad).result(SECONDS)
    (received,) = subscriber.pull(subscription=path, max_messages=10).received_messages
    assert dict(received.message.attributes) == {
        "googclient_schemaname": schema.name,
        "googclient_schemaencoding": "JSON",
        "googclient_schemarevisionid": schema.revision_id,
    }
    assert [each.name for each in schemas.list_schemas(parent=f"projects/{PROJECT}") if each.name == schema.name]
    schemas.delete_schema(name=schema.name)
    assert publisher.get_topic(topic=topic).schema_settings.schema == "_deleted-schema_"
    with pytest.raises(exceptions.NotFound):
        publisher.publish(topic, good).result(SECONDS)
    schemas.transport.close()


def _plain(client: Any) -> Any:
    """Return a transport without TLS and credentials. This client does not read PUBSUB_EMULATOR_HOST."""
    import os

    from google.auth.credentials import AnonymousCredentials

    transport = client.get_transport_class("grpc")
    return transport(
        channel=grpc.insecure_channel(os.environ["PUBSUB_EMULATOR_HOST"]), credentials=AnonymousCredentials()
    )


def test_the_asynchronous_clients(server: GoogleServer) -> None:
    async def use() -> list[bytes]:
        channel = grpc.aio.insecure_channel(server.address)
        publisher = PublisherAsyncClient(
            transport=PublisherAsyncClient.get_transport_class("grpc_asyncio")(channel=channel)
        )
        subscriber = SubscriberAsyncClient(
            transport=SubscriberAsyncClient.get_transport_class("grpc_asyncio")(channel=channel)
        )
        topic = await publisher.create_topic(name=f"projects/{PROJECT}/topics/topic-{next(NUMBERS)}")
        path = f"projects/{PROJECT}/subscriptions/subscription-{next(NUMBERS)}"
        await subscriber.create_subscription(name=path, topic=topic.name)
        await publisher.publish(topic=topic.name, messages=[{"data": b"1"}, {"data": b"2"}])
        received = (await subscriber.pull(subscription=path, max_messages=10)).received_messages
        await subscriber.acknowledge(subscription=path, ack_ids=[each.ack_id for each in received])
        await channel.close()
        return [each.message.data for each in received]

    assert asyncio.run(use()) == [b"1", b"2"]


def test_health_and_reflection(server: GoogleServer) -> None:
    with grpc.insecure_channel(server.address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for service in ("", "google.pubsub.v1.Publisher"):
            answer = health.Check(health_pb2.HealthCheckRequest(service=service), timeout=SECONDS)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        watch = health.Watch(health_pb2.HealthCheckRequest(), timeout=SECONDS)
        assert next(watch).status == health_pb2.HealthCheckResponse.SERVING
        watch.cancel()
        reflection = ProtoReflectionDescriptorDatabase(channel)
        services = set(reflection.get_services())
        assert {"google.pubsub.v1.Publisher", "google.pubsub.v1.Subscriber", "google.iam.v1.IAMPolicy"} <= services
        file = reflection.FindFileContainingSymbol("google.pubsub.v1.Subscriber")
        (subscriber,) = [each for each in file.service if each.name == "Subscriber"]
        assert len(subscriber.method) == 16
        assert reflection.FindFileContainingSymbol("google.pubsub.v1.PubsubMessage").name == file.name


EXAMPLES = {
    "google_worker.py": "Billing apples from north\nBilling pears from north\nBilling plums from north\n",
    "google_dead_letters.py": "".join(f"Attempt {attempt}: no one at home\n" for attempt in range(1, 6))
    + "Lost after 5 attempts: parcel without an address\n",
}


@pytest.mark.parametrize("name", EXAMPLES)
def test_the_examples_print_what_they_promise(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    example = runpy.run_path(str(Path(__file__).parents[2] / "examples" / name))
    example["main"]()
    assert capsys.readouterr().out == EXAMPLES[name]


def test_the_server_stays_small(server: GoogleServer) -> None:
    assert server.resident_bytes() < 120 << 20


def test_the_log_has_no_errors(server: GoogleServer) -> None:
    text = Path(server.folder / "log.txt").read_text()
    assert "ERROR" not in text, text

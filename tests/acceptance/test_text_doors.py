"""Messages of the text door that are received through the Google door and the Azure door, and the other way round.

The clients of Pub/Sub and Azure are the vendors' own. The text client is a socket.
"""

from __future__ import annotations

from collections.abc import Iterator

import grpc
import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import QueueClient
from google.cloud import pubsub_v1
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from penstock.errors import NotFoundError
from penstock.text import Client as TextClient
from tests.acceptance.azure_server import ACCOUNT, connection_string
from tests.acceptance.text_server import Plug, TextServer
from tests.server_process import SECONDS

QUEUE = "letters"
TOPIC = f"projects/{ACCOUNT}/topics/{QUEUE}"
SUBSCRIPTION = f"projects/{ACCOUNT}/subscriptions/{QUEUE}"


class Doors:
    """One client for each door, all for the same queue."""

    def __init__(self, server: TextServer) -> None:
        self.server = server
        self.text = Plug(server.address)
        self.channel = grpc.insecure_channel(server.addresses["pubsub"])
        self.publisher = pubsub_v1.PublisherClient(transport=PublisherGrpcTransport(channel=self.channel))
        self.subscriber = pubsub_v1.SubscriberClient(transport=SubscriberGrpcTransport(channel=self.channel))
        string = connection_string(f"http://{server.addresses['azure']}/{ACCOUNT}")
        self.azure = QueueClient.from_connection_string(string, QUEUE, retry_total=0)
        self.azure.create_queue()

    def close(self) -> None:
        self.text.close()
        self.azure.close()
        self.publisher.stop()
        self.channel.close()

    def send_text(self, content: bytes) -> None:
        self.text.send(QUEUE.encode(), content)
        self.text.hear_ids(1)

    def take_text(self) -> bytes:
        with Plug(self.server.address) as consumer:
            consumer.consume(QUEUE.encode(), 1)
            ((content, message_id),) = consumer.hear_messages(1)
            consumer.consume(QUEUE.encode(), 0)  # no more messages than this one
            consumer.ack(QUEUE.encode(), message_id)
            consumer.send(b"certain", b"")
            consumer.hear_ids(1)
        return content

    def send_google(self, content: bytes) -> None:
        self.publisher.publish(TOPIC, content).result(SECONDS)

    def take_google(self) -> bytes:
        response = self.subscriber.pull(subscription=SUBSCRIPTION, max_messages=1, timeout=SECONDS)
        (received,) = response.received_messages
        self.subscriber.acknowledge(subscription=SUBSCRIPTION, ack_ids=[received.ack_id])
        return bytes(received.message.data)

    def send_azure(self, content: bytes) -> None:
        self.azure.send_message(content.decode())

    def take_azure(self) -> bytes:
        message = next(iter(self.azure.receive_messages(max_messages=1)))
        self.azure.delete_message(message)
        return str(message.content).encode()


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Doors]:
    folder = tmp_path_factory.mktemp("doors")
    data = ("--data", str(folder / "data"), "--log-level", "error")
    with TextServer(folder, *data, others=["pubsub", "azure"], default_project=ACCOUNT) as server:
        opened = Doors(server)
        try:
            yield opened
        finally:
            opened.close()


@pytest.mark.parametrize(
    ("into", "out"), [("text", "google"), ("text", "azure"), ("google", "text"), ("azure", "text")]
)
def test_messages_of_one_door_are_received_through_another(doors: Doors, into: str, out: str) -> None:
    """T-012: a queue is a topic and a subscription like any other."""
    contents = [f"from {into} to {out}: {number} <&> ☃".encode() for number in range(3)]
    for content in contents:
        getattr(doors, f"send_{into}")(content)
    assert [getattr(doors, f"take_{out}")() for _ in contents] == contents


def test_leased_messages_of_a_text_client_are_released_when_it_disconnects(doors: Doors) -> None:
    """T-033, T-034."""
    doors.send_azure(b"held")
    with Plug(doors.server.address) as consumer:
        consumer.consume(QUEUE.encode(), 1)
        assert consumer.hear_messages(1)[0][0] == b"held"
        assert list(doors.azure.receive_messages(max_messages=1)) == []
    for _ in range(100):  # the server may see the end of the connection later
        messages = list(doors.azure.receive_messages(max_messages=1))
        if messages:
            break
    assert [str(each.content) for each in messages] == ["held"]
    doors.azure.delete_message(messages[0])


def test_a_queue_deleted_through_azure_stays_deleted_under_a_text_consumer(doors: Doors) -> None:
    """T-045: the consumer of Penstock's client gets an error, and its open window does not create the queue again."""
    with TextClient(doors.server.addresses["text"]) as client:
        client.send(QUEUE, b"one")
        messages = client.consume(QUEUE, window=10)
        assert next(messages).content == b"one"
        doors.azure.delete_queue()
        with pytest.raises(NotFoundError, match="gone"):
            next(messages)
    with pytest.raises(ResourceNotFoundError):
        doors.azure.get_queue_properties()
    doors.azure.create_queue()

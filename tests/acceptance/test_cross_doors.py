"""Messages that are published through one door and received through another: one server, clients of three protocols."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import QueueClient
from google.cloud import pubsub_v1

from penstock.admin.client import Client as AdminClient
from penstock.text.blocking import Client as TextClient
from tests.acceptance.azure_server import ACCOUNT, connection_string
from tests.server_process import SECONDS, ServerProcess

PROJECT = "demo"  # project of clients that name none: text clients and Azure's development account


@pytest.fixture(scope="module")
def doors(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, str]]:
    """Yield the addresses of a server with three doors."""
    folder = tmp_path_factory.mktemp("doors")
    given = ["--data", str(folder / "data"), "--default-project", PROJECT]
    with (
        ServerProcess(folder, *given, doors=["pubsub", "azure", "text", "http"]) as server,
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setenv("PUBSUB_EMULATOR_HOST", server.addresses["pubsub"])
        yield server.addresses


@pytest.fixture(scope="module")
def publisher(doors: dict[str, str]) -> Iterator[pubsub_v1.PublisherClient]:
    client = pubsub_v1.PublisherClient()
    yield client
    client.stop()
    client.transport.close()


@pytest.fixture(scope="module")
def subscriber(doors: dict[str, str]) -> Iterator[pubsub_v1.SubscriberClient]:
    with pubsub_v1.SubscriberClient() as client:
        yield client


def azure_queue(doors: dict[str, str], name: str) -> QueueClient:
    string = connection_string(f"http://{doors['azure']}/{ACCOUNT}")
    return QueueClient.from_connection_string(string, name, retry_total=0)


def subscription(name: str) -> str:
    return f"projects/{PROJECT}/subscriptions/{name}"


def topic(name: str) -> str:
    return f"projects/{PROJECT}/topics/{name}"


def pull(client: pubsub_v1.SubscriberClient, name: str, count: int) -> list[bytes]:
    """Pull and ack messages, with as many requests as necessary."""
    found: list[bytes] = []
    while len(found) < count:
        answer = client.pull(subscription=subscription(name), max_messages=count, timeout=SECONDS)
        found += [each.message.data for each in answer.received_messages]
        ids = [each.ack_id for each in answer.received_messages]
        client.acknowledge(subscription=subscription(name), ack_ids=ids)
    return found


def test_put_by_azure_pulled_by_google(doors: dict[str, str], subscriber: pubsub_v1.SubscriberClient) -> None:
    with azure_queue(doors, "azure-to-google") as queue:
        queue.create_queue()
        for text in ("one", "zwei", "三"):
            queue.send_message(text)
        assert pull(subscriber, "azure-to-google", 3) == [b"one", b"zwei", "三".encode()]
        assert queue.receive_message() is None
        assert queue.get_queue_properties().approximate_message_count == 0


def test_published_by_google_received_by_azure(doors: dict[str, str], publisher: pubsub_v1.PublisherClient) -> None:
    with azure_queue(doors, "google-to-azure") as queue:
        queue.create_queue()
        for data in (b"text", "ünï".encode(), b"\x00\xff"):
            publisher.publish(topic("google-to-azure"), data).result(SECONDS)
        messages = list(queue.receive_messages(messages_per_page=8, max_messages=8))
        assert [message.content for message in messages] == ["text", "ünï", "AP8="]
        for message in messages:
            queue.delete_message(message)
        assert queue.get_queue_properties().approximate_message_count == 0


def test_a_topic_of_google_is_a_queue_once_it_has_its_subscription(
    doors: dict[str, str], publisher: pubsub_v1.PublisherClient, subscriber: pubsub_v1.SubscriberClient
) -> None:
    name = "made-by-google"
    publisher.create_topic(name=topic(name))
    with azure_queue(doors, name) as queue:
        with pytest.raises(ResourceNotFoundError):
            queue.send_message("no subscription keeps it yet")
        subscriber.create_subscription(name=subscription(name), topic=topic(name))
        sent = queue.send_message("hello")
        received = queue.receive_message()
        assert (received.id, received.content) == (sent.id, "hello")
        queue.delete_message(received)


def test_a_late_queue_gets_the_messages_that_are_kept(
    doors: dict[str, str], publisher: pubsub_v1.PublisherClient, subscriber: pubsub_v1.SubscriberClient
) -> None:
    """A queue begins with the topic's first message. A subscription of Pub/Sub begins at the end of the topic."""
    for name in ("late-text", "late-azure"):
        publisher.create_topic(name=topic(name))
        publisher.publish(topic(name), b"early").result(SECONDS)
    subscriber.create_subscription(name=subscription("late-google"), topic=topic("late-text"))
    with TextClient(doors["text"]) as text, azure_queue(doors, "late-azure") as queue:
        for message in text.consume("late-text", wait_seconds=SECONDS):
            assert bytes(message.content) == b"early"
            message.ack()
            break
        queue.create_queue()
        assert queue.receive_message().content == "early"
    publisher.publish(topic("late-text"), b"late").result(SECONDS)
    assert pull(subscriber, "late-google", 1) == [b"late"]


def test_sent_as_text_received_by_azure_and_back(doors: dict[str, str]) -> None:
    with TextClient(doors["text"]) as text, azure_queue(doors, "text-and-azure") as queue:
        text.send("text-and-azure", "grüße".encode())
        received = queue.receive_message()
        assert received.content == "grüße"
        queue.delete_message(received)
        queue.send_message("and back")
        for message in text.consume("text-and-azure", wait_seconds=SECONDS):
            assert bytes(message.content) == b"and back"
            message.ack()
            break


def test_three_consumers_share_one_queue_and_nothing_is_seen_twice(
    doors: dict[str, str], publisher: pubsub_v1.PublisherClient, subscriber: pubsub_v1.SubscriberClient
) -> None:
    name = "shared-by-all"
    with TextClient(doors["text"]) as text, azure_queue(doors, name) as queue:
        queue.create_queue()
        queue.send_message("azure")
        publisher.publish(topic(name), b"google").result(SECONDS)
        text.send(name, b"text")
        first = queue.receive_message()
        (second,) = pull(subscriber, name, 1)
        third = queue.receive_message()
        assert [first.content, second, third.content] == ["azure", b"google", "text"]
        assert queue.receive_message() is None


def test_names_are_those_that_clients_use_now(doors: dict[str, str], publisher: pubsub_v1.PublisherClient) -> None:
    with AdminClient(doors["http"]) as admin, azure_queue(doors, "bare") as queue:
        admin.post("/topics", {"name": "t1"})  # Pub/Sub clients cannot create this name
        named = admin.get("/topics/t1")["names"]["pubsub"]
        assert publisher.publish(named, b"x").result(SECONDS)
        assert admin.post("/topics", {"name": "bare"})["names"]["azure"] is None
        with pytest.raises(ResourceNotFoundError):
            queue.receive_message()
        admin.post("/queues", {"name": "bare"})
        assert admin.get("/topics/bare")["names"]["azure"] == queue.url
        assert queue.receive_message() is None

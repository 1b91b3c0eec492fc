"""The vendors' clients, connected to a server for tests; at their end no publish is cut off."""

from __future__ import annotations

from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any

from penstock.errors import UnavailableError

GOOGLE, AZURE = "google-cloud-pubsub", "azure-storage-queue"  # the packages of their clients
CLOSE_SECONDS = 2.0  # for publishes that are under way


def google_publisher(address: str, closing: ExitStack, options: dict[str, Any]) -> Any:
    """google.cloud.pubsub_v1.PublisherClient."""
    channel = _module("grpc").insecure_channel(address)
    transports = _module("google.pubsub_v1.services.publisher.transports")
    transport = transports.PublisherGrpcTransport(channel=channel)
    client = _module("google.cloud.pubsub_v1").PublisherClient(transport=transport, **options)
    under_way = set[Future[str]]()
    publish = client.publish

    def noted(*arguments: Any, **named: Any) -> Future[str]:
        future: Future[str] = publish(*arguments, **named)
        under_way.add(future)
        future.add_done_callback(under_way.discard)
        return future

    client.publish = noted
    closing.callback(_close, client, channel, under_way)
    return client


def _close(client: Any, channel: Any, under_way: set[Future[str]]) -> None:
    """A channel that is closed under a publish lets the client repeat it, on nothing: its thread would die of that."""
    with suppress(RuntimeError):  # the test has stopped it
        client.stop()
    left = wait(list(under_way), CLOSE_SECONDS).not_done
    if not left:
        channel.close()
    for future in left:
        future.add_done_callback(lambda _: None if under_way else channel.close())


def google_subscriber(address: str, closing: ExitStack, options: dict[str, Any]) -> Any:
    """google.cloud.pubsub_v1.SubscriberClient."""
    channel = closing.enter_context(_module("grpc").insecure_channel(address))
    transports = _module("google.pubsub_v1.services.subscriber.transports")
    transport = transports.SubscriberGrpcTransport(channel=channel)
    client = _module("google.cloud.pubsub_v1").SubscriberClient(transport=transport, **options)
    closing.callback(client.close)
    return client


def azure_queue_service(connection: str, closing: ExitStack, options: dict[str, Any]) -> Any:
    """azure.storage.queue.QueueServiceClient."""
    kind = _module("azure.storage.queue", AZURE).QueueServiceClient
    return closing.enter_context(kind.from_connection_string(connection, **options))


def _module(module: str, package: str = GOOGLE) -> Any:
    """A module of a vendor's client, which the test brings along."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UnavailableError(f"This client needs a package: pip install {package}") from error

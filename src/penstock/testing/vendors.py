"""The vendors' clients, connected to a server for tests. Closing a client waits for its publishes."""

from __future__ import annotations

from concurrent.futures import Future, wait
from contextlib import ExitStack, suppress
from importlib import import_module
from typing import Any

from penstock.errors import UnavailableError

GOOGLE, AZURE = "google-cloud-pubsub", "azure-storage-queue"  # packages of the clients
CLOSE_SECONDS = 2.0  # maximum wait for unfinished publishes


def google_publisher(address: str, closing: ExitStack, options: dict[str, Any]) -> Any:
    """Return a google.cloud.pubsub_v1.PublisherClient."""
    channel = _module("grpc").insecure_channel(address)
    transports = _module("google.pubsub_v1.services.publisher.transports")
    transport = transports.PublisherGrpcTransport(channel=channel)
    client = _module("google.cloud.pubsub_v1").PublisherClient(transport=transport, **options)
    unfinished = set[Future[str]]()
    publish = client.publish

    def track(*arguments: Any, **named: Any) -> Future[str]:
        future: Future[str] = publish(*arguments, **named)
        unfinished.add(future)
        future.add_done_callback(unfinished.discard)
        return future

    client.publish = track
    closing.callback(_close, client, channel, unfinished)
    return client


def _close(client: Any, channel: Any, unfinished: set[Future[str]]) -> None:
    """Close the channel after the last publish, because a publish on a closed channel kills the client's thread."""
    with suppress(RuntimeError):  # the test has stopped the client
        client.stop()
    left = wait(list(unfinished), CLOSE_SECONDS).not_done
    if not left:
        channel.close()
    for future in left:
        future.add_done_callback(lambda _: None if unfinished else channel.close())


def google_subscriber(address: str, closing: ExitStack, options: dict[str, Any]) -> Any:
    """Return a google.cloud.pubsub_v1.SubscriberClient."""
    channel = closing.enter_context(_module("grpc").insecure_channel(address))
    transports = _module("google.pubsub_v1.services.subscriber.transports")
    transport = transports.SubscriberGrpcTransport(channel=channel)
    client = _module("google.cloud.pubsub_v1").SubscriberClient(transport=transport, **options)
    closing.callback(client.close)
    return client


def azure_queue_service(connection: str, closing: ExitStack, options: dict[str, Any]) -> Any:
    """Return an azure.storage.queue.QueueServiceClient."""
    kind = _module("azure.storage.queue", AZURE).QueueServiceClient
    return closing.enter_context(kind.from_connection_string(connection, **options))


def _module(module: str, package: str = GOOGLE) -> Any:
    """Import a module of a vendor's client, which the tested project has installed."""
    try:
        return import_module(module)
    except ImportError as error:
        raise UnavailableError(f"This client needs a package: pip install {package}") from error

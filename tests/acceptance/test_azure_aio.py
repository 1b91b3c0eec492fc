"""The unmodified asynchronous SDK against a real server: every method, and many callers at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceExistsError, ResourceNotFoundError
from azure.storage.queue import AccessPolicy, CorsRule, QueueSasPermissions
from azure.storage.queue.aio import QueueClient, QueueServiceClient

from penstock.testing import Server
from tests.acceptance.azure_server import ACCOUNT, KEY, AzureClients


@pytest.fixture(scope="module")
def served(penstock: Server) -> AzureClients:
    return AzureClients(penstock["azure"])


def run(work: Coroutine[Any, Any, None]) -> None:
    asyncio.run(asyncio.wait_for(work, 30))


@asynccontextmanager
async def opened(served: AzureClients, name: str) -> AsyncIterator[QueueClient]:
    async with QueueClient.from_connection_string(served.connection_string, name, retry_total=0) as queue:
        await queue.create_queue()
        yield queue


def test_every_method_of_the_service(served: AzureClients) -> None:
    async def work() -> None:
        async with QueueServiceClient.from_connection_string(served.connection_string, retry_total=0) as service:
            for name in ("aio-listed-b", "aio-listed-a", "aio-listed-c"):
                await service.create_queue(name, metadata={"Name": name})
            found = service.list_queues(name_starts_with="aio-listed-", include_metadata=True, results_per_page=1)
            assert [(queue.name, queue.metadata) async for queue in found] == [
                (name, {"Name": name}) for name in ("aio-listed-a", "aio-listed-b", "aio-listed-c")
            ]
            await service.set_service_properties(cors=[CorsRule(["*"], ["GET"])])
            assert (await service.get_service_properties())["cors"][0].allowed_methods == "GET"
            await service.set_service_properties(cors=[])
            queue = service.get_queue_client("aio-listed-a")
            assert (await queue.get_queue_properties()).approximate_message_count == 0
            await service.delete_queue("aio-listed-a")
            with pytest.raises(ResourceNotFoundError):
                await queue.get_queue_properties()

    run(work())


def test_statistics(served: AzureClients) -> None:
    async def work() -> None:
        # In path style, the secondary location is a separate account name.
        url = f"http://{served.address}/{ACCOUNT}-secondary"
        credential = {"account_name": ACCOUNT, "account_key": KEY}
        options: dict[str, Any] = {"secondary_hostname": served.address, "retry_total": 0}
        async with QueueServiceClient(url, credential=credential, **options) as service:
            assert (await service.get_service_stats())["geo_replication"]["status"] == "live"

    run(work())


def test_every_method_of_a_queue(served: AzureClients) -> None:
    async def work() -> None:
        async with opened(served, "aio-queue") as queue:
            with pytest.raises(ResourceExistsError):
                await queue.create_queue()
            await queue.set_queue_metadata({"a": "1"})
            assert (await queue.get_queue_properties()).metadata == {"a": "1"}
            expiry = datetime.now(UTC) + timedelta(hours=1)
            policy = AccessPolicy(permission=QueueSasPermissions(read=True), expiry=expiry)
            await queue.set_queue_access_policy({"it": policy})
            assert (await queue.get_queue_access_policy())["it"].permission == "r"
            sent = await queue.send_message("hällo <&>", visibility_timeout=0, time_to_live=60)
            assert [message.content for message in await queue.peek_messages(5)] == ["hällo <&>"]
            received = await queue.receive_message(visibility_timeout=60)
            assert received is not None
            assert (received.id, received.dequeue_count) == (sent.id, 1)
            updated = await queue.update_message(received, content="new", visibility_timeout=0)
            with pytest.raises(HttpResponseError):
                await queue.delete_message(received)
            async for message in queue.receive_messages(max_messages=1):
                assert (message.content, message.dequeue_count) == ("new", 2)
                assert message.pop_receipt != updated.pop_receipt
                await queue.delete_message(message)
            await queue.send_message("x")
            await queue.clear_messages()
            assert (await queue.get_queue_properties()).approximate_message_count == 0
            await queue.delete_queue()

    run(work())


def test_many_callers_get_every_message_once(served: AzureClients) -> None:
    async def work() -> None:
        async with opened(served, "aio-many") as queue:
            texts = [f"message {number}" for number in range(300)]
            await asyncio.gather(*(queue.send_message(text) for text in texts))
            seen: list[str] = []

            async def consume() -> None:
                while True:
                    messages = [
                        message async for message in queue.receive_messages(messages_per_page=8, max_messages=8)
                    ]
                    if not messages:
                        return
                    await asyncio.gather(*(queue.delete_message(message) for message in messages))
                    seen.extend(message.content for message in messages)

            await asyncio.gather(*(consume() for _ in range(8)))
            assert sorted(seen) == sorted(texts)

    run(work())

"""Answered requests survive kill -9, a queue among 12,000 others is listed page by page, and Azurite's flags work."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from azure.core.exceptions import ResourceNotFoundError
from azure.storage.queue import QueueClient

from penstock.admin.client import Client
from tests.acceptance.azure_server import KEY, AzureServer

QUEUES = 12_000


@pytest.mark.kill
def test_ten_answered_puts_survive_a_kill_at_once(tmp_path: Path) -> None:
    """All 10 messages are there. Azurite with its files on disk loses all 10."""
    data = str(tmp_path / "data")
    with AzureServer(tmp_path, "--data", data) as server:
        queue = server.queue("survivors")
        queue.set_queue_metadata({"kept": "too"})
        sent = [queue.send_message(f"message {number}") for number in range(10)]
        server.kill()
        queue.close()
    with AzureServer(tmp_path, "--data", data) as server, server.queue("survivors", create=False) as queue:
        messages = list(queue.receive_messages(messages_per_page=32, max_messages=32))
        assert [message.content for message in messages] == [f"message {number}" for number in range(10)]
        assert [message.id for message in messages] == [each.id for each in sent]
        assert queue.get_queue_properties().metadata == {"kept": "too"}


@pytest.mark.kill
def test_deletes_updates_and_receipts_survive_as_well(tmp_path: Path) -> None:
    data = str(tmp_path / "data")
    with AzureServer(tmp_path, "--data", data) as server:
        queue = server.queue("survivors")
        for number in range(3):
            queue.send_message(str(number))
        first, second, third = queue.receive_messages(messages_per_page=3, max_messages=3, visibility_timeout=600)
        queue.delete_message(first)
        updated = queue.update_message(second, content="updated", visibility_timeout=600)
        server.kill()
        queue.close()
    with AzureServer(tmp_path, "--data", data) as server, server.queue("survivors", create=False) as queue:
        assert queue.get_queue_properties().approximate_message_count == 2
        assert queue.receive_message() is None
        shown = queue.update_message(updated.id, updated.pop_receipt, visibility_timeout=0)
        again = queue.receive_message()
        assert (again.id, again.content, again.dequeue_count) == (shown.id, "updated", 2)
        queue.delete_message(third)


def test_twelve_thousand_queues_are_listed_page_by_page(tmp_path: Path) -> None:
    names = [f"queue-{number:05}" for number in range(QUEUES)]
    with AzureServer(tmp_path, "--data", str(tmp_path / "data"), doors=("azure", "http")) as server:
        with Client(server.addresses["http"]) as admin:
            for part in (names[:1999:-1], names[1999::-1]):
                admin.post("/topology", {"queues": [{"name": name} for name in part]})
        service = server.service()
        pages = [[queue.name for queue in page] for page in service.list_queues().by_page()]
        assert [len(page) for page in pages] == [5000, 5000, 2000]
        assert [name for page in pages for name in page] == names
        small = [queue.name for queue in service.list_queues(name_starts_with="queue-0", results_per_page=999)]
        assert small == names[:10_000]
        service.close()
        server.kill()
    with AzureServer(tmp_path, "--data", str(tmp_path / "data")) as server, server.service() as service:
        assert sum(1 for _ in service.list_queues()) == QUEUES


def test_azurite_output_can_be_pasted_and_its_debug_file_has_the_requests(tmp_path: Path) -> None:
    debug = tmp_path / "debug.log"
    with AzureServer(tmp_path, "--inMemoryPersistence", "-d", str(debug), azurite=True) as server:
        pasted = re.search(r"AZURE_STORAGE_CONNECTION_STRING='(.+)'", server.banner)
        assert pasted is not None, server.banner
        with QueueClient.from_connection_string(pasted[1], "pasted", retry_total=0) as queue:
            queue.create_queue()
            queue.send_message("hello")
            assert queue.receive_message().content == "hello"
            with pytest.raises(ResourceNotFoundError):
                queue.delete_message("x", "MDAw")
        text = debug.read_text()
    assert "penstock.requests: azure CreateQueue devstoreaccount1/pasted 201 " in text
    assert "penstock.requests" not in server.log(), "standard error did not change"
    assert "MessageNotFound" in text
    assert KEY not in text


def test_azurites_flags_start_the_queue(tmp_path: Path) -> None:
    flags = ["--silent", "--disableTelemetry", "--skipApiVersionCheck", "--loose", "--disableProductStyleUrl"]
    with AzureServer(tmp_path, "--location", str(tmp_path), *flags, azurite=True) as server:
        with server.queue("hello") as queue:
            queue.send_message("kept")
        server.kill()
    again = AzureServer(tmp_path, "-l", str(tmp_path), "-s", azurite=True)
    with again as server, server.queue("hello", create=False) as queue:
        assert queue.receive_message().content == "kept"
    with AzureServer(tmp_path, "--inMemoryPersistence", "--blobPort", "1", azurite=True) as server:
        assert list(server.service().list_queues()) == []

"""The unmodified official SDK against a real server: every method of QueueServiceClient and QueueClient."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import (
    ClientAuthenticationError,
    HttpResponseError,
    ResourceExistsError,
    ResourceNotFoundError,
)
from azure.storage.queue import (
    AccessPolicy,
    BinaryBase64DecodePolicy,
    BinaryBase64EncodePolicy,
    CorsRule,
    Metrics,
    QueueAnalyticsLogging,
    QueueClient,
    QueueSasPermissions,
    QueueServiceClient,
    RetentionPolicy,
    TextBase64DecodePolicy,
    TextBase64EncodePolicy,
)

from tests.acceptance.azure_server import ACCOUNT, KEY, AzureServer


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AzureServer]:
    folder = tmp_path_factory.mktemp("azure")
    with AzureServer(folder, "--data", str(folder / "data")) as server:
        yield server


# ---------------------------------------------------------------------- the service


def test_queues_are_created_listed_and_deleted(served: AzureServer) -> None:
    with served.service() as service:
        names = [f"listed-{number}" for number in range(7)]
        for name in names:
            service.create_queue(name, metadata={"Number": name[-1]})
        found = list(service.list_queues(name_starts_with="listed-", include_metadata=True, results_per_page=2))
        assert [queue.name for queue in found] == names
        assert [queue.metadata for queue in found] == [{"Number": str(number)} for number in range(7)]
        pages = service.list_queues(name_starts_with="listed-", results_per_page=3).by_page()
        assert [len(list(page)) for page in pages] == [3, 3, 1]
        for name in names:
            service.delete_queue(name)
        assert list(service.list_queues(name_starts_with="listed-")) == []


def test_service_properties_round_trip(served: AzureServer) -> None:
    with served.service() as service:
        logging = QueueAnalyticsLogging(
            delete=True, read=True, write=True, retention_policy=RetentionPolicy(enabled=True, days=5)
        )
        metrics = Metrics(enabled=True, include_apis=True, retention_policy=RetentionPolicy(enabled=True, days=5))
        rule = CorsRule(
            ["https://a.example", "https://b.example"],
            ["GET", "PUT"],
            allowed_headers=["x-ms-*"],
            exposed_headers=["x-ms-meta-*"],
            max_age_in_seconds=500,
        )
        service.set_service_properties(
            analytics_logging=logging, hour_metrics=metrics, minute_metrics=metrics, cors=[rule]
        )
        properties = service.get_service_properties()
        assert properties["analytics_logging"].retention_policy.days == 5
        assert properties["hour_metrics"].include_apis is True
        assert properties["minute_metrics"].enabled is True
        assert properties["cors"][0].allowed_origins == rule.allowed_origins
        assert properties["cors"][0].max_age_in_seconds == 500
        service.set_service_properties(cors=[])
        kept = service.get_service_properties()
        assert (kept["cors"], kept["analytics_logging"].delete) == ([], True)


def test_wrong_service_properties_are_refused(served: AzureServer) -> None:
    with served.service() as service:
        with pytest.raises(HttpResponseError):
            service.set_service_properties(cors=[CorsRule(["*"], ["GET"])] * 6)
        policy = RetentionPolicy(enabled=True, days=366)
        with pytest.raises(HttpResponseError):
            service.set_service_properties(analytics_logging=QueueAnalyticsLogging(retention_policy=policy))


def test_statistics_come_from_the_secondary_in_host_style(served: AzureServer, monkeypatch: pytest.MonkeyPatch) -> None:
    resolve = socket.getaddrinfo

    def to_this_machine(host: Any, *arguments: Any, **more: Any) -> Any:
        return resolve("127.0.0.1" if str(host).endswith(".localhost") else host, *arguments, **more)

    monkeypatch.setattr(socket, "getaddrinfo", to_this_machine)
    domain = f"queue.localhost:{served.address.rpartition(':')[2]}"
    options: dict[str, Any] = {"secondary_hostname": f"{ACCOUNT}-secondary.{domain}", "retry_total": 0}
    credential = {"account_name": ACCOUNT, "account_key": KEY}
    with QueueServiceClient(f"http://{ACCOUNT}.{domain}", credential=credential, **options) as service:
        stats = service.get_service_stats()
        assert stats["geo_replication"]["status"] == "live"
        assert stats["geo_replication"]["last_sync_time"] is not None
        service.create_queue("in-host-style").send_message("hello")
    with served.queue("in-host-style", create=False) as queue:
        assert queue.receive_message().content == "hello"


def test_a_client_of_a_queue_comes_from_the_service(served: AzureServer) -> None:
    with served.service() as service, service.get_queue_client("from-service") as queue:
        queue.create_queue()
        assert queue.get_queue_properties().name == "from-service"
    with QueueClient.from_queue_url(f"{served.url}/from-service", credential=KEY) as queue:
        assert queue.get_queue_properties().approximate_message_count == 0


# ---------------------------------------------------------------------- a queue


def test_creating_a_queue_twice_is_a_conflict(served: AzureServer) -> None:
    with served.queue("twice") as queue:
        with pytest.raises(ResourceExistsError):
            queue.create_queue()
        with pytest.raises(ResourceExistsError):
            queue.create_queue(metadata={"other": "metadata"})
        queue.delete_queue()
        with pytest.raises(ResourceNotFoundError):
            queue.delete_queue()


def test_metadata_and_the_count(served: AzureServer) -> None:
    with served.queue("metadata") as queue:
        queue.set_queue_metadata({"Hello": "world", "number_2": "42"})
        queue.send_message("one")
        properties = queue.get_queue_properties()
        assert properties.metadata == {"Hello": "world", "number_2": "42"}
        assert properties.approximate_message_count == 1
        queue.set_queue_metadata({})
        assert queue.get_queue_properties().metadata == {}


def test_policies_round_trip(served: AzureServer) -> None:
    with served.queue("policies") as queue:
        assert queue.get_queue_access_policy() == {}
        start = datetime(2026, 1, 1, tzinfo=UTC)
        policy = AccessPolicy(
            permission=QueueSasPermissions(read=True, process=True), start=start, expiry=start + timedelta(hours=1)
        )
        queue.set_queue_access_policy({"one": policy, "empty": None})
        found = queue.get_queue_access_policy()
        assert found["one"].permission == "rp"
        assert "2026-01-01T01:00:00" in str(found["one"].expiry).replace(" ", "T")
        assert found.keys() == {"one", "empty"}
        queue.set_queue_access_policy({})
        assert queue.get_queue_access_policy() == {}


# ---------------------------------------------------------------------- messages


def test_the_life_of_a_message(served: AzureServer) -> None:
    with served.queue("life") as queue:
        sent = queue.send_message("hello", time_to_live=3600)
        assert sent.expires_on - sent.inserted_on == timedelta(hours=1)
        (peeked,) = queue.peek_messages(max_messages=5)
        assert (peeked.content, peeked.dequeue_count, peeked.pop_receipt) == ("hello", 0, None)
        received = queue.receive_message(visibility_timeout=60)
        assert (received.id, received.dequeue_count) == (sent.id, 1)
        assert received.next_visible_on > received.inserted_on
        assert queue.receive_message() is None
        updated = queue.update_message(received, content="changed", visibility_timeout=0)
        assert updated.pop_receipt != received.pop_receipt
        again = queue.receive_message()
        assert (again.content, again.dequeue_count) == ("changed", 2)
        queue.delete_message(again)
        assert queue.get_queue_properties().approximate_message_count == 0


def test_messages_are_received_in_pages_and_deleted_in_every_way(served: AzureServer) -> None:
    with served.queue("pages") as queue:
        for number in range(40):
            queue.send_message(str(number))
        pages = [list(page) for page in queue.receive_messages(messages_per_page=32, visibility_timeout=60).by_page()]
        messages = [message for page in pages for message in page]
        assert [message.content for message in messages] == [str(number) for number in range(40)]
        queue.delete_message(messages[0])
        queue.delete_message(messages[1].id, messages[1].pop_receipt)
        queue.delete_message(messages[2], pop_receipt=messages[2].pop_receipt)
        assert queue.get_queue_properties().approximate_message_count == 37
        assert len(list(queue.receive_messages(max_messages=10))) == 0
        queue.clear_messages()
        assert queue.get_queue_properties().approximate_message_count == 0


def test_the_receipt_of_a_send_can_delete_and_update(served: AzureServer) -> None:
    with served.queue("sender") as queue:
        first, second = queue.send_message("1"), queue.send_message("2")
        queue.delete_message(first.id, first.pop_receipt)
        updated = queue.update_message(second.id, second.pop_receipt, visibility_timeout=0, content="two")
        assert queue.receive_message().content == "two"
        with pytest.raises(HttpResponseError) as refused:
            queue.delete_message(updated.id, updated.pop_receipt)
        assert refused.value.error_code == "PopReceiptMismatch"


def test_times_of_messages(served: AzureServer) -> None:
    with served.queue("times") as queue:
        forever = queue.send_message("for ever", time_to_live=-1)
        assert forever.expires_on.year == 9999
        hidden = queue.send_message("hidden", visibility_timeout=600)
        assert hidden.next_visible_on - hidden.inserted_on == timedelta(minutes=10)
        assert [message.content for message in queue.receive_messages()] == ["for ever"]
        with pytest.raises(HttpResponseError):
            queue.send_message("x", time_to_live=5, visibility_timeout=10)
        with pytest.raises(HttpResponseError):
            queue.send_message("x", visibility_timeout=700000)


def test_errors_are_those_the_sdk_knows(served: AzureServer) -> None:
    with served.queue("absent", create=False) as queue:
        with pytest.raises(ResourceNotFoundError) as missing:
            queue.send_message("x")
        assert missing.value.error_code == "QueueNotFound"
    with served.queue("limits") as queue:
        with pytest.raises(HttpResponseError) as large:
            queue.send_message("x" * 65537)
        assert (large.value.status_code, large.value.error_code) == (413, "RequestBodyTooLarge")
        with pytest.raises(ResourceNotFoundError) as gone:
            queue.delete_message("550e8400-e29b-41d4-a716-446655440000", "AgAAAAMAAAAAAAAA")
        assert gone.value.error_code == "MessageNotFound"
    wrong = KEY.replace("E", "F", 1)
    with QueueServiceClient(served.url, credential={"account_name": ACCOUNT, "account_key": wrong}) as service:
        with pytest.raises(ClientAuthenticationError) as denied:
            list(service.list_queues())
        assert denied.value.error_code == "AuthenticationFailed"


@pytest.mark.parametrize(
    ("encode", "decode", "content"),
    [
        (TextBase64EncodePolicy(), TextBase64DecodePolicy(), "Grüße \x00\x01\r\n"),
        (BinaryBase64EncodePolicy(), BinaryBase64DecodePolicy(), bytes(range(256))),
    ],
)
def test_base64_policies(served: AzureServer, encode: Any, decode: Any, content: Any) -> None:
    name = f"policy-{type(content).__name__}"
    with served.queue(name, message_encode_policy=encode, message_decode_policy=decode) as queue:
        queue.send_message(content)
        assert queue.receive_message().content == content


# ---------------------------------------------------------------------- every character


@pytest.mark.parametrize("plane", range(17))
def test_every_plane_of_unicode(served: AzureServer, plane: int) -> None:
    codes = range(plane << 16, (plane + 1) << 16, 7)
    legal = [c for c in codes if not (0xD800 <= c < 0xE000 or c in (0xFFFE, 0xFFFF) or c < 32)]
    name = f"plane-{plane}"
    with served.queue(name) as queue:
        for start in range(0, len(legal), 8000):
            text = "".join(map(chr, legal[start : start + 8000]))
            queue.send_message(text)
            received = queue.receive_message()
            assert received.content == text
            queue.delete_message(received)


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\t\n ",
        "<QueueMessage>&amp;</QueueMessage>",
        "]]>",
        "<![CDATA[x]]>",
        "&#x41; &lt; &quot;",
        "\"quotes\" 'and' apostrophes",
        "a\nb",
        "\u2028\u2029\u0085\u00a0",
        "\ufeffmark",
        "e\u0301 combining",
        "<?xml version='1.0'?>",
        "{}%s%20+/=",
    ],
)
def test_every_edge_of_xml(served: AzureServer, text: str) -> None:
    with served.queue("edges", create=False) as queue:
        try:
            queue.create_queue()
        except ResourceExistsError:
            queue.clear_messages()
        queue.send_message(text)
        assert (queue.peek_messages()[0].content or "") == text
        assert (queue.receive_message().content or "") == text


@pytest.mark.parametrize("text", ["\x00", "a\x01b", "\x1f", "\ufffe", "\uffff"])
def test_characters_that_xml_cannot_hold_are_refused(served: AzureServer, text: str) -> None:
    with served.queue("refused", create=False) as queue:
        with suppress(ResourceExistsError):
            queue.create_queue()
        with pytest.raises(HttpResponseError) as refused:
            queue.send_message(text)
        assert refused.value.error_code == "InvalidXmlDocument"

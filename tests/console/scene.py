"""The scene of the pictures: a small shop with clients of three protocols, the same in every run."""

from __future__ import annotations

import base64
import http.client
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from azure.storage.queue import QueueClient

from penstock.admin.client import Client
from penstock.text import Client as TextClient
from tests.acceptance.azure_server import ACCOUNT, connection_string
from tests.server_process import ServerProcess

PROJECT = "projects/penstock"
PAUSE = 0.25  # seconds between two rounds of a client


@contextmanager
def scene(folder: Path) -> Iterator[ServerProcess]:
    """Start a server with resources and clients at work, and yield it after the first messages of each client."""
    stop = threading.Event()
    with ServerProcess(folder, "--memory") as server:
        with Client(server.addresses["http"]) as admin:
            _make(admin)
        begun = [threading.Event() for _ in CLIENTS]
        clients = [
            threading.Thread(target=client, args=(server, stop, event))
            for client, event in zip(CLIENTS, begun, strict=True)
        ]
        for each in clients:
            each.start()
        try:
            assert all(event.wait(30) for event in begun)
            _wait_for_statistics(server)
            yield server
        finally:
            stop.set()
            for each in clients:
                each.join()


def _wait_for_statistics(server: ServerProcess) -> None:
    """Wait until the statistics, which change once per second, show deliveries through each protocol of the scene."""
    with Client(server.addresses["http"]) as admin, Client(server.addresses["http"]) as listener:
        for kind, _ in listener.events("/events"):
            if kind == "sample":
                doors = admin.get("/statistics")["doors"]
                if all(doors[name]["messages_out"] for name in ("http", "pubsub", "azure", "text")):
                    return


def _make(admin: Client) -> None:
    admin.post("/topics", {"name": "orders", "labels": {"team": "shop"}})
    admin.post("/topics", {"name": "orders-dead"})
    dead = {"dead_letter_topic": f"{PROJECT}/topics/orders-dead", "max_delivery_attempts": 5}
    admin.post("/subscriptions", {"name": "billing", "topic": "orders", "options": {"dead_letter_policy": dead}})
    admin.post("/subscriptions", {"name": "archive", "topic": "orders"})
    admin.post("/subscriptions", {"name": "orders-dead-look", "topic": "orders-dead"})
    admin.post("/queues", {"name": "emails"})
    admin.post("/queues", {"name": "thumbnails"})
    admin.post("/topics", {"name": "invoices", "retention_seconds": 86400})
    admin.post("/subscriptions", {"name": "invoices-print", "topic": "invoices"})
    for number in range(12):
        body = {"invoice": number, "total": 10**20 + number, "lines": [{"sku": f"A-{number}", "count": number % 4}]}
        message = {
            "data": json.dumps(body),
            "attributes": {"kind": "invoice"},
            "ordering_key": f"customer-{number % 7}",
        }
        admin.post("/topics/invoices/messages", {"messages": [message]})


def _rest(server: ServerProcess, method: str, path: str, body: dict[str, Any]) -> Any:
    connection = http.client.HTTPConnection(server.addresses["pubsub"])
    connection.request(method, f"/v1/{PROJECT}/{path}", json.dumps(body), {"Content-Type": "application/json"})
    answer = connection.getresponse()
    found = json.loads(answer.read() or b"{}")
    connection.close()
    assert answer.status == 200, found
    return found


def _google(server: ServerProcess, stop: threading.Event, begun: threading.Event) -> None:
    """Publish orders, which billing and archive consume. Billing returns some of them."""
    round_ = 0
    while not stop.is_set():
        round_ += 1
        messages = [{"data": base64.b64encode(b'{"order": %d}' % number).decode()} for number in range(30)]
        _rest(server, "POST", "topics/orders:publish", {"messages": messages})
        for name in ("billing", "archive"):
            found = _rest(server, "POST", f"subscriptions/{name}:pull", {"maxMessages": 30})
            ids = [each["ackId"] for each in found.get("receivedMessages", [])]
            back, done = (ids[:2], ids[2:]) if name == "billing" and round_ % 8 == 0 else ([], ids)
            if done:
                _rest(server, "POST", f"subscriptions/{name}:acknowledge", {"ackIds": done})
            if back:
                again = {"ackIds": back, "ackDeadlineSeconds": 0}
                _rest(server, "POST", f"subscriptions/{name}:modifyAckDeadline", again)
        begun.set()
        stop.wait(PAUSE)


def _azure(server: ServerProcess, stop: threading.Event, begun: threading.Event) -> None:
    string = connection_string(f"http://{server.addresses['azure']}/{ACCOUNT}")
    with QueueClient.from_connection_string(string, "emails", retry_total=0) as queue:
        while not stop.is_set():
            for number in range(4):
                queue.send_message(f"mail {number}")
            for message in queue.receive_messages(max_messages=4):
                queue.delete_message(message)
            begun.set()
            stop.wait(PAUSE)


def _text(server: ServerProcess, stop: threading.Event, begun: threading.Event) -> None:
    with TextClient(server.addresses["text"]) as client:
        while not stop.is_set():
            client.send_many("thumbnails", [f"picture {number}".encode() for number in range(20)])
            for _, message in zip(range(20), client.consume("thumbnails", wait_seconds=1), strict=False):
                message.ack()
            begun.set()
            stop.wait(PAUSE)


def _holder(server: ServerProcess, stop: threading.Event, begun: threading.Event) -> None:
    """Hold the leases of two invoices until the scene ends."""
    with Client(server.addresses["http"]) as admin:
        found = admin.post("/subscriptions/invoices-print/pull", {"max_messages": 2, "lease_seconds": 600})
        receipts = [each["receipt"] for each in found["deliveries"]]
        begun.set()
        while not stop.wait(30):
            admin.post("/subscriptions/invoices-print/extend", {"receipts": receipts, "seconds": 600})


CLIENTS: tuple[Callable[[ServerProcess, threading.Event, threading.Event], None], ...] = (
    _google,
    _azure,
    _text,
    _holder,
)

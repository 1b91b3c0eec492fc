"""A lease says through which door it was given: one server, the clients of three protocols and the admin API."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest
from azure.storage.queue import QueueClient
from google.cloud import pubsub_v1

from penstock.admin.client import Client
from penstock.text.blocking import Client as TextClient
from tests.acceptance.azure_server import ACCOUNT, connection_string
from tests.server_process import SECONDS, ServerProcess

QUEUE = "orders"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    arguments = ["--data", str(tmp_path / "data"), "--default-project", "demo"]
    with ServerProcess(tmp_path, *arguments, doors=["pubsub", "azure", "text", "http"]) as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.addresses["pubsub"])
        yield server


def doors(server: ServerProcess, wanted: int) -> dict[int, tuple[str | None, str | None]]:
    """Door and holder by offset, as soon as so many messages are leased."""
    deadline, pause = time.monotonic() + SECONDS, threading.Event()
    with closing(Client(server.addresses["http"])) as client:
        while True:
            leases = client.get(f"/subscriptions/{QUEUE}/leases")["leases"]
            if len(leases) >= wanted:
                return {each["offset"]: (each["door"], each["holder"]) for each in leases}
            assert time.monotonic() < deadline, leases
            pause.wait(0.01)


def test_every_door_is_named_and_a_restart_forgets_it(server: ServerProcess) -> None:
    string = connection_string(f"http://{server.addresses['azure']}/{ACCOUNT}")
    with QueueClient.from_connection_string(string, QUEUE, retry_total=0) as azure:
        azure.create_queue()
        for number in range(4):
            azure.send_message(f"{number}")
        assert azure.receive_message(visibility_timeout=600) is not None
    subscription = f"projects/demo/subscriptions/{QUEUE}"
    with pubsub_v1.SubscriberClient() as subscriber:
        subscriber.pull(subscription=subscription, max_messages=1)
        taken = subscriber.subscribe(
            subscription,
            lambda message: None,
            flow_control=pubsub_v1.types.FlowControl(max_messages=1),
            await_callbacks_on_shutdown=True,
        )
        try:
            known = doors(server, 3)
        finally:
            taken.cancel()
            taken.result(SECONDS)
    assert known[0] == ("azure", "")
    assert known[1][0] == "pubsub"
    assert (known[1][1] or "").startswith("pull-")
    assert known[2][0] == "pubsub"
    assert known[2][1]
    with TextClient(server.addresses["text"]) as text:
        messages = text.consume(QUEUE)
        assert next(messages)
        assert ("text", "") in doors(server, 3).values()
        messages.close()
    server.kill()
    server.start()
    assert doors(server, 1)[0] == (None, None)

"""Holders of messages and connected consumers: one server, clients of all protocols, the admin API and the command."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from azure.storage.queue import QueueClient
from google.cloud import pubsub_v1
from pyarrow import flight

from penstock.admin.client import Client, path_of
from penstock.text.blocking import Client as TextClient
from tests.acceptance.azure_server import ACCOUNT, connection_string
from tests.acceptance.command_line import CommandLine
from tests.server_process import SECONDS, ServerProcess

QUEUE = "orders"
SUBSCRIPTION = f"projects/demo/subscriptions/{QUEUE}"


@pytest.fixture
def server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerProcess]:
    arguments = ["--data", str(tmp_path / "data"), "--default-project", "demo"]
    with ServerProcess(tmp_path, *arguments, doors=["pubsub", "azure", "text", "flight", "http"]) as server:
        monkeypatch.setenv("PUBSUB_EMULATOR_HOST", server.addresses["pubsub"])
        yield server


def doors(server: ServerProcess, wanted: int) -> dict[int, tuple[str | None, str | None]]:
    """Wait until `wanted` messages are leased, and return door and holder of each by its offset."""
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
    with pubsub_v1.SubscriberClient() as subscriber:
        subscriber.pull(subscription=SUBSCRIPTION, max_messages=1)
        taken = subscriber.subscribe(
            SUBSCRIPTION,
            lambda message: None,
            flow_control=pubsub_v1.types.FlowControl(max_messages=1),
            await_callbacks_on_shutdown=True,
        )
        try:
            known = doors(server, 3)
        finally:
            taken.cancel()
            taken.result(SECONDS)
    assert known[0] == ("azure", "127.0.0.1")
    assert known[1][0] == "pubsub"
    assert (known[1][1] or "").startswith("pull-")
    assert known[2][0] == "pubsub"
    assert known[2][1]
    with TextClient(server.addresses["text"]) as text:
        messages = text.consume(QUEUE)
        assert next(messages)
        connection = next(holder for door, holder in doors(server, 3).values() if door == "text")
        assert (connection or "").startswith("connection 127.0.0.1:")
        messages.close()
    server.kill()
    server.start()
    assert doors(server, 1)[0] == (None, None)


def consumers(server: ServerProcess, settled: Callable[[list[dict[str, Any]]], bool]) -> list[dict[str, Any]]:
    """Wait for a condition on the consumers of the queue, and return the consumers."""
    deadline, pause = time.monotonic() + SECONDS, threading.Event()
    with closing(Client(server.addresses["http"])) as client:
        while True:
            found: list[dict[str, Any]] = client.get(f"/subscriptions/{QUEUE}/consumers")["consumers"]
            if settled(found):
                return found
            assert time.monotonic() < deadline, found
            pause.wait(0.01)


def test_consumers_are_there_while_they_are_connected_or_have_messages(server: ServerProcess, tmp_path: Path) -> None:
    command = CommandLine(server, tmp_path)
    with (
        Client(server.addresses["http"]) as client,
        TextClient(server.addresses["text"]) as text,
        pubsub_v1.SubscriberClient() as subscriber,
    ):
        client.post("/queues", {"name": QUEUE})
        flow = pubsub_v1.types.FlowControl(max_messages=2)
        listening = subscriber.subscribe(SUBSCRIPTION, lambda message: None, flow_control=flow)
        (stream,) = consumers(server, lambda found: len(found) == 1)
        assert (stream["door"], stream["kind"], stream["window"], stream["leases"]) == ("pubsub", "stream", 2, 0)
        assert stream["address"].startswith("127.0.0.1:")
        text.send_many(QUEUE, [b"1", b"2"])
        (stream,) = consumers(server, lambda found: found[0]["leases"] == 2)
        assert stream["next_deadline"]
        waiting = threading.Thread(target=lambda: subscriber.pull(subscription=SUBSCRIPTION, max_messages=7))
        waiting.start()
        _, pull = consumers(server, lambda found: len(found) == 2)
        assert (pull["kind"], pull["window"], pull["leases"]) == ("pull", 7, 0)
        assert pull["holder"] == f"pull-1 of {pull['address']}"
        text.send(QUEUE, b"3")
        waiting.join()
        rows = [line.split("\t") for line in command("subs", "consumers", QUEUE).lines]
        assert [(row[0], row[2], row[6]) for row in rows] == [("pubsub", "stream", "2"), ("pubsub", "", "1")]
        messages = text.consume(QUEUE)
        text.send(QUEUE, b"4")
        assert next(messages)
        found = {each["door"]: each for each in consumers(server, lambda found: len(found) == 3)}
        assert (found["text"]["kind"], found["text"]["leases"]) == ("stream", 1)
        shown = dict(line.split("\t", 1) for line in command("subs", "show", QUEUE).lines)
        assert (shown["consumers"], len(json.loads(shown["connected"]))) == ("2", 3)
        with command.terminal("subs", "show", QUEUE) as terminal:
            terminal.until("PROTOCOL.*\n.*pubsub.*\n")
        messages.close()
        listening.cancel()
        listening.result(SECONDS)
        consumers(server, lambda found: not any(each["kind"] for each in found))


def test_a_reader_of_the_log_has_a_cursor_with_its_lag_and_its_last_batch(
    server: ServerProcess, tmp_path: Path
) -> None:
    command = CommandLine(server, tmp_path)
    with Client(server.addresses["http"]) as client:
        client.post("/topics", {"name": "log"})
        client.post("/topics/log/messages", {"messages": [{"data": "abc"}] * 10})
        with flight.connect(f"grpc://{server.addresses['flight']}") as reader:

            def act(kind: str, offset: int) -> None:
                body = {"name": "job", "offsets": {"log": offset}}
                list(reader.do_action(flight.Action(kind, json.dumps(body).encode())))

            act("cursor.open", 0)
            (opened,) = client.get("/cursors", topic="log")["cursors"]
            assert (opened["offset"], opened["lag_messages"], opened["last_batch"]) == (0, 10, None)
            act("cursor.advance", 4)
        (cursor,) = client.get("/cursors")["cursors"]
        assert (cursor["consumer"], cursor["offset"], cursor["lag_messages"], cursor["lag_bytes"]) == ("job", 4, 6, 18)
        assert (cursor["last_batch"]["first_offset"], cursor["last_batch"]["next_offset"]) == (0, 4)
        there = client.get(path_of("subscriptions", cursor["subscription"], "consumers"))
        assert (there["consumers"], there["cursor"]) == ([], cursor)
        assert client.get(path_of("subscriptions", cursor["subscription"]))["kind"] == "cursor"
        (row,) = command("subs", "cursors", "--topic", "log").lines
        assert row.split("\t")[:5] == ["job", "projects/demo/topics/log", "4", "6", "18"]

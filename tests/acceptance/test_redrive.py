"""Redrives of dead letters while the server is killed: no message is lost or doubled."""

from __future__ import annotations

import asyncio
import http.client
import json
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing
from email.utils import formatdate
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from penstock import Draft, SubscriptionOptions
from penstock.assembly import SERVER_LIMITS, open_journal
from penstock.doors.google.dead_letters import source_attributes
from penstock.doors.resources import QUEUE_OPTIONS
from penstock.engine.async_queue import AsyncMessageQueue
from tests.doors.azure.signing import ACCOUNT, VERSION, shared_key
from tests.server_process import SECONDS, ServerProcess

ORDERS, DEAD = "projects/p/topics/orders", "projects/p/topics/dead"
BILLING, LOOK = "projects/p/subscriptions/billing", "projects/p/subscriptions/look"
AT_ONCE = 1000
MOVE_SECONDS = 600.0  # 100,000 messages on a busy machine; only a failing test waits this long


def with_store(folder: Path, work: Callable[[AsyncMessageQueue], Any]) -> Any:
    """Open the store of a stopped server and call a function with it."""

    async def main() -> Any:
        queue = AsyncMessageQueue(open_journal(folder), limits=SERVER_LIMITS, describe_source=source_attributes)
        await queue.start()
        try:
            return await work(queue)
        finally:
            await queue.close()

    return asyncio.run(main())


async def fill(queue: AsyncMessageQueue, count: int) -> None:
    """Fill the store with messages that failed once, which makes them dead letters."""
    for topic in (ORDERS, DEAD):
        await queue.create_topic(topic)
    await queue.create_subscription(LOOK, DEAD)
    policy = SubscriptionOptions(dead_letter_topic=DEAD, max_delivery_attempts=1)
    await queue.create_subscription(BILLING, ORDERS, policy)
    for first in range(0, count, AT_ONCE):
        await queue.publish(ORDERS, [Draft(str(n).encode()) for n in range(first, min(first + AT_ONCE, count))])
        deliveries = await queue.pull(BILLING, AT_ONCE)
        await queue.nack([each.receipt for each in deliveries])
    assert (await queue.backlog(LOOK)).messages == count


async def came_back(queue: AsyncMessageQueue) -> tuple[Counter[int], int]:
    """Return the redriven messages, and the number of dead letters that are left."""
    bodies: Counter[int] = Counter()
    while deliveries := await queue.pull(BILLING, AT_ONCE):
        bodies.update(int(each.message.data) for each in deliveries)
    return bodies, (await queue.backlog(LOOK)).messages


def ask(server: ServerProcess, method: str, path: str, body: object = None) -> Any:
    connection = http.client.HTTPConnection(*server.place("http"), timeout=SECONDS)
    headers = {"Content-Type": "application/json"} if body is not None else {}
    try:
        connection.request(method, f"/admin/v1{path}", json.dumps(body) if body is not None else None, headers)
        response = connection.getresponse()
        answer = json.loads(response.read())
    finally:
        connection.close()
    assert response.status in (200, 202), answer
    return answer


def watch(server: ServerProcess, move: str, until: Callable[[Any], bool]) -> Any:
    """Wait for a condition on the receipt, and return the receipt."""
    deadline, pause = time.monotonic() + MOVE_SECONDS, threading.Event()
    while not until(receipt := ask(server, "GET", f"/moves/{move}")):
        assert time.monotonic() < deadline, receipt
        pause.wait(0.01)  # a call takes time of the server, too
    return receipt


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_kill_in_the_middle_loses_and_doubles_nothing(
    tmp_path: Path, rounds: Callable[[int, int], int], share: float
) -> None:
    count, data = rounds(3_000, 100_000), tmp_path / "data"
    with_store(data, lambda queue: fill(queue, count))
    with ServerProcess(tmp_path, f"--data={data}", doors=["http"]) as server:
        move = ask(server, "POST", "/moves", {"from": LOOK})["id"]
        at_kill = watch(server, move, lambda receipt: receipt["moved"] >= count * share)
        server.kill()
        assert at_kill["state"] == "running", "the move ended before the kill"
        server.start()
        again = ask(server, "POST", "/moves", {"from": LOOK})
        done = watch(server, again["id"], lambda receipt: receipt["state"] != "running")
        assert done["state"] == "done"
        assert (done["left"], done["unknown"]) == (0, 0)
        assert 0 < done["moved"] <= count - at_kill["moved"]
        assert server.stop() == 0
    bodies, left = with_store(data, came_back)
    assert left == 0
    assert len(bodies) == count, "some messages are lost"
    assert bodies.total() == count, "some messages were moved twice"


POISON, POISON_READER = "projects/penstock/topics/q-poison", "projects/penstock/subscriptions/q-poison"
HOME, HOME_READER = "projects/penstock/topics/q", "projects/penstock/subscriptions/q"


async def fill_poison(queue: AsyncMessageQueue, count: int) -> None:
    for topic, reader in ((HOME, HOME_READER), (POISON, POISON_READER)):
        await queue.provide_queue(topic, reader, QUEUE_OPTIONS)
    for first in range(0, count, AT_ONCE):
        numbers = range(first, min(first + AT_ONCE, count))
        await queue.publish(POISON, [Draft(str(n).encode(), {"n": str(n)}, f"key-{n % 7}") for n in numbers])


async def redriven(queue: AsyncMessageQueue) -> tuple[Counter[int], int]:
    """Return the messages of the queue, and the number of messages in the poison queue."""
    bodies: Counter[int] = Counter()
    while deliveries := await queue.pull(HOME_READER, AT_ONCE):
        for each in deliveries:
            number = int(each.message.data)
            assert each.message.attributes == {"n": str(number)}
            assert each.message.ordering_key == f"key-{number % 7}"
            bodies[number] += 1
    return bodies, (await queue.backlog(POISON_READER)).messages


def start_redrive(server: ServerProcess) -> http.client.HTTPConnection:
    """Request a redrive through the Azure door, without waiting for the answer."""
    target = f"/{ACCOUNT}/q-poison?comp=redrive"
    headers = {"x-ms-date": formatdate(usegmt=True), "x-ms-version": VERSION}
    headers["Authorization"] = shared_key("POST", target, headers)
    connection = http.client.HTTPConnection(*server.place("azure"), timeout=MOVE_SECONDS)
    connection.request("POST", target, headers=headers)
    return connection


@pytest.mark.parametrize("share", [0.1, 0.6])
def test_a_kill_during_a_redrive_of_azure_loses_and_doubles_nothing(
    tmp_path: Path, rounds: Callable[[int, int], int], share: float
) -> None:
    count, data = rounds(3_000, 100_000), tmp_path / "data"
    with_store(data, lambda queue: fill_poison(queue, count))
    waiting = partial(ask, method="GET", path="/subscriptions/q-poison")
    with ServerProcess(tmp_path, f"--data={data}", doors=["http", "azure"]) as server:
        with closing(start_redrive(server)):
            deadline = time.monotonic() + MOVE_SECONDS
            while (left := waiting(server)["backlog_messages"]) > count * (1 - share):
                assert time.monotonic() < deadline
            server.kill()
        assert left > 0, "the redrive ended before the kill"
        server.start()
        with closing(start_redrive(server)) as connection:
            answer = connection.getresponse()
            assert (answer.status, answer.headers["x-ms-left-messages-count"]) == (204, "0")
            assert 0 < int(answer.headers["x-ms-redriven-messages-count"]) <= count, "acks in memory may be lost"
        assert server.stop() == 0
    bodies, left = with_store(data, redriven)
    assert left == 0
    assert len(bodies) == count, "some messages are lost"
    assert bodies.total() == count, "some messages were moved twice"


def test_a_redrive_asked_for_again_joins_the_one_that_runs(tmp_path: Path) -> None:
    """A client whose request timed out repeats it, and gets the answer of the first redrive."""
    count, data = 2000, tmp_path / "data"
    with_store(data, lambda queue: fill_poison(queue, count))
    with ServerProcess(tmp_path, f"--data={data}", doors=["http", "azure"]) as server:
        with closing(start_redrive(server)) as first, closing(start_redrive(server)) as second:
            answers = [each.getresponse() for each in (first, second)]
        moved = [int(answer.headers["x-ms-redriven-messages-count"]) for answer in answers]
        assert [answer.status for answer in answers] == [204, 204]
        assert moved in ([count, count], [count, 0]), "the second redrive joins the first, or comes after it"
        assert server.stop() == 0
    bodies, left = with_store(data, redriven)
    assert (len(bodies), bodies.total(), left) == (count, count, 0)


def test_a_stopped_server_ends_a_move_and_the_same_request_continues_it(tmp_path: Path) -> None:
    count, data = 300, tmp_path / "data"
    with_store(data, lambda queue: fill(queue, count))
    with ServerProcess(tmp_path, f"--data={data}", doors=["http"]) as server:
        move = ask(server, "POST", "/moves", {"from": LOOK, "rate": 100})["id"]
        watch(server, move, lambda receipt: receipt["moved"] > 0)
        assert server.stop() == 0
        server.start()
        again = ask(server, "POST", "/moves", {"from": LOOK})["id"]
        assert watch(server, again, lambda receipt: receipt["state"] != "running")["state"] == "done"
        assert server.stop() == 0
    bodies, left = with_store(data, came_back)
    assert (len(bodies), bodies.total(), left) == (count, count, 0)

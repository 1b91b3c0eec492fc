"""Faults and the reactions of text clients, as in the table of docs/testing-faults.md."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import count, islice
from typing import Any

import pytest

from penstock.errors import (
    FailedPreconditionError,
    InternalError,
    InvalidArgumentError,
    PenstockError,
    ResourceExhaustedError,
    UnavailableError,
)
from penstock.testing.faults import Faults
from penstock.text.blocking import Client
from tests.acceptance.fault_project import FaultProject
from tests.acceptance.text_server import Plug
from tests.server_process import SECONDS

_numbers = count(1)


@pytest.fixture
def client(project: FaultProject) -> Iterator[Client]:
    with Client(project.server["text"], timeout_seconds=SECONDS) as client:
        yield client


@pytest.fixture
def queue(project: FaultProject) -> str:
    return project.text_queue(f"queue-{next(_numbers)}")


def id_of(queue: str) -> str:
    return queue.partition("@")[0]


def about(queue: str, verb: str, **rule: Any) -> dict[str, Any]:
    return {"door": "text", "verb": verb, "resource": id_of(queue), **rule}


def place(project: FaultProject) -> tuple[str, int]:
    host, _, port = project.server["text"].rpartition(":")
    return host, int(port)


def take(client: Client, queue: str, most: int) -> list[Any]:
    return list(islice(client.consume(queue, wait_seconds=SECONDS), most))


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("unavailable", UnavailableError),
        ("resource_exhausted", ResourceExhaustedError),
        ("failed_precondition", FailedPreconditionError),
        ("invalid_argument", InvalidArgumentError),
        ("internal", InternalError),
    ],
)
def test_the_program_gets_every_refusal(
    faults: Faults, client: Client, queue: str, error: str, kind: type[PenstockError]
) -> None:
    """The client repeats requests without an answer, and never refused ones."""
    with faults.add(**about(queue, "publish", nth=1, error=error)) as fault, pytest.raises(kind):
        client.send(queue, b"a")
    assert fault.calls == 1
    client.send(queue, b"b")


def test_a_code_of_the_protocol(faults: Faults, client: Client, queue: str) -> None:
    with faults.add(**about(queue, "publish", nth=1, code="full")), pytest.raises(ResourceExhaustedError, match="full"):
        client.send(queue, b"a")


def test_a_dropped_reply_makes_a_duplicate(project: FaultProject, faults: Faults, client: Client, queue: str) -> None:
    with faults.add(**about(queue, "publish", nth=1, effect="drop")) as fault:
        client.send(queue, b"a")
    assert (fault.calls, project.texts(id_of(queue))) == (2, ["a", "a"])


def test_a_closed_connection_makes_no_duplicate(
    project: FaultProject, faults: Faults, client: Client, queue: str
) -> None:
    with faults.add(**about(queue, "publish", nth=1, effect="close")) as fault:
        client.send(queue, b"a")
    assert (fault.calls, project.texts(id_of(queue))) == (2, ["a"])


def test_a_late_answer_is_waited_for(project: FaultProject, faults: Faults, client: Client, queue: str) -> None:
    begun = time.monotonic()
    with faults.add(**about(queue, "publish", latency=0.3)) as fault:
        client.send(queue, b"a")
    assert time.monotonic() - begun >= 0.3
    assert (fault.calls, project.texts(id_of(queue))) == (1, ["a"])


def test_a_held_send_continues_when_the_fault_ends(
    project: FaultProject, faults: Faults, client: Client, queue: str
) -> None:
    client.send(queue, b"a")
    fault = faults.add(**about(queue, "publish", effect="hold"))
    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(client.send, queue, b"b")
        assert fault.wait().held == 1
        assert project.texts(id_of(queue)) == ["a"]
        fault.remove()
        sent.result(SECONDS)
    assert project.texts(id_of(queue)) == ["a", "b"]


def test_a_full_disk(faults: Faults, client: Client, queue: str) -> None:
    with (
        faults.add(door="text", resource=id_of(queue), times=1, effect="disk_full"),
        pytest.raises(ResourceExhaustedError, match="The disk is full"),
    ):
        client.send(queue, b"a")


def test_a_message_is_delivered_twice(faults: Faults, client: Client, queue: str) -> None:
    client.send(queue, b"a")
    with faults.add(**about(queue, "pull", nth=1, effect="duplicate")):
        first, second = take(client, queue, 2)
    assert (first.id, first.content) == (second.id, second.content)


def test_messages_are_reordered(faults: Faults, client: Client, queue: str) -> None:
    client.send_many(queue, [b"a", b"b"])
    with faults.add(**about(queue, "pull", nth=1, effect="reorder")):
        assert [each.content for each in take(client, queue, 2)] == [b"b", b"a"]


def test_a_lease_ends_at_once(project: FaultProject, faults: Faults, queue: str) -> None:
    """Another consumer has the message now, so an ack of the first consumer does nothing."""
    with Plug(place(project)) as plug:
        plug.send(queue.encode(), b"a")
        plug.hear_ids(1)
        with faults.add(**about(queue, "pull", effect="expire")) as fault:
            plug.consume(queue.encode(), 10)
            (first, second) = plug.hear_messages(2)
        assert (first, fault.hits) == (second, 1)


def test_a_closed_connection_returns_all_messages(project: FaultProject, faults: Faults, queue: str) -> None:
    with Plug(place(project)) as plug:
        plug.send(queue.encode(), b"a")
        plug.hear_ids(1)
        plug.consume(queue.encode(), 10)
        plug.hear_messages(1)
        with faults.add(**about(queue, "pull", times=1, effect="close")) as fault:
            fault.wait()
            with pytest.raises((EOFError, ConnectionResetError)):
                plug.hear()
    with Plug(place(project)) as plug:
        plug.consume(queue.encode(), 10)
        assert plug.hear_messages(1)[0][0] == b"a"


def test_our_client_connects_again(faults: Faults, client: Client, queue: str) -> None:
    messages = client.consume(queue, wait_seconds=SECONDS)
    client.send(queue, b"a")
    first = next(messages)
    first.ack()
    with faults.add(**about(queue, "pull", nth=1, effect="drop")) as fault:
        client.send(queue, b"b")
        assert next(messages).content == b"b"
    assert fault.hits == 1


def test_an_ack_whose_answer_is_lost(project: FaultProject, faults: Faults, queue: str) -> None:
    with Plug(place(project)) as plug:
        plug.send(queue.encode(), b"a")
        plug.hear_ids(1)
        plug.consume(queue.encode(), 10)
        ((_, message_id),) = plug.hear_messages(1)
        with faults.add(**about(queue, "ack", nth=1, effect="drop")):
            plug.ack(queue.encode(), message_id)
            with pytest.raises((EOFError, ConnectionResetError)):
                plug.hear()
    assert project.waiting(id_of(queue)) == 0


def test_a_message_is_redelivered_if_its_ack_was_not_decided(project: FaultProject, faults: Faults, queue: str) -> None:
    with Plug(place(project)) as plug:
        plug.send(queue.encode(), b"a")
        plug.hear_ids(1)
        plug.consume(queue.encode(), 10)
        ((_, message_id),) = plug.hear_messages(1)
        with faults.add(**about(queue, "ack", nth=1, effect="close")):
            plug.ack(queue.encode(), message_id)
            with pytest.raises((EOFError, ConnectionResetError)):
                plug.hear()
    with Plug(place(project)) as plug:
        plug.consume(queue.encode(), 10)
        assert plug.hear_messages(1)[0][0] == b"a"

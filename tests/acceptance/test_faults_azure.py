"""Faults and the reactions of Azure's client, as in the table of docs/testing-faults.md."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from azure.core.exceptions import HttpResponseError, ResourceNotFoundError, ServiceResponseError
from azure.storage.queue import LinearRetry, QueueClient

from penstock.testing.faults import Faults
from tests.acceptance.fault_project import FaultProject
from tests.server_process import SECONDS


@pytest.fixture
def queue(project: FaultProject) -> Iterator[QueueClient]:
    """Create a queue. The client retries as by default, but without the 15 seconds before its first retry."""
    with project.azure(retry_policy=LinearRetry(backoff=0, random_jitter_range=0)) as queue:
        yield queue


def about(queue: QueueClient, verb: str, **rule: Any) -> dict[str, Any]:
    return {"door": "azure", "verb": verb, "resource": queue.queue_name, **rule}


@pytest.mark.parametrize("error", ["unavailable", "resource_exhausted", "internal"])
def test_a_put_is_retried(project: FaultProject, faults: Faults, queue: QueueClient, error: str) -> None:
    """The answers are 503 ServerBusy, 503 ServerBusy and 500 InternalError."""
    with faults.add(**about(queue, "publish", nth=1, error=error)) as fault:
        queue.send_message("a")
    assert (fault.calls, project.texts(queue.queue_name)) == (2, ["a"])


def test_the_client_gives_up_after_three_retries(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    with (
        faults.add(**about(queue, "publish", code="OperationTimedOut")) as fault,
        pytest.raises(HttpResponseError) as raised,
    ):
        queue.send_message("a")
    assert (raised.value.status_code, raised.value.error_code) == (500, "OperationTimedOut")
    assert (fault.calls, project.texts(queue.queue_name)) == (4, [])


def test_the_client_ignores_retry_after(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    begun = time.monotonic()
    with faults.add(**about(queue, "publish", nth=1, error="unavailable", retry_after_seconds=30)) as fault:
        queue.send_message("a")
    assert fault.calls == 2
    assert time.monotonic() - begun < 25


def test_retry_after_is_in_the_answer(project: FaultProject, faults: Faults) -> None:
    with project.azure(retry_total=0) as queue:
        rule = about(queue, "publish", error="unavailable", retry_after_seconds=1.5)
        with faults.add(**rule), pytest.raises(HttpResponseError) as raised:
            queue.send_message("a")
    assert raised.value.response is not None
    assert raised.value.response.headers["Retry-After"] == "2"


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        ("permission_denied", 403, "AuthorizationFailure"),
        ("not_found", 404, "QueueNotFound"),
        ("invalid_argument", 400, "InvalidInput"),
        ("already_exists", 409, "QueueAlreadyExists"),
    ],
)
def test_permanent_errors_reach_the_program(
    project: FaultProject, faults: Faults, queue: QueueClient, error: str, status: int, code: str
) -> None:
    with faults.add(**about(queue, "publish", error=error)) as fault, pytest.raises(HttpResponseError) as raised:
        queue.send_message("a")
    assert (raised.value.status_code, raised.value.error_code, fault.calls) == (status, code, 1)


def test_a_dropped_reply_makes_a_duplicate(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    with faults.add(**about(queue, "publish", nth=1, effect="drop")) as fault:
        queue.send_message("a")
    assert (fault.calls, project.texts(queue.queue_name)) == (2, ["a", "a"])


def test_a_dropped_reply_without_retry_leaves_the_program_in_doubt(project: FaultProject, faults: Faults) -> None:
    with (
        project.azure(retry_total=0) as queue,
        faults.add(**about(queue, "publish", effect="drop")),
        pytest.raises(ServiceResponseError),
    ):
        queue.send_message("a")
    assert project.texts(queue.queue_name) == ["a"]


def test_a_closed_connection_makes_no_duplicate(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    with faults.add(**about(queue, "publish", nth=1, effect="close")) as fault:
        queue.send_message("a")
    assert (fault.calls, project.texts(queue.queue_name)) == (2, ["a"])


def test_an_answer_after_the_timeout_makes_a_duplicate(project: FaultProject, faults: Faults) -> None:
    retry = LinearRetry(backoff=0, random_jitter_range=0)
    with project.azure(retry_policy=retry, read_timeout=1) as queue:
        with faults.add(**about(queue, "publish", nth=1, latency=30)) as fault:
            queue.send_message("a")
        assert fault.calls >= 2  # more than one, because a busy machine may answer late by itself
        assert project.texts(queue.queue_name) == ["a"] * fault.calls


def test_a_late_answer_is_waited_for(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    begun = time.monotonic()
    with faults.add(**about(queue, "publish", latency=0.3)) as fault:
        queue.send_message("a")
    assert time.monotonic() - begun >= 0.3
    assert fault.calls == 1


def test_a_full_disk_is_retried_until_there_is_room(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    with faults.add(door="azure", resource=queue.queue_name, times=2, effect="disk_full") as fault:
        queue.send_message("a")
    assert (fault.hits, project.texts(queue.queue_name)) == (2, ["a"])


def test_a_message_is_delivered_twice(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    """The second delete finds no message, as after a visibility timeout that was too short."""
    queue.send_message("a")
    with faults.add(**about(queue, "pull", nth=1, effect="duplicate")):
        first, second = queue.receive_message(), queue.receive_message()
    assert first is not None
    assert second is not None
    assert first.id == second.id
    queue.delete_message(first)
    with pytest.raises(ResourceNotFoundError):
        queue.delete_message(second)


def test_messages_are_reordered(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    queue.send_message("a")
    queue.send_message("b")
    with faults.add(**about(queue, "pull", nth=1, effect="reorder")):
        assert [each.content for each in queue.receive_messages(max_messages=2)] == ["b", "a"]


def test_a_lease_ends_at_once(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    """The first receiver's pop receipt is no longer valid."""
    queue.send_message("a")
    with faults.add(**about(queue, "pull", effect="expire")):
        first, second = queue.receive_message(), queue.receive_message()
    assert first is not None
    assert second is not None
    assert (first.dequeue_count, second.dequeue_count) == (1, 2)
    with pytest.raises(HttpResponseError) as raised:
        queue.delete_message(first)
    assert raised.value.error_code == "PopReceiptMismatch"
    queue.delete_message(second)


def test_a_lost_answer_to_a_get_hides_the_message(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    """The repeated get finds no message, because the message is hidden until its visibility timeout."""
    queue.send_message("a")
    with faults.add(**about(queue, "pull", nth=1, effect="drop")) as fault:
        assert queue.receive_message() is None
    assert fault.hits == 1
    assert project.waiting(queue.queue_name) == 1
    project.clock.advance(30)
    assert queue.receive_message().content == "a"


def test_a_lost_answer_to_a_delete_looks_like_a_failure(
    project: FaultProject, faults: Faults, queue: QueueClient
) -> None:
    """The repeated delete is answered with 404, although this client has deleted the message."""
    queue.send_message("a")
    got = queue.receive_message()
    assert got is not None
    with faults.add(**about(queue, "ack", nth=1, effect="drop")) as fault, pytest.raises(ResourceNotFoundError):
        queue.delete_message(got)
    assert fault.calls == 2
    assert project.waiting(queue.queue_name) == 0


def test_creating_a_queue_is_retried(project: FaultProject, faults: Faults) -> None:
    retry = LinearRetry(backoff=0, random_jitter_range=0)
    with (
        faults.add(door="azure", verb="create", nth=1, error="unavailable") as fault,
        project.azure(retry_policy=retry) as queue,
    ):
        assert queue.get_queue_properties().approximate_message_count == 0
    assert fault.calls == 2


def test_a_held_put_continues_when_the_fault_ends(project: FaultProject, faults: Faults, queue: QueueClient) -> None:
    fault = faults.add(**about(queue, "publish", effect="hold"))
    with ThreadPoolExecutor(1) as threads:
        sent = threads.submit(queue.send_message, "a")
        assert fault.wait().held == 1
        assert project.texts(queue.queue_name) == []
        fault.remove()
        sent.result(SECONDS)
    assert project.texts(queue.queue_name) == ["a"]

"""Azure queues: visibility, receipts, times to live, signatures, and a worker with the rules of Azure Functions."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError, HttpResponseError
from azure.storage.queue import QueueClient, QueueSasPermissions, generate_queue_sas
from functions import QueueTrigger, failing

from penstock.testing import Project, ProjectClock


@pytest.fixture
def work(queues: Any) -> Any:
    return queues.create_queue("work")


def test_a_message_is_visible_again_after_its_worker_died(work: Any, penstock_clock: ProjectClock) -> None:
    work.send_message("one")
    assert work.receive_message(visibility_timeout=30).dequeue_count == 1
    penstock_clock.advance(29)
    assert work.receive_message() is None
    penstock_clock.advance(1)
    assert work.receive_message().dequeue_count == 2


def test_the_receipt_of_a_dead_worker_is_invalid(work: Any, penstock_project: Project) -> None:
    work.send_message("one")
    late = work.receive_message(visibility_timeout=30)
    penstock_project.clock.advance(30)
    again = work.receive_message(visibility_timeout=30)
    with pytest.raises(HttpResponseError, match="pop receipt"):
        work.delete_message(late)
    work.delete_message(again)
    penstock_project.queue("work").settle()


def test_a_slow_worker_keeps_its_message_and_stores_its_progress(work: Any, penstock_clock: ProjectClock) -> None:
    work.send_message("step 0")
    held = work.receive_message(visibility_timeout=60)
    for step in range(1, 6):
        penstock_clock.advance(50)
        held = work.update_message(held, visibility_timeout=60, content=f"step {step}")
        assert work.receive_message() is None
    penstock_clock.advance(60)
    assert work.receive_message().content == "step 5", "the next worker continues from there"


def test_a_delayed_message_is_delivered_when_it_is_due(work: Any, penstock_clock: ProjectClock) -> None:
    work.send_message("remind me", visibility_timeout=7 * 86400 - 1, time_to_live=-1)
    penstock_clock.advance(days=6, hours=23)
    assert work.receive_message() is None
    penstock_clock.advance(hours=1)
    assert work.receive_message().content == "remind me"


def test_a_message_expires_after_seven_days_by_default(work: Any, penstock_project: Project) -> None:
    work.send_message("a week")
    work.send_message("an hour", time_to_live=3600)
    work.send_message("for ever", time_to_live=-1)
    penstock_project.clock.advance(hours=1)
    assert [each.content for each in work.peek_messages(5)] == ["a week", "for ever"]
    penstock_project.clock.advance(days=7)
    assert [each.content for each in work.receive_messages()] == ["for ever"]


def test_a_signature_is_valid_from_its_start_to_its_expiry(work: Any, penstock_project: Project) -> None:
    clock, key = penstock_project.clock, work.credential.account_key
    now, may = clock.now, QueueSasPermissions(add=True)
    times = {"start": now + timedelta(hours=1), "expiry": now + timedelta(hours=2)}
    signature = generate_queue_sas(penstock_project.name, "work", key, may, **times)
    with QueueClient.from_queue_url(work.url, credential=signature) as guest:
        with pytest.raises(ClientAuthenticationError):
            guest.send_message("early")
        clock.advance(minutes=61)
        guest.send_message("in time")
        clock.advance(hours=1)
        with pytest.raises(ClientAuthenticationError):
            guest.send_message("late")
    penstock_project.queue("work").published(times=1)


def test_a_message_goes_to_the_poison_queue_after_five_attempts(
    work: Any, queues: Any, penstock_project: Project
) -> None:
    done = list[str]()
    trigger = QueueTrigger(queues, "work", failing(100, done))
    sent = work.send_message("poison")
    while trigger.poll():
        pass
    queue = penstock_project.queue("work")
    assert len(queue.deliveries(sent)) == 5
    assert ([each.text for each in queue.dead_letters()], done) == (["poison"], [])
    queue.settle()


def test_a_function_that_fails_twice_is_called_again_after_its_visibility_timeout(
    work: Any, queues: Any, penstock_project: Project
) -> None:
    done = list[str]()
    trigger = QueueTrigger(queues, "work", failing(2, done), visibility_timeout=300)
    work.send_message("one")
    for _ in range(2):
        assert trigger.poll() == 1
        penstock_project.clock.advance(299)
        assert trigger.poll() == 0
        penstock_project.clock.advance(1)
    trigger.poll()
    assert done == ["one"]
    penstock_project.queue("work").settle()


def test_a_message_that_kills_its_workers_goes_to_the_poison_queue(
    work: Any, queues: Any, penstock_project: Project
) -> None:
    work.send_message("deadly")
    for _ in range(5):
        work.receive_message(visibility_timeout=600)  # and the worker dies
        penstock_project.clock.advance(600)
    done = list[str]()
    assert QueueTrigger(queues, "work", done.append).poll() == 1
    assert done == []
    assert [each.text for each in penstock_project.queue("work").dead_letters()] == ["deadly"]

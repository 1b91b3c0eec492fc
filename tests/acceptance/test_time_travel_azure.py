"""A moved clock with Azure's client."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import pytest
from azure.core.exceptions import ClientAuthenticationError, ResourceNotFoundError
from azure.storage.queue import (
    AccountSasPermissions,
    QueueClient,
    QueueSasPermissions,
    QueueServiceClient,
    ResourceTypes,
    generate_account_sas,
    generate_queue_sas,
)

from penstock.testing import Project
from penstock.testing.project import DEVELOPMENT_KEY


@pytest.fixture
def work(azure_queue_service: Any, penstock_project: Project) -> Any:
    penstock_project.clock.freeze()
    return azure_queue_service.create_queue("work")


def texts(work: Any, **options: Any) -> list[str]:
    return [each.content for each in work.receive_messages(**options)]


def test_a_message_is_visible_again_after_its_timeout(work: Any, penstock_project: Project) -> None:
    work.send_message("one")
    assert texts(work) == ["one"]
    penstock_project.clock.advance(29)
    assert texts(work) == []
    penstock_project.clock.advance(1)
    (again,) = work.receive_messages()
    assert again.dequeue_count == 2


def test_an_old_pop_receipt_is_invalid(work: Any, penstock_project: Project) -> None:
    work.send_message("one")
    (first,) = work.receive_messages(visibility_timeout=10)
    penstock_project.clock.advance(10)
    (second,) = work.receive_messages()
    with pytest.raises(Exception, match="pop receipt"):
        work.delete_message(first)
    work.delete_message(second)
    penstock_project.clock.advance(days=1)
    assert texts(work) == []


def test_a_holder_keeps_its_message_by_updating_it(work: Any, penstock_project: Project) -> None:
    work.send_message("long")
    (held,) = work.receive_messages(visibility_timeout=60)
    for _ in range(5):
        penstock_project.clock.advance(50)
        held = work.update_message(held, visibility_timeout=60)
        assert texts(work) == []
    penstock_project.clock.advance(60)
    assert texts(work) == ["long"]


def test_times_in_answers_are_those_of_the_project(work: Any, penstock_project: Project) -> None:
    then = penstock_project.clock.freeze("2100-01-01T00:00:00Z")
    work.send_message("one")
    (held,) = work.receive_messages(visibility_timeout=60)
    assert held.inserted_on == then
    assert held.next_visible_on == then + timedelta(seconds=60)


def test_a_delayed_message_comes_when_it_is_due(work: Any, penstock_project: Project) -> None:
    work.send_message("later", visibility_timeout=600)
    penstock_project.clock.advance(599)
    assert texts(work) == []
    penstock_project.clock.advance(1)
    assert texts(work) == ["later"]


def test_an_automatic_clock_moves_for_a_polling_client(work: Any, penstock_project: Project) -> None:
    """This client never waits at the server."""
    clock = penstock_project.clock
    began = clock.now
    clock.automatic()
    work.send_message("later", visibility_timeout=3600)
    found = next(message for message in iter(lambda: work.receive_message(visibility_timeout=60), ...) if message)
    assert found.content == "later"
    assert clock.now == began + timedelta(hours=1)
    found = next(message for message in iter(lambda: work.receive_message(), ...) if message)
    assert found.dequeue_count == 2
    assert clock.now == began + timedelta(hours=1, seconds=60)


def test_a_message_expires_after_seven_days_unless_its_ttl_is_infinite(work: Any, penstock_project: Project) -> None:
    work.send_message("a week")
    work.send_message("an hour", time_to_live=3600)
    work.send_message("for ever", time_to_live=-1)
    penstock_project.clock.advance(hours=1)
    assert [each.content for each in work.peek_messages(5)] == ["a week", "for ever"]
    penstock_project.clock.advance(days=7)
    assert texts(work, max_messages=5) == ["for ever"]


def test_a_worker_moves_a_message_to_the_poison_queue_after_five_failures(penstock_project: Project) -> None:
    """The worker does the same as Azure Functions."""
    service = penstock_project.azure_queue_service()
    work, poison = service.create_queue("work"), service.create_queue("work-poison")
    work.send_message("bad")
    for attempt in range(1, 6):
        (held,) = work.receive_messages(visibility_timeout=600)
        assert held.dequeue_count == attempt
        if held.dequeue_count == 5:
            poison.send_message(held.content)
            work.delete_message(held)
        penstock_project.clock.advance(600)
    assert texts(work) == []
    assert texts(poison) == ["bad"]


def test_an_account_sas_expires_by_the_clock_of_its_project(work: Any, penstock_project: Project) -> None:
    signature = _account_sas(penstock_project, penstock_project.clock.now + timedelta(hours=1))
    url = f"http://{penstock_project.server['azure']}/{penstock_project.name}"
    with QueueServiceClient(url, credential=signature) as guest:
        guest.get_queue_client("work").send_message("in time")
        penstock_project.clock.advance(minutes=61)
        with pytest.raises(ClientAuthenticationError, match="not valid in the specified time frame"):
            guest.get_queue_client("work").send_message("late")
    assert texts(work) == ["in time"], "the key of the account is still valid"


def test_a_queue_sas_starts_by_the_clock_of_its_project(work: Any, penstock_project: Project) -> None:
    now = penstock_project.clock.now
    signature = generate_queue_sas(
        penstock_project.name,
        "work",
        DEVELOPMENT_KEY,
        QueueSasPermissions(add=True),
        start=now + timedelta(days=1),
        expiry=now + timedelta(days=2),
    )
    url = f"http://{penstock_project.server['azure']}/{penstock_project.name}/work"
    with QueueClient.from_queue_url(url, credential=signature) as guest:
        with pytest.raises(ClientAuthenticationError):
            guest.send_message("early")
        penstock_project.clock.advance(days=1)
        guest.send_message("in time")
        penstock_project.clock.advance(days=1)
        with pytest.raises(ClientAuthenticationError):
            guest.send_message("late")


def _account_sas(project: Project, expiry: datetime) -> str:
    kinds, may = ResourceTypes(object=True, container=True), AccountSasPermissions(add=True, write=True)
    return str(generate_account_sas(project.name, DEVELOPMENT_KEY, kinds, may, expiry))


def test_projects_have_accounts_of_their_own(work: Any, penstock_project: Project) -> None:
    other = penstock_project.server.project()
    with pytest.raises(ResourceNotFoundError):
        other.azure_queue_service().get_queue_client("work").send_message("x")
    other.end()


def test_a_text_client_shares_the_queue_and_its_time(work: Any, penstock_project: Project) -> None:
    text = penstock_project.text_client()
    work.send_message("for the text client", visibility_timeout=3600)
    penstock_project.clock.freeze()
    penstock_project.clock.advance(hours=1)
    (message,) = text.consume(penstock_project.text_queue("work"), wait_seconds=0.5)
    assert message.content == b"for the text client"
    message.ack()

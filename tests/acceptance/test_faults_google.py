"""Faults and the reactions of Google's client, as in the table of docs/testing-faults.md."""

from __future__ import annotations

import time

import pytest
from google.api_core import exceptions
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError, AcknowledgeStatus
from google.pubsub_v1 import PublisherClient

from penstock.admin.client import path_of
from penstock.testing.faults import Faults
from tests.acceptance.fault_project import FaultProject
from tests.server_process import SECONDS


def test_the_example_of_the_page(project: FaultProject, faults: Faults) -> None:
    publisher, topic = project.publisher, project.watched().name
    with faults.add(door="pubsub", verb="publish", nth=2, error="unavailable") as fault:
        publisher.publish(topic, b"one").result()
        publisher.publish(topic, b"two").result()
    assert fault.hits == 1  # and the client has published the message again:
    assert fault.calls == 3


# ---------------------------------------------------------------------- publishing


@pytest.mark.parametrize("error", ["unavailable", "resource_exhausted", "internal"])
def test_the_publisher_retries_transient_errors(project: FaultProject, faults: Faults, error: str) -> None:
    topic = project.watched()
    with faults.add(door="pubsub", verb="publish", resource=topic.id, nth=1, error=error) as fault:
        topic.publish("a")
    assert (fault.hits, fault.calls) == (1, 2)
    assert topic.published == ["a"]


@pytest.mark.parametrize("code", ["ABORTED", "CANCELLED", "DEADLINE_EXCEEDED", "UNKNOWN"])
def test_the_publisher_retries_these_codes_too(project: FaultProject, faults: Faults, code: str) -> None:
    topic = project.watched()
    with faults.add(door="pubsub", verb="publish", resource=topic.id, nth=1, code=code) as fault:
        topic.publish("a")
    assert (fault.calls, topic.published) == (2, ["a"])


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        ("permission_denied", exceptions.PermissionDenied),
        ("not_found", exceptions.NotFound),
        ("invalid_argument", exceptions.InvalidArgument),
        ("failed_precondition", exceptions.FailedPrecondition),
    ],
)
def test_permanent_errors_reach_the_program(
    project: FaultProject, faults: Faults, error: str, kind: type[Exception]
) -> None:
    topic = project.watched()
    with (
        faults.add(door="pubsub", verb="publish", resource=topic.id, error=error, message="Not today.") as fault,
        pytest.raises(kind, match="Not today"),
    ):
        topic.publish("a")
    assert (fault.calls, topic.published) == (1, [])


def test_the_publisher_ignores_retry_info(project: FaultProject, faults: Faults) -> None:
    """The answer has RetryInfo, and the client uses its own backoff, 0.1 s at first."""
    topic, begun = project.watched(), time.monotonic()
    asked = {"error": "unavailable", "retry_after_seconds": 30}
    with faults.add(door="pubsub", verb="publish", resource=topic.id, nth=1, **asked) as fault:
        topic.publish("a")
    assert fault.calls == 2
    assert time.monotonic() - begun < 25


def test_retry_info_is_in_the_error(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    asked = {"error": "unavailable", "retry_after_seconds": 1.5}
    with (
        faults.add(door="pubsub", verb="publish", resource=topic.id, **asked),
        pytest.raises(exceptions.ServiceUnavailable) as raised,
    ):
        PublisherClient(transport=project.publisher.transport).publish(
            topic=topic.name, messages=[{"data": b"a"}], retry=None
        )
    (info,) = raised.value.details
    assert (info.retry_delay.seconds, info.retry_delay.nanos) == (1, 500_000_000)


def test_a_dropped_reply_makes_a_duplicate(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    with faults.add(door="pubsub", verb="publish", resource=topic.id, nth=1, effect="drop") as fault:
        (message_id,) = topic.publish("a")
    assert fault.calls == 2
    assert topic.published == ["a", "a"]
    assert [each["id"] for each in project.messages(topic.id)][1] == message_id


def test_a_closed_connection_makes_no_duplicate(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    with faults.add(door="pubsub", verb="publish", resource=topic.id, nth=1, effect="close") as fault:
        topic.publish("a")
    assert (fault.calls, topic.published) == (2, ["a"])


def test_a_late_answer_is_waited_for(project: FaultProject, faults: Faults) -> None:
    topic, begun = project.watched(), time.monotonic()
    with faults.add(door="pubsub", verb="publish", resource=topic.id, latency=0.3) as fault:
        topic.publish("a")
    assert time.monotonic() - begun >= 0.3
    assert (fault.calls, topic.published) == (1, ["a"])


def test_an_answer_after_the_timeout_makes_a_duplicate(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    with faults.add(door="pubsub", verb="publish", resource=topic.id, nth=1, latency=30) as fault:
        project.publisher.publish(topic.name, b"a", timeout=0.5).result(SECONDS)
    assert fault.calls >= 2  # more than one, because a busy machine may answer late by itself
    assert topic.published == ["a"] * fault.calls


def test_a_held_call_continues_when_the_fault_ends(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    fault = faults.add(door="pubsub", verb="publish", resource=topic.id, effect="hold")
    sent = project.publisher.publish(topic.name, b"a")
    assert fault.wait().held == 1
    assert topic.published == []
    fault.remove()
    sent.result(SECONDS)
    assert topic.published == ["a"]


def test_a_full_disk_is_retried_until_there_is_room(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    with faults.add(door="pubsub", resource=topic.id, times=2, effect="disk_full") as fault:
        topic.publish("a")
    assert (fault.hits, fault.calls, topic.published) == (2, 3, ["a"])


# ---------------------------------------------------------------------- pulling


@pytest.mark.parametrize("code", ["UNAVAILABLE", "INTERNAL", "ABORTED", "UNKNOWN"])
def test_a_pull_is_retried(project: FaultProject, faults: Faults, code: str) -> None:
    topic = project.watched()
    topic.publish("a")
    with faults.add(door="pubsub", verb="pull", resource=topic.id, nth=1, code=code) as fault:
        assert topic.texts() == ["a"]
    assert fault.calls == 2


@pytest.mark.parametrize(
    ("code", "kind"),
    [("RESOURCE_EXHAUSTED", exceptions.ResourceExhausted), ("DEADLINE_EXCEEDED", exceptions.DeadlineExceeded)],
)
def test_a_pull_is_not_retried(project: FaultProject, faults: Faults, code: str, kind: type[Exception]) -> None:
    topic = project.watched()
    with (
        faults.add(door="pubsub", verb="pull", resource=topic.id, nth=1, code=code) as fault,
        pytest.raises(kind, match=code),
    ):
        topic.pull()
    assert fault.calls == 1


def test_messages_of_a_lost_pull_answer_are_redelivered_after_the_deadline(
    project: FaultProject, faults: Faults
) -> None:
    """The client pulls again at once. The lost message stays leased until its ack deadline, and no consumer has it."""
    topic = project.watched()
    topic.publish("a", "b")
    with faults.add(door="pubsub", verb="pull", resource=topic.id, nth=1, effect="drop") as fault:
        assert topic.texts(1) == ["b"]
    assert fault.log[0]["messages"] == 1
    assert topic.waiting == 2
    project.clock.advance(10)
    assert topic.texts() == ["a", "b"]


@pytest.mark.parametrize("most", [1, 10])
def test_a_message_is_delivered_twice(project: FaultProject, faults: Faults, most: int) -> None:
    topic = project.watched()
    topic.publish("a")
    with faults.add(door="pubsub", verb="pull", resource=topic.id, nth=1, effect="duplicate"):
        got = topic.pull(most)
        got += topic.pull(most) if most == 1 else []
    first, second = got
    assert first.message.message_id == second.message.message_id
    project.subscriber.acknowledge(subscription=topic.subscription, ack_ids=[first.ack_id])
    assert topic.waiting == 0


@pytest.mark.parametrize(("most", "expected"), [(1, ["b"]), (10, ["b", "a"])])
def test_messages_are_reordered(project: FaultProject, faults: Faults, most: int, expected: list[str]) -> None:
    topic = project.watched()
    topic.publish("a", "b")
    with faults.add(door="pubsub", verb="pull", resource=topic.id, nth=1, effect="reorder"):
        assert topic.texts(most) == expected
    assert topic.waiting == 2


def test_a_lease_ends_at_once(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    topic.publish("a")
    with faults.add(door="pubsub", verb="pull", resource=topic.id, effect="expire") as fault:
        (first,) = topic.pull()
        (second,) = topic.pull()
    assert fault.hits == 1
    project.subscriber.acknowledge(subscription=topic.subscription, ack_ids=[first.ack_id])
    assert topic.waiting == 1
    project.subscriber.acknowledge(subscription=topic.subscription, ack_ids=[second.ack_id])
    assert topic.waiting == 0


def test_a_failed_ack_is_retried(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    topic.publish("a")
    (got,) = topic.pull()
    with faults.add(door="pubsub", verb="ack", resource=topic.id, nth=1, error="unavailable") as fault:
        project.subscriber.acknowledge(subscription=topic.subscription, ack_ids=[got.ack_id])
    assert (fault.calls, topic.waiting) == (2, 0)


def test_an_ack_is_not_retried_after_an_internal_error(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    topic.publish("a")
    (got,) = topic.pull()
    with (
        faults.add(door="pubsub", verb="ack", resource=topic.id, nth=1, error="internal"),
        pytest.raises(exceptions.InternalServerError),
    ):
        project.subscriber.acknowledge(subscription=topic.subscription, ack_ids=[got.ack_id])
    assert topic.waiting == 1


@pytest.mark.parametrize("effect", ["drop", "close"])
def test_an_ack_is_retried_after_a_lost_answer(project: FaultProject, faults: Faults, effect: str) -> None:
    topic = project.watched()
    topic.publish("a")
    (got,) = topic.pull()
    with faults.add(door="pubsub", verb="ack", resource=topic.id, nth=1, effect=effect) as fault:
        project.subscriber.acknowledge(subscription=topic.subscription, ack_ids=[got.ack_id])
    assert (fault.calls, topic.waiting) == (2, 0)


# ---------------------------------------------------------------------- the stream


def test_a_closed_stream_is_opened_again(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    with topic.listening() as arrived:
        topic.publish("a")
        assert arrived.get(timeout=SECONDS).data == b"a"
        fault = faults.add(door="pubsub", verb="pull", resource=topic.id, times=1, effect="close").wait()
        topic.publish("b")
        assert arrived.get(timeout=SECONDS).data == b"b"
    assert fault.hits == 1


@pytest.mark.parametrize("error", ["unavailable", "internal", "resource_exhausted"])
def test_the_stream_continues_after_a_transient_error(project: FaultProject, faults: Faults, error: str) -> None:
    """A fault at the first opening is not tested.

    There the client may open two streams and read one (api-core 2.44).
    """
    topic = project.watched()
    with topic.listening() as arrived:
        topic.publish("a")
        assert arrived.get(timeout=SECONDS).data == b"a"
        faults.add(door="pubsub", verb="pull", resource=topic.id, times=1, error=error).wait()
        topic.publish("b")
        assert arrived.get(timeout=SECONDS).data == b"b"


@pytest.mark.parametrize(
    ("code", "kind"), [("PERMISSION_DENIED", exceptions.PermissionDenied), ("CANCELLED", exceptions.Cancelled)]
)
def test_the_stream_ends_with_a_permanent_error(
    project: FaultProject, faults: Faults, code: str, kind: type[Exception]
) -> None:
    topic = project.watched()
    with faults.add(door="pubsub", verb="pull", resource=topic.id, code=code):
        listening = project.subscriber.subscribe(topic.subscription, lambda message: message.ack())
        with pytest.raises(kind):
            listening.result(SECONDS)


def test_lost_messages_of_a_stream_are_redelivered_after_the_deadline(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    project.clock.freeze()
    with topic.listening() as arrived:
        topic.publish("first")
        # the server knows the client's name for the stream from here on
        assert arrived.get(timeout=SECONDS).data == b"first"
        fault = faults.add(door="pubsub", verb="pull", resource=topic.id, nth=1, effect="drop")
        topic.publish("a")
        fault.wait()
        topic.publish("b")
        assert arrived.get(timeout=SECONDS).data == b"b"
        leases = project.admin.get(path_of("subscriptions", topic.subscription, "leases"))["leases"]
        assert leases[0]["offset"] == 1
        project.clock.advance(60)  # the client does not extend this lease, because it never got the message
        assert arrived.get(timeout=SECONDS).data == b"a"


def test_the_listener_sees_a_duplicate(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    faults.add(door="pubsub", verb="pull", resource=topic.id, nth=1, effect="duplicate")
    with topic.listening() as arrived:
        topic.publish("a")
        first, second = arrived.get(timeout=SECONDS), arrived.get(timeout=SECONDS)
    assert (first.message_id, first.ack_id) == (second.message_id, second.ack_id)


def test_the_listener_gets_a_message_again_after_its_lease_ended(project: FaultProject, faults: Faults) -> None:
    topic = project.watched()
    fault = faults.add(door="pubsub", verb="pull", resource=topic.id, effect="expire")
    with topic.listening() as arrived:
        topic.publish("a")
        first, second = arrived.get(timeout=SECONDS), arrived.get(timeout=SECONDS)
    assert first.message_id == second.message_id
    assert first.ack_id != second.ack_id
    assert fault.hits == 1


def test_an_ack_after_the_end_of_the_lease_where_delivery_is_exactly_once(
    project: FaultProject, faults: Faults
) -> None:
    topic = project.watched(enable_exactly_once_delivery=True)
    faults.add(door="pubsub", verb="ack", resource=topic.id, nth=1, effect="expire")
    futures = []
    with topic.listening(ack=lambda message: futures.append(message.ack_with_response())) as arrived:
        topic.publish("a")
        first, second = arrived.get(timeout=SECONDS), arrived.get(timeout=SECONDS)
        with pytest.raises(AcknowledgeError) as raised:
            futures[0].result(SECONDS)
        assert futures[1].result(SECONDS) is AcknowledgeStatus.SUCCESS
    assert first.message_id == second.message_id
    assert raised.value.error_code is AcknowledgeStatus.INVALID_ACK_ID

"""StreamingPull: its protocol, its flow control, and clients that misbehave."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import pytest

from penstock.broker.facts import Acked
from penstock.doors.google import messages as m
from penstock.engine import lookups
from penstock.journal.port import JournalFullError
from tests.doors.google.harness import Client, Harness, Requests, eventually, opened
from tests.unit.engine.journals import ToldJournal

Request = m.StreamingPullRequest


class Stream:
    """An open stream, read one response at a time."""

    def __init__(self, client: Client, subscription: str, **first: Any) -> None:
        fields = {"subscription": subscription, "stream_ack_deadline_seconds": 10, **first}
        self.requests = Requests(Request(**fields))
        self.call = client.stream("StreamingPull", iter(self.requests))

    def next(self) -> Any:
        return next(self.call)

    def messages(self, count: int) -> list[Any]:
        received: list[Any] = []
        while len(received) < count:
            received += self.next().received_messages
        return received

    def send(self, **fields: Any) -> None:
        self.requests.send(Request(**fields))

    def ending(self) -> tuple[str, str]:
        try:
            for _ in self.call:
                pass
        except grpc.RpcError as error:
            return error.code().name, error.details()
        return "OK", ""

    def close(self) -> None:
        self.requests.close()
        self.call.cancel()


@pytest.fixture
def topic(client: Client) -> str:
    return client.topic()


@pytest.fixture
def streams() -> Iterator[list[Stream]]:
    opened: list[Stream] = []
    yield opened
    for stream in opened:
        stream.close()


def test_messages_flow_and_acks_count(client: Client, topic: str, streams: list[Stream]) -> None:
    subscription = client.subscription(topic)
    stream = Stream(client, subscription)
    streams.append(stream)
    client.publish(topic, b"1", b"2")
    received = stream.messages(2)
    stream.send(ack_ids=[each.ack_id for each in received])
    client.publish(topic, b"3")
    assert [each.message.data for each in stream.messages(1)] == [b"3"]
    eventually(lambda: lookups.backlog(client.harness.queue.engine, subscription).messages == 1)


def test_flow_control_limits_the_outstanding_messages(client: Client, topic: str, streams: list[Stream]) -> None:
    subscription = client.subscription(topic)
    client.publish(topic, *[b"x"] * 25)
    stream = Stream(client, subscription, max_outstanding_messages=10)
    streams.append(stream)
    received = stream.messages(10)
    assert lookups.backlog(client.harness.queue.engine, subscription).in_flight_messages == 10
    client.ack(subscription, *received[:4])  # with a unary call, as the official clients do
    assert len(stream.messages(4)) == 4
    stream.send(modify_deadline_ack_ids=[received[5].ack_id], modify_deadline_seconds=[0])
    assert len(stream.messages(1)) == 1
    assert lookups.backlog(client.harness.queue.engine, subscription).in_flight_messages == 10


def test_flow_control_counts_bytes_too(client: Client, topic: str, streams: list[Stream]) -> None:
    subscription = client.subscription(topic)
    client.publish(topic, *[b"x" * 1000] * 10)
    stream = Stream(client, subscription, max_outstanding_bytes=3500)
    streams.append(stream)
    received = stream.messages(3)
    outstanding = lookups.backlog(client.harness.queue.engine, subscription)
    assert outstanding.in_flight_bytes <= 4000
    stream.send(ack_ids=[each.ack_id for each in received])
    assert stream.messages(1)


def test_a_stream_reads_acks_while_a_commit_is_held_up() -> None:
    journal = ToldJournal()
    with opened(journal=journal) as harness, harness.connect() as client:
        topic = client.topic()
        subscription = client.subscription(topic)
        client.publish(topic, *[b"x"] * 5)
        stream = Stream(client, subscription)
        received = stream.messages(5)
        journal.gate.clear()
        for each in received:
            stream.send(ack_ids=[each.ack_id])
        eventually(lambda: in_flight(harness, subscription) == 0)
        acked = [fact for commit in journal.commits for fact in commit.facts if isinstance(fact, Acked)]
        journal.gate.set()
        assert acked == []
        stream.requests.close()
        assert stream.ending() == ("OK", "")
        acked = [fact for commit in journal.commits for fact in commit.facts if isinstance(fact, Acked)]
        assert sum(len(fact.offsets) for fact in acked) == 5


def test_acks_whose_commit_is_refused_end_the_stream() -> None:
    journal = ToldJournal()
    with opened(journal=journal) as harness, harness.connect() as client:
        topic = client.topic()
        subscription = client.subscription(topic)
        client.publish(topic, b"1")
        stream = Stream(client, subscription)
        (received,) = stream.messages(1)
        journal.refusals.append(JournalFullError("The disk is full"))
        stream.send(ack_ids=[received.ack_id])
        assert stream.ending() == ("RESOURCE_EXHAUSTED", "The disk is full")
        assert harness.door.counts["RESOURCE_EXHAUSTED"] == 1


def test_every_response_has_the_properties_of_the_subscription(
    client: Client, topic: str, streams: list[Stream]
) -> None:
    subscription = client.subscription(topic, enable_exactly_once_delivery=True, enable_message_ordering=True)
    stream = Stream(client, subscription)
    streams.append(stream)
    client.publish(topic, b"1")
    response = stream.next()
    assert response.subscription_properties.exactly_once_delivery_enabled
    assert response.subscription_properties.message_ordering_enabled


def test_exactly_once_confirms_on_the_stream(client: Client, topic: str, streams: list[Stream]) -> None:
    subscription = client.subscription(topic, enable_exactly_once_delivery=True)
    client.publish(topic, b"1", b"2")
    stream = Stream(client, subscription)
    streams.append(stream)
    first, second = stream.messages(2)
    stream.send(ack_ids=[first.ack_id], modify_deadline_ack_ids=[second.ack_id], modify_deadline_seconds=[60])
    confirmed = stream.next()
    assert list(confirmed.acknowledge_confirmation.ack_ids) == [first.ack_id]
    assert list(confirmed.modify_ack_deadline_confirmation.ack_ids) == [second.ack_id]
    stream.send(ack_ids=[first.ack_id, second.ack_id])
    confirmed = stream.next()
    assert list(confirmed.acknowledge_confirmation.ack_ids) == [second.ack_id]
    assert list(confirmed.acknowledge_confirmation.invalid_ack_ids) == [first.ack_id]


def test_a_bad_receipt_on_an_exactly_once_stream_is_reported_and_the_stream_continues(
    client: Client, topic: str, streams: list[Stream]
) -> None:
    subscription, other = (client.subscription(topic, enable_exactly_once_delivery=True) for _ in range(2))
    client.publish(topic, b"1")
    (foreign,) = client.pull(other)
    stream = Stream(client, subscription)
    streams.append(stream)
    (received,) = stream.messages(1)
    bad = sorted(["junk", "", "1-2", f"{received.ack_id}x", foreign.ack_id])
    stream.send(ack_ids=["junk", "", "1-2", f"{received.ack_id}x", foreign.ack_id])
    confirmed = stream.next().acknowledge_confirmation
    assert (list(confirmed.ack_ids), sorted(confirmed.invalid_ack_ids)) == ([], bad)
    stream.send(modify_deadline_ack_ids=["junk", received.ack_id], modify_deadline_seconds=[60, 60])
    confirmed = stream.next().modify_ack_deadline_confirmation
    assert (list(confirmed.ack_ids), list(confirmed.invalid_ack_ids)) == ([received.ack_id], ["junk"])
    stream.send(ack_ids=[received.ack_id])
    assert list(stream.next().acknowledge_confirmation.ack_ids) == [received.ack_id]
    client.ack(other, foreign)  # the stream of another subscription did not ack it


def test_a_ping_of_protocol_version_one_is_answered(client: Client, topic: str, streams: list[Stream]) -> None:
    stream = Stream(client, client.subscription(topic), protocol_version=1)
    streams.append(stream)
    stream.send()
    assert not stream.next().received_messages


def test_a_ping_of_protocol_version_zero_is_not_answered(client: Client, topic: str, streams: list[Stream]) -> None:
    stream = Stream(client, client.subscription(topic))
    streams.append(stream)
    stream.send()
    client.publish(topic, b"1")
    assert stream.next().received_messages


def test_several_streams_share_the_messages(client: Client, topic: str, streams: list[Stream]) -> None:
    subscription = client.subscription(topic)
    streams += [Stream(client, subscription, max_outstanding_messages=5, client_id=str(n)) for n in range(3)]
    client.publish(topic, *[b"%d" % number for number in range(15)])
    bodies = [each.message.data for stream in streams for each in stream.messages(5)]
    assert sorted(bodies, key=int) == [b"%d" % number for number in range(15)]


@pytest.mark.parametrize("ids", [("a", "b"), ("same", "same"), ("", "")])
def test_a_key_stays_in_order_over_two_streams(
    client: Client, topic: str, streams: list[Stream], ids: tuple[str, str]
) -> None:
    subscription = client.subscription(topic, enable_message_ordering=True)
    for place in range(5):
        client.publish(topic, *[b"%d" % (place * 10 + n) for n in range(10)], ordering_key="k")
    streams += [Stream(client, subscription, max_outstanding_messages=4, client_id=each) for each in ids]
    seen: list[int] = []
    all_seen = threading.Event()

    def listen(stream: Stream) -> None:
        with suppress(grpc.RpcError):
            for response in stream.call:
                seen.extend(int(each.message.data) for each in response.received_messages)
                stream.send(ack_ids=[each.ack_id for each in response.received_messages])
                if len(seen) >= 50:
                    all_seen.set()

    for stream in streams:
        threading.Thread(target=listen, args=[stream], daemon=True).start()
    assert all_seen.wait(15)
    assert seen == list(range(50))


FIRST = {"stream_ack_deadline_seconds": 10}


@pytest.mark.parametrize(
    ("first", "text"),
    [
        ({"subscription": ""}, "The first message must set subscription."),
        ({"stream_ack_deadline_seconds": 0}, "The first message must set stream_ack_deadline_seconds."),
        (
            {"stream_ack_deadline_seconds": 9},
            "The stream_ack_deadline_seconds must be between 10 and 600 seconds.",
        ),
        (
            {"stream_ack_deadline_seconds": 601},
            "The stream_ack_deadline_seconds must be between 10 and 600 seconds.",
        ),
        ({"modify_deadline_ack_ids": ["1-1-1"]}, "The ack IDs and deadlines must have the same size."),
        (
            {"modify_deadline_ack_ids": ["1-1-1"], "modify_deadline_seconds": [-1]},
            "The modify_deadline_seconds must be between 0 and 600 seconds.",
        ),
    ],
)
def test_an_invalid_first_request_is_refused(client: Client, topic: str, first: dict[str, Any], text: str) -> None:
    fields = {"subscription": client.subscription(topic), **FIRST, **first}
    call = client.stream("StreamingPull", iter(Requests(Request(**fields))))
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert (caught.value.code().name, caught.value.details()) == ("INVALID_ARGUMENT", text)


@pytest.mark.parametrize(
    ("later", "text"),
    [
        ({"subscription": "projects/p/subscriptions/abc"}, "The subscription may only be set in the first message."),
        ({"max_outstanding_messages": 5}, "Flow control settings may only be set in the first message."),
        ({"max_outstanding_bytes": 5}, "Flow control settings may only be set in the first message."),
        ({"protocol_version": 1}, "The protocol_version may only be set in the first message."),
        ({"modify_deadline_seconds": [1]}, "The ack IDs and deadlines must have the same size."),
        ({"stream_ack_deadline_seconds": 5}, "The stream_ack_deadline_seconds must be between 10 and 600 seconds."),
    ],
)
def test_an_invalid_later_request_is_refused(client: Client, topic: str, later: dict[str, Any], text: str) -> None:
    stream = Stream(client, client.subscription(topic))
    stream.send(**later)
    assert stream.ending() == ("INVALID_ARGUMENT", text)


def test_a_malformed_receipt_ends_the_stream(client: Client, topic: str) -> None:
    stream = Stream(client, client.subscription(topic))
    stream.send(ack_ids=["junk"])
    assert stream.ending()[0] == "INVALID_ARGUMENT"


def test_bytes_that_are_no_request_end_the_stream(client: Client) -> None:
    call = client.stream("StreamingPull", iter(Requests(b"\xff\xff")))
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert caught.value.code().name == "INVALID_ARGUMENT"


def test_a_request_that_is_too_large_ends_the_stream(client: Client, topic: str) -> None:
    first = Request(subscription=client.subscription(topic), stream_ack_deadline_seconds=10)
    call = client.stream("StreamingPull", iter(Requests(first, b"x" * (13 << 20))))
    with pytest.raises(grpc.RpcError) as caught:
        next(call)
    assert caught.value.code().name == "RESOURCE_EXHAUSTED"


def test_a_large_request_is_read(client: Client, topic: str) -> None:
    subscription = client.subscription(topic)
    stream = Stream(client, subscription)
    number = lookups.subscription(client.harness.queue.engine, subscription).number
    stream.send(ack_ids=[f"{number}-{offset}-1" for offset in range(300_000)])
    client.publish(topic, b"1")
    assert stream.messages(1)
    stream.close()


def test_a_stream_of_a_missing_subscription_is_refused(client: Client) -> None:
    assert Stream(client, "projects/p/subscriptions/missing").ending()[0] == "NOT_FOUND"
    assert Stream(client, "junk").ending()[0] == "INVALID_ARGUMENT"


def test_a_stream_ends_when_its_subscription_does(client: Client, topic: str) -> None:
    subscription = client.subscription(topic)
    stream = Stream(client, subscription)
    client.publish(topic, b"1")
    stream.messages(1)
    client.call("DeleteSubscription", subscription=subscription)
    assert stream.ending() == ("NOT_FOUND", f"Resource not found (resource={subscription.rpartition('/')[2]}).")


def test_a_stream_ends_when_its_subscription_is_detached(client: Client, topic: str) -> None:
    subscription = client.subscription(topic)
    stream = Stream(client, subscription)
    client.publish(topic, b"1")
    stream.messages(1)
    client.call("DetachSubscription", subscription=subscription)
    assert stream.ending()[0] == "FAILED_PRECONDITION"


def test_a_stream_of_a_deleted_topic_stays_open_until_the_subscription_is_deleted(client: Client, topic: str) -> None:
    subscription = client.subscription(topic)
    stream = Stream(client, subscription, protocol_version=1)
    client.call("DeleteTopic", topic=topic)
    stream.send()
    assert not stream.next().received_messages  # still there
    client.call("DeleteSubscription", subscription=subscription)
    assert stream.ending()[0] == "NOT_FOUND"


def test_a_stream_ends_when_the_client_closes_its_side(client: Client, topic: str) -> None:
    stream = Stream(client, client.subscription(topic))
    stream.requests.close()
    assert stream.ending() == ("OK", "")


# ---------------------------------------------------------------------- clients that misbehave


def test_messages_of_a_vanished_client_are_redelivered(harness: Harness, client: Client, topic: str) -> None:
    subscription = client.subscription(topic)
    client.publish(topic, b"1")
    with harness.connect() as leaving:
        stream = Stream(leaving, subscription)
        (held,) = stream.messages(1)
        stream.close()
    eventually(lambda: not harness.door._services.flow_control._by_subscription)
    client.nack(subscription, held)  # as it would at its deadline
    assert [each.message.data for each in client.pull(subscription)] == [b"1"]


def test_a_client_that_never_acks_gets_only_as_many_messages_as_it_allows(client: Client, topic: str) -> None:
    subscription = client.subscription(topic)
    greedy = Stream(client, subscription, max_outstanding_messages=3)
    client.publish(topic, *[b"x"] * 20)
    greedy.messages(3)
    polite = Stream(client, subscription, max_outstanding_messages=1000)
    assert len(polite.messages(17)) == 17
    greedy.close()
    polite.close()


def test_a_client_that_never_reads_holds_one_response(harness: Harness, client: Client, topic: str) -> None:
    subscription = client.subscription(topic)
    for _ in range(12):
        client.publish(topic, *[b"x" * 900_000] * 10)
    with harness.connect() as lazy:
        stream = Stream(lazy, subscription)  # the client does not read its next response
        backlog = eventually(lambda: _steady(lambda: in_flight(harness, subscription)))
        assert 0 < backlog < 120
        other = client.subscription(topic)
        started = time.monotonic()
        client.publish(topic, b"for others")
        assert [each.message.data for each in client.pull(other, timeout=5)] == [b"for others"]
        assert time.monotonic() - started < 3
        stream.close()


def test_messages_that_were_never_sent_have_no_attempt(harness: Harness, client: Client, topic: str) -> None:
    """Section 5 of the design: messages in the buffers of the server are ready at once when the client disconnects."""
    subscription = client.subscription(topic)
    for _ in range(12):
        client.publish(topic, *[b"x" * 900_000] * 10)
    with harness.connect() as lazy:
        # the client does not read its next response
        stream = Stream(lazy, subscription, stream_ack_deadline_seconds=600)
        leased = eventually(lambda: _steady(lambda: in_flight(harness, subscription)))
        stream.close()
    eventually(lambda: lookups.backlog(harness.queue.engine, subscription).in_flight_messages < leased)
    peeked = harness.run(lambda: harness.queue.peek(subscription, 120)).messages
    assert {attempts for _, attempts in peeked} == {0}


def in_flight(harness: Any, subscription: str) -> int:
    return lookups.backlog(harness.queue.engine, subscription).in_flight_messages


def _steady(read: Any) -> int:
    """Return a number once it no longer changes."""
    first = read()
    time.sleep(0.3)  # no event tells that the server has stopped sending, so wait until a number stays the same
    return first if first and read() == first else 0

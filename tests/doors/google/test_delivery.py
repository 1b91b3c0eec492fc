"""Delivery as Google documents it: pull, retry, dead letters, ordering, filters, exactly-once, seek."""

from __future__ import annotations

import time
from typing import Any

import grpc
import pytest

from penstock.doors.google import messages as m
from tests.doors.google.harness import Client, eventually, opened
from tests.doors.stopping import stop


def bodies(received: list[Any]) -> list[bytes]:
    return [each.message.data for each in received]


def duration(seconds: float) -> Any:
    return m.Duration(seconds=int(seconds), nanos=round(seconds % 1 * 1e9))


def test_a_message_arrives_whole(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic)
    ids = client.publish(topic, b"\x00body", attributes={"a": "1", "ü": "ß"}, ordering_key="key")
    (received,) = client.pull(subscription)
    message = received.message
    assert (message.data, dict(message.attributes)) == (b"\x00body", {"a": "1", "ü": "ß"})
    assert (message.message_id, message.ordering_key) == (ids[0], "key")
    assert abs(message.publish_time.seconds - time.time()) < 60
    assert received.delivery_attempt == 0  # only with a dead letter policy


def test_an_empty_pull_answers_before_its_deadline(client: Client) -> None:
    subscription = client.subscription(client.topic())
    started = time.monotonic()
    assert client.pull(subscription, timeout=2) == []
    assert 0.5 < time.monotonic() - started < 2
    started = time.monotonic()
    client.call("Pull", subscription=subscription, max_messages=1, return_immediately=True)
    assert time.monotonic() - started < 1


def test_answers_stay_below_four_mebibytes(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic)
    for _ in range(6):
        client.publish(topic, b"x" * 1_000_000)
    client.publish(topic, b"y" * 5_000_000)
    seen = []
    while len(seen) < 7:
        answer = client.call("Pull", subscription=subscription, max_messages=100, timeout=5)
        assert answer.ByteSize() < 4 << 20 or len(answer.received_messages) == 1
        seen += answer.received_messages
    assert sorted(len(each.message.data) for each in seen)[-1] == 5_000_000


def test_a_nacked_message_waits_for_its_backoff(client: Client) -> None:
    topic = client.topic()
    policy = {"minimum_backoff": duration(0.6), "maximum_backoff": duration(600)}
    subscription = client.subscription(topic, retry_policy=policy)
    client.publish(topic, b"again")
    client.nack(subscription, *client.pull(subscription))
    started = time.monotonic()
    assert bodies(client.pull(subscription, timeout=10)) == [b"again"]
    assert 0.5 < time.monotonic() - started < 5


def test_a_message_that_fails_too_often_becomes_a_dead_letter(client: Client) -> None:
    topic, graveyard = client.topic(), client.topic()
    policy = {"dead_letter_topic": graveyard, "max_delivery_attempts": 5}
    subscription = client.subscription(topic, dead_letter_policy=policy)
    mourner = client.subscription(graveyard)
    client.publish(topic, b"doomed", attributes={"k": "v"}, ordering_key="key")
    for attempt in range(1, 6):
        (received,) = client.pull(subscription)
        assert received.delivery_attempt == attempt
        client.nack(subscription, received)
    (letter,) = client.pull(mourner)
    attributes = dict(letter.message.attributes)
    published = attributes.pop("CloudPubSubDeadLetterSourceTopicPublishTime")
    assert published.endswith("Z")
    assert len(published) == len("2026-01-01T00:00:00.000Z")
    assert attributes == {
        "k": "v",
        "CloudPubSubDeadLetterSourceDeliveryCount": "5",
        "CloudPubSubDeadLetterSourceSubscription": subscription.rpartition("/")[2],
        "CloudPubSubDeadLetterSourceSubscriptionProject": "test",
    }
    assert (letter.message.data, letter.message.ordering_key) == (b"doomed", "key")
    assert client.pull(subscription) == []


def test_a_filter_takes_what_matches(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, filter='attributes.kind = "a" OR NOT attributes:kind')
    client.publish(topic, b"1", attributes={"kind": "a"})
    client.publish(topic, b"2", attributes={"kind": "b"})
    client.publish(topic, b"3")
    assert bodies(client.pull(subscription)) == [b"1", b"3"]


def test_a_nack_redelivers_the_later_messages_of_the_key_in_order(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, enable_message_ordering=True)
    client.publish(topic, b"a1", b"a2", b"a3", ordering_key="a")
    client.publish(topic, b"b1", ordering_key="b")
    first = client.pull(subscription)
    assert bodies(first) == [b"a1", b"a2", b"a3", b"b1"]
    client.nack(subscription, first[0])
    assert bodies(client.pull(subscription)) == [b"a1", b"a2", b"a3"]


def test_another_puller_gets_no_message_of_an_outstanding_key(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, enable_message_ordering=True)
    client.publish(topic, b"a1", b"a2", ordering_key="a")
    (first,) = client.pull(subscription, 1)
    assert client.pull(subscription, timeout=0.6) == []
    client.ack(subscription, first)
    assert bodies(client.pull(subscription)) == [b"a2"]


def details(error: grpc.RpcError) -> dict[str, str]:
    """Return the reason of every failed receipt, as clients read it from the trailers."""
    for key, value in error.trailing_metadata():
        if key == "grpc-status-details-bin":
            status = m.Status.FromString(value)
            info = m.ErrorInfo()
            assert status.details[0].Unpack(info)
            assert (info.reason, info.domain) == ("EXACTLY_ONCE_ACKID_FAILURE", "pubsub.googleapis.com")
            return dict(info.metadata)
    raise AssertionError("no details")


@pytest.mark.parametrize("name", ["Acknowledge", "ModifyAckDeadline"])
def test_exactly_once_lists_expired_receipts(client: Client, name: str) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, enable_exactly_once_delivery=True)
    client.publish(topic, b"1")
    (received,) = client.pull(subscription)
    client.ack(subscription, received)
    with pytest.raises(grpc.RpcError) as caught:
        client.call(name, subscription=subscription, ack_ids=[received.ack_id])
    assert caught.value.code().name == "INVALID_ARGUMENT"
    assert details(caught.value) == {received.ack_id: "PERMANENT_FAILURE_INVALID_ACK_ID"}


@pytest.mark.parametrize("name", ["Acknowledge", "ModifyAckDeadline"])
@pytest.mark.parametrize("junk", ["junk", "1-2-3-4", "x" * 1000, "ä"])
def test_exactly_once_lists_a_malformed_receipt(client: Client, name: str, junk: str) -> None:
    topic = client.topic()
    subscription, other = (client.subscription(topic, enable_exactly_once_delivery=True) for _ in range(2))
    client.publish(topic, b"1")
    (received,), (foreign,) = client.pull(subscription), client.pull(other)
    for bad in (junk, foreign.ack_id):
        with pytest.raises(grpc.RpcError) as caught:
            client.call(name, subscription=subscription, ack_ids=[bad])
        assert caught.value.code().name == "INVALID_ARGUMENT"
        assert details(caught.value) == {bad: "PERMANENT_FAILURE_INVALID_ACK_ID"}
        with pytest.raises(grpc.RpcError) as caught:
            client.call(name, subscription=subscription, ack_ids=[received.ack_id, bad])
        assert caught.value.code().name == "ABORTED"
        assert details(caught.value) == {bad: "PERMANENT_FAILURE_INVALID_ACK_ID"}
    client.ack(subscription, received)
    client.ack(other, foreign)


def test_a_receipt_too_long_for_the_details_is_refused(client: Client) -> None:
    subscription = client.subscription(client.topic(), enable_exactly_once_delivery=True)
    code, text = client.refused("Acknowledge", subscription=subscription, ack_ids=["x" * 100_000])
    assert (code, text[:4]) == ("INVALID_ARGUMENT", "Some")


def test_exactly_once_refuses_a_mixed_request_so_that_the_client_can_repeat_it(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, enable_exactly_once_delivery=True)
    client.publish(topic, b"1", b"2")
    dead, good = client.pull(subscription)
    client.ack(subscription, dead)
    with pytest.raises(grpc.RpcError) as caught:
        client.ack(subscription, dead, good)
    assert caught.value.code().name == "ABORTED"
    assert list(details(caught.value)) == [dead.ack_id]
    client.ack(subscription, good)  # still valid


def test_expired_receipts_beyond_the_size_of_trailers_are_listed_in_turns(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, enable_exactly_once_delivery=True)
    client.publish(topic, *[b"x"] * 1000)
    received = []
    while len(received) < 1000:
        received += client.pull(subscription, 1000)
    receipts = [each.ack_id for each in received]
    client.ack(subscription, *received)
    codes = []
    while receipts:  # as clients do: listed receipts have failed permanently, and the others are sent again
        with pytest.raises(grpc.RpcError) as caught:
            client.call("Acknowledge", subscription=subscription, ack_ids=receipts)
        codes.append(caught.value.code().name)
        failed = details(caught.value)
        assert failed
        receipts = [receipt for receipt in receipts if receipt not in failed]
    assert codes[-1] == "INVALID_ARGUMENT"
    assert set(codes[:-1]) == {"ABORTED"}


def test_seek_to_a_time_and_to_a_snapshot(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, retain_acked_messages=True)
    client.publish(topic, b"1", b"2")
    client.ack(subscription, *client.pull(subscription))
    middle = m.Timestamp()
    middle.FromNanoseconds(time.time_ns())
    client.publish(topic, b"3")
    name = f"{subscription.replace('subscriptions', 'snapshots')}"
    client.call("CreateSnapshot", name=name, subscription=subscription)
    client.ack(subscription, *client.pull(subscription))
    client.call("Seek", subscription=subscription, time=m.Timestamp(seconds=1))
    assert bodies(client.pull(subscription)) == [b"1", b"2", b"3"]
    client.call("Seek", subscription=subscription, time=middle)
    assert bodies(client.pull(subscription)) == [b"3"]
    client.call("Seek", subscription=subscription, snapshot=name)
    assert bodies(client.pull(subscription)) == [b"3"]
    client.call("Seek", subscription=subscription, time=m.Timestamp(seconds=2**36))
    assert client.pull(subscription) == []


def test_a_new_subscription_gets_new_messages_only_and_can_seek_back(client: Client) -> None:
    topic = client.topic(message_retention_duration=duration(600))
    client.publish(topic, b"before")
    subscription = client.subscription(topic)
    assert client.pull(subscription) == []
    client.call("Seek", subscription=subscription, time=m.Timestamp(seconds=1))
    assert bodies(client.pull(subscription)) == [b"before"]


def test_acked_messages_stay_acked_without_retention(client: Client) -> None:
    """The server keeps more messages of every topic, but a Pub/Sub client sees the behaviour of Pub/Sub."""
    topic = client.topic()
    client.publish(topic, b"before")
    subscription = client.subscription(topic)
    client.publish(topic, b"acked", b"unacked")
    acked, _ = client.pull(subscription)
    client.ack(subscription, acked)
    client.call("Seek", subscription=subscription, time=m.Timestamp(seconds=1))
    assert bodies(client.pull(subscription)) == [b"unacked"]


def test_a_subscription_that_retains_does_not_go_back_before_its_beginning(client: Client) -> None:
    topic = client.topic()
    client.publish(topic, b"before")
    subscription = client.subscription(topic, retain_acked_messages=True)
    client.publish(topic, b"after")
    client.ack(subscription, *client.pull(subscription))
    client.call("Seek", subscription=subscription, time=m.Timestamp(seconds=1))
    assert bodies(client.pull(subscription)) == [b"after"]


@pytest.mark.parametrize(
    ("seconds", "nanos"),
    [(2**62, 0), (1_700_000_000_000, 0), (253402300800, 0), (-62135596801, 0), (1, -1), (1, 10**9), (-(2**63), 0)],
)
def test_a_seek_to_an_impossible_time_is_refused_and_changes_nothing(client: Client, seconds: int, nanos: int) -> None:
    topic = client.topic()
    subscription = client.subscription(topic)
    client.publish(topic, b"x")
    code, said = client.refused("Seek", subscription=subscription, time=m.Timestamp(seconds=seconds, nanos=nanos))
    assert (code, "argument=time" in said) == ("INVALID_ARGUMENT", True)
    assert bodies(client.pull(subscription)) == [b"x"]


@pytest.mark.parametrize(("seconds", "left"), [(-62135596800, 1), (0, 1), (253402300799, 0)])
def test_a_seek_goes_from_the_first_year_to_the_last(client: Client, seconds: int, left: int) -> None:
    topic = client.topic()
    subscription = client.subscription(topic)
    client.publish(topic, b"x")
    client.call("Seek", subscription=subscription, time=m.Timestamp(seconds=seconds, nanos=999_999_999))
    assert len(client.pull(subscription, timeout=0.3)) == left


def test_a_compressed_request_is_read(client: Client) -> None:
    topic = client.topic()
    method = client.harness.kinds["google.pubsub.v1.Publisher/Publish"]
    stub = client.channel.unary_unary(method.path, bytes, method.response.FromString)
    request = m.PublishRequest(topic=topic, messages=[m.PubsubMessage(data=b"x" * 100_000)]).SerializeToString()
    for compression in (grpc.Compression.Gzip, grpc.Compression.Deflate):
        assert len(stub(request, timeout=10, compression=compression).message_ids) == 1


def test_a_request_that_inflates_beyond_the_limit_is_refused(client: Client) -> None:
    method = client.harness.kinds["google.pubsub.v1.Publisher/Publish"]
    stub = client.channel.unary_unary(method.path, bytes, method.response.FromString)
    with pytest.raises(grpc.RpcError) as caught:
        stub(b"\x00" * (64 << 20), timeout=20, compression=grpc.Compression.Gzip)
    assert caught.value.code().name == "RESOURCE_EXHAUSTED"


def test_an_unknown_method_is_unimplemented(client: Client) -> None:
    for path in ("/google.pubsub.v1.Publisher/Nothing", "/nothing/at.all"):
        with pytest.raises(grpc.RpcError) as caught:
            client.channel.unary_unary(path, bytes, bytes)(b"", timeout=5)
        assert caught.value.code().name == "UNIMPLEMENTED"


def test_waiting_pulls_end_when_the_server_stops() -> None:
    with opened() as harness, harness.connect() as client:
        subscription = client.subscription(client.topic())
        method = harness.kinds["google.pubsub.v1.Subscriber/Pull"]
        stub = client.channel.unary_unary(
            method.path, lambda each: each.SerializeToString(), method.response.FromString
        )
        waiting = stub.future(method.request(subscription=subscription, max_messages=1), timeout=60)
        eventually(lambda: harness.queue.loop.wakeups._waiting)
        started = time.monotonic()
        harness.run(lambda: stop(harness.door, harness.queue, 10))
        assert time.monotonic() - started < 5
        assert waiting.exception(10).code().name == "UNAVAILABLE"

"""Every row of the table of limits, with Google's codes and texts, and values at the limit."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.doors.google import codec
from penstock.doors.google import messages as m
from tests.doors.google.harness import Client

INVALID = "INVALID_ARGUMENT"
BAD_NAME = (
    "Invalid resource name given (name={}). Refer to https://cloud.google.com/pubsub/docs/admin#resource_names "
    "for more information."
)
DAY = 86400


def message(**fields: Any) -> Any:
    return m.PubsubMessage(**fields)


def too(name: str, word: str, value: object, bound: object) -> str:
    limit = "minimum" if word == "small" else "maximum"
    return f"The value for {name} is too {word}. You passed {value} in the request, but the {limit} value is {bound}."


@pytest.fixture(scope="module")
def topic(client: Client) -> str:
    return client.topic()


@pytest.fixture(scope="module")
def subscription(client: Client, topic: str) -> str:
    return client.subscription(topic)


# ---------------------------------------------------------------------- names


@pytest.mark.parametrize(
    "name",
    [
        "",
        "t",
        "projects/p/topics/ab",
        "projects/p/topics/1abc",
        "projects/p/topics/" + "a" * 256,
        "projects/p/topics/google-topic",
        "projects/p/topics/goog",
        "projects/p/topics/a b c",
        "projects/p/topics/ümlaut",
        "projects/p/topics/a/b",
        "projects//topics/abc",
        "projects/p/subscriptions/abc",
        "project/p/topics/abc",
        "projects/p q/topics/abc",
    ],
)
def test_an_invalid_name_is_refused(client: Client, name: str) -> None:
    assert client.refused("CreateTopic", name=name) == (INVALID, BAD_NAME.format(name[:300]))


@pytest.mark.parametrize(
    "identifier", ["abc", "A.b_c~d+e%f-1", "a" * 255, "Google-is-fine-with-a-capital", "_x".replace("_", "x") + "yz"]
)
def test_a_valid_name_is_accepted(client: Client, identifier: str) -> None:
    name = f"projects/names.example.com:p/topics/{identifier}"
    assert client.call("CreateTopic", name=name).name == name


def test_missing_resources_are_not_found(client: Client) -> None:
    text = "Resource not found (resource=missing)."
    topic, subscription = "projects/p/topics/missing", "projects/p/subscriptions/missing"
    for name, fields in [
        ("GetTopic", {"topic": topic}),
        ("DeleteTopic", {"topic": topic}),
        ("ListTopicSubscriptions", {"topic": topic}),
        ("ListTopicSnapshots", {"topic": topic}),
        ("Publish", {"topic": topic, "messages": [message(data=b"x")]}),
        ("GetSubscription", {"subscription": subscription}),
        ("DeleteSubscription", {"subscription": subscription}),
        ("DetachSubscription", {"subscription": subscription}),
        ("Pull", {"subscription": subscription, "max_messages": 1}),
        ("Acknowledge", {"subscription": subscription, "ack_ids": ["1-1-1"]}),
        ("ModifyAckDeadline", {"subscription": subscription, "ack_ids": ["1-1-1"]}),
        ("ModifyPushConfig", {"subscription": subscription}),
        ("Seek", {"subscription": subscription, "time": m.Timestamp(seconds=1)}),
        ("CreateSnapshot", {"name": "projects/p/snapshots/abc", "subscription": subscription}),
        ("GetSnapshot", {"snapshot": "projects/p/snapshots/missing"}),
        ("DeleteSnapshot", {"snapshot": "projects/p/snapshots/missing"}),
        ("GetSchema", {"name": "projects/p/schemas/missing"}),
        ("DeleteSchema", {"name": "projects/p/schemas/missing"}),
        ("CreateSubscription", {"name": "projects/p/subscriptions/abc", "topic": topic}),
    ]:
        assert client.refused(name, **fields) == ("NOT_FOUND", text), name


def test_existing_resources_already_exist(client: Client, topic: str, subscription: str) -> None:
    def text(name: str) -> str:
        return f"Resource already exists in the project (resource={name.rpartition('/')[2]})."

    assert client.refused("CreateTopic", name=topic) == ("ALREADY_EXISTS", text(topic))
    assert client.refused("CreateSubscription", name=subscription, topic=topic) == (
        "ALREADY_EXISTS",
        text(subscription),
    )


def test_an_empty_project_is_an_invalid_argument(client: Client) -> None:
    for name, field in [
        ("ListTopics", "project"),
        ("ListSubscriptions", "project"),
        ("ListSnapshots", "project"),
        ("ListSchemas", "parent"),
    ]:
        assert client.refused(name, **{field: ""}) == (INVALID, BAD_NAME.format(""))


# ---------------------------------------------------------------------- publish

PUBLISHES = [
    ([], "The request must contain at least one message."),
    ([message(data=b"x")] * 1001, too("message_count", "large", 1001, 1000)),
    (
        [message()],
        (
            "One or more messages in the publish request is empty. Each message must contain either non-empty data, or "
            "at least one attribute."
        ),
    ),
    ([message(attributes={f"k{n}": "v" for n in range(101)})], too("attributes count", "large", 101, 100)),
    ([message(attributes={"k" * 257: "v"})], too("attribute key length", "large", 257, 256)),
    ([message(attributes={"ü" * 129: "v"})], too("attribute key length", "large", 258, 256)),
    ([message(attributes={"k": "v" * 1025})], too("attribute value length", "large", 1025, 1024)),
    ([message(attributes={"googclient": "v"})], "Attribute keys must not begin with 'goog': googclient"),
    ([message(attributes={"goog_x": "v"})], "Attribute keys must not begin with 'goog': goog_x"),
    ([message(attributes={"": "v"})], "Attribute keys must not be empty."),
    ([message(data=b"x", ordering_key="k" * 1025)], too("ordering_key length", "large", 1025, 1024)),
    (
        [message(data=b"x", ordering_key="a"), message(data=b"x", ordering_key="b")],
        (
            "In a single publish request, all messages must have no ordering key or they must all have the same "
            "ordering key."
        ),
    ),
]


@pytest.mark.parametrize(("messages", "text"), PUBLISHES)
def test_a_publish_beyond_a_limit_is_refused(client: Client, topic: str, messages: list[Any], text: str) -> None:
    assert client.refused("Publish", topic=topic, messages=messages) == (INVALID, text)


def test_a_publish_of_too_many_messages_is_refused_before_they_are_converted(
    client: Client, topic: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A request of 10 MB can have 5 million empty messages, which took 8 seconds of the event loop."""
    monkeypatch.setattr(codec, "drafts", None)
    refused = client.refused("Publish", topic=topic, messages=[message()] * 2000)
    assert refused == (INVALID, too("message_count", "large", 2000, 1000))


def test_a_publish_of_more_than_ten_million_bytes_is_refused(client: Client, topic: str) -> None:
    request = m.PublishRequest(topic=topic, messages=[message(data=b"x" * 10_000_000)])
    size = request.ByteSize()
    assert client.refused("Publish", request) == (INVALID, too("request_size", "large", size, 10_000_000))


def test_a_request_beyond_the_transport_limit_is_refused(client: Client, topic: str) -> None:
    request = m.PublishRequest(topic=topic, messages=[message(data=b"x" * 13_000_000)])
    code, text = client.refused("Publish", request)
    assert code == "RESOURCE_EXHAUSTED"
    assert text.startswith("Received message larger than max (")


@pytest.mark.parametrize(
    "messages",
    [
        [message(data=b"x")] * 1000,
        [message(attributes={f"k{n}": "v" for n in range(100)})],
        [message(attributes={"k" * 256: "v" * 1024})],
        [message(data=b"x", ordering_key="k" * 1024)],
        [message(data=b"x", attributes={"googclient_traceparent": "00-1-2-01"})],  # as client libraries with tracing do
        [message(data=b"x", attributes={"googclient_schemaname": "s"})],  # a received message, published again
        [message(data=b"x" * 9_999_000)],
    ],
)
def test_a_publish_at_a_limit_is_accepted(client: Client, topic: str, messages: list[Any]) -> None:
    assert len(client.call("Publish", topic=topic, messages=messages).message_ids) == len(messages)


# ---------------------------------------------------------------------- subscriptions


def duration(seconds: float) -> Any:
    return m.Duration(seconds=int(seconds), nanos=int(seconds % 1 * 1e9))


def policy(**fields: Any) -> dict[str, Any]:
    return {"dead_letter_policy": fields}


SUBSCRIPTIONS = [
    ({"ack_deadline_seconds": 9}, too("ack_deadline_seconds", "small", 9, 10)),
    ({"ack_deadline_seconds": -1}, too("ack_deadline_seconds", "small", -1, 10)),
    ({"ack_deadline_seconds": 601}, too("ack_deadline_seconds", "large", 601, 600)),
    ({"message_retention_duration": duration(599)}, too("message_retention_duration", "small", 599, 600)),
    (
        {"message_retention_duration": duration(31 * DAY + 1)},
        too("message_retention_duration", "large", 31 * DAY + 1, 31 * DAY),
    ),
    ({"expiration_policy": {"ttl": duration(DAY - 1)}}, too("expiration_policy.ttl", "small", DAY - 1, DAY)),
    (policy(dead_letter_topic="T", max_delivery_attempts=4), too("max_delivery_attempts", "small", 4, 5)),
    (policy(dead_letter_topic="T", max_delivery_attempts=101), too("max_delivery_attempts", "large", 101, 100)),
    (
        policy(max_delivery_attempts=5),
        "You have passed an invalid argument to the service (argument=dead_letter_policy.dead_letter_topic).",
    ),
    (
        {"retry_policy": {"minimum_backoff": duration(601)}},
        too("retry_policy.minimum_backoff", "large", 601, 600),
    ),
    (
        {"retry_policy": {"maximum_backoff": duration(-1)}},
        too("retry_policy.maximum_backoff", "small", -1, 0),
    ),
    (
        {"retry_policy": {"minimum_backoff": duration(20), "maximum_backoff": duration(10)}},
        "The value for retry_policy.minimum_backoff must not be larger than maximum_backoff.",
    ),
    (
        {"filter": "attributes:" + "x" * 256},
        "Invalid filter: it has 267 bytes, at most 256 are allowed",
    ),
    ({"push_config": {"push_endpoint": "ftp://x"}}, "Unsupported push_endpoint: it is not an http or https URL."),
    (
        {"bigquery_config": {"table": "t"}, "cloud_storage_config": {"bucket": "b"}},
        "A subscription may have at most one of push, BigQuery, Cloud Storage and Bigtable delivery.",
    ),
    (
        {"enable_exactly_once_delivery": True, "push_config": {"push_endpoint": "https://example.com"}},
        "Exactly-once delivery is for subscriptions that are pulled.",
    ),
]


@pytest.mark.parametrize(("fields", "text"), SUBSCRIPTIONS)
def test_a_subscription_beyond_a_limit_is_refused(
    client: Client, topic: str, fields: dict[str, Any], text: str
) -> None:
    if fields.get("dead_letter_policy", {}).get("dead_letter_topic"):
        fields = policy(**{**fields["dead_letter_policy"], "dead_letter_topic": topic})
    assert client.refused("CreateSubscription", name="projects/p/subscriptions/abc", topic=topic, **fields) == (
        INVALID,
        text,
    )


@pytest.mark.parametrize(
    "text", ["attributes.", "attributes.a = 1", 'attributes.a = "1" AND b OR c', "data = 1", "NOT", "("]
)
def test_an_invalid_filter_is_refused(client: Client, topic: str, text: str) -> None:
    name = "projects/p/subscriptions/abc"
    code, said = client.refused("CreateSubscription", name=name, topic=topic, filter=text)
    assert code == INVALID
    assert said.startswith("Invalid filter")


def test_a_dead_letter_topic_must_be_there(client: Client, topic: str) -> None:
    fields = policy(dead_letter_topic="projects/p/topics/missing")
    name = "projects/p/subscriptions/abc"
    assert client.refused("CreateSubscription", name=name, topic=topic, **fields) == (
        "NOT_FOUND",
        "Resource not found (resource=missing).",
    )


@pytest.mark.parametrize(
    ("given", "kept"),
    [(0, 10), (10, 10), (600, 600)],
)
def test_an_ack_deadline_within_its_range_is_kept(client: Client, topic: str, given: int, kept: int) -> None:
    name = client.subscription(topic, ack_deadline_seconds=given)
    assert client.call("GetSubscription", subscription=name).ack_deadline_seconds == kept


@pytest.mark.parametrize("seconds", [599, 31 * DAY + 1, 0])
def test_a_topic_keeps_messages_for_ten_minutes_to_a_month(client: Client, seconds: int) -> None:
    word, bound = ("large", 31 * DAY) if seconds > 600 else ("small", 600)
    request = m.Topic(name="projects/p/topics/kept-too-long", message_retention_duration=duration(seconds))
    assert client.refused("CreateTopic", request) == (INVALID, too("message_retention_duration", word, seconds, bound))


# ---------------------------------------------------------------------- pull and ack


@pytest.mark.parametrize("count", [0, -1])
def test_a_pull_needs_a_positive_max_messages(client: Client, subscription: str, count: int) -> None:
    text = "You have passed an invalid argument to the service (argument=max_messages)."
    assert client.refused("Pull", subscription=subscription, max_messages=count) == (INVALID, text)


@pytest.mark.parametrize("name", ["Acknowledge", "ModifyAckDeadline"])
def test_missing_and_malformed_receipts_are_refused(client: Client, subscription: str, name: str) -> None:
    text = "You have passed an invalid argument to the service (argument=ack_ids)."
    assert client.refused(name, subscription=subscription, ack_ids=[]) == (INVALID, text)
    for receipt in ("junk", "", "1-2", "x-y-z", "1-2-3-4", "9" * 500):
        code, said = client.refused(name, subscription=subscription, ack_ids=[receipt])
        assert code == INVALID
        assert said.startswith("Some acknowledgement ids in the request were invalid.")


@pytest.mark.parametrize("name", ["Acknowledge", "ModifyAckDeadline"])
def test_a_request_of_too_many_receipts_is_refused(client: Client, subscription: str, name: str) -> None:
    receipts = [f"1-{number}-{10**15}" for number in range(30_000)]
    text = "Request payload size exceeds the limit: 524288 bytes."
    assert client.refused(name, subscription=subscription, ack_ids=receipts) == (INVALID, text)


@pytest.mark.parametrize(("seconds", "word", "bound"), [(-1, "small", 0), (601, "large", 600)])
def test_a_deadline_is_changed_within_its_range(
    client: Client, subscription: str, seconds: int, word: str, bound: int
) -> None:
    assert client.refused(
        "ModifyAckDeadline", subscription=subscription, ack_ids=["1-1-1"], ack_deadline_seconds=seconds
    ) == (INVALID, too("ack_deadline_seconds", word, seconds, bound))


def test_a_seek_needs_a_target(client: Client, subscription: str) -> None:
    text = "No target was specified in the SeekRequest. Must specify either a time or a snapshot."
    assert client.refused("Seek", subscription=subscription) == (INVALID, text)


# ---------------------------------------------------------------------- other limits


def test_bytes_that_are_no_message_are_an_invalid_argument(client: Client) -> None:
    for name in [method.name for method in client.harness.kinds.values() if method.service.startswith("google.")]:
        if name != "StreamingPull":
            assert client.refused(name, b"\xff\xff\xff\xff") == (INVALID, "The request is not a valid message."), name


def test_an_empty_message_is_never_unknown_or_internal(client: Client) -> None:
    for name in [method.name for method in client.harness.kinds.values() if method.service.startswith("google.")]:
        if name != "StreamingPull":
            assert client.refused(name, b"")[0] == INVALID, name


@pytest.mark.parametrize("size", [-1, -1000])
def test_invalid_page_sizes_and_tokens_are_refused(client: Client, size: int) -> None:
    text = "You have passed an invalid argument to the service (argument=page_size)."
    assert client.refused("ListTopics", project="projects/p", page_size=size) == (INVALID, text)
    assert client.refused("ListTopics", project="projects/p", page_token="!")[0] == INVALID

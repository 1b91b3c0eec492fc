"""Google's rules besides the limits: labels, destinations, transforms, push, receipts, revisions."""

from __future__ import annotations

import json
from typing import Any

import grpc
import pytest

from penstock.doors.google import messages as m
from tests.doors.google.harness import Client, Requests

INVALID = "INVALID_ARGUMENT"
PUSHED = ("FAILED_PRECONDITION", "This method is not supported for push subscriptions.")


def bad(field: str) -> tuple[str, str]:
    return INVALID, f"You have passed an invalid argument to the service (argument={field})."


def first(subscription: str) -> Any:
    return m.StreamingPullRequest(subscription=subscription, stream_ack_deadline_seconds=10)


@pytest.fixture(scope="module")
def topic(client: Client) -> str:
    return client.topic()


# ---------------------------------------------------------------------- push subscriptions


def test_a_push_subscription_is_not_pulled(client: Client, topic: str) -> None:
    name = client.subscription(topic, push_config={"push_endpoint": "https://example.com/x"})
    assert client.refused("Pull", subscription=name, max_messages=1) == PUSHED
    with pytest.raises(grpc.RpcError) as error:
        next(client.stream("StreamingPull", Requests(first(name))))
    assert (error.value.code().name, error.value.details()) == PUSHED


def test_a_stream_ends_when_its_subscription_gets_a_push_endpoint(client: Client, topic: str) -> None:
    name = client.subscription(topic)
    stream = client.stream("StreamingPull", Requests(first(name)))
    stream.initial_metadata()  # the stream is open, and waits for messages
    client.call("ModifyPushConfig", subscription=name, push_config={"push_endpoint": "https://example.com/x"})
    with pytest.raises(grpc.RpcError) as error:
        next(stream)
    assert (error.value.code().name, error.value.details()) == PUSHED
    client.call("ModifyPushConfig", subscription=name, push_config={})
    assert client.pull(name, timeout=1.1) == []


def version(client: Client, name: str) -> str:
    config = client.call("GetSubscription", subscription=name).push_config
    return dict(config.attributes).get("x-goog-version", "")


def test_the_version_of_the_push_format_is_always_returned(client: Client, topic: str) -> None:
    name = client.subscription(topic, push_config={"push_endpoint": "https://example.com/x"})
    assert version(client, name) == "v1"
    config: dict[str, Any] = {"push_endpoint": "https://example.com/y", "attributes": {"x-goog-version": "v1beta1"}}
    client.call("ModifyPushConfig", subscription=name, push_config=config)
    assert version(client, name) == "v1beta1"
    client.call("ModifyPushConfig", subscription=name, push_config={"push_endpoint": "https://example.com/z"})
    assert version(client, name) == "v1beta1", "fields that are not in the mask do not change"
    client.call("ModifyPushConfig", subscription=name, push_config={})
    assert version(client, name) == "v1beta1", "they do not change when the endpoint is removed either"
    client.call("ModifyPushConfig", subscription=name, push_config={"push_endpoint": "https://example.com/z"})
    assert version(client, name) == "v1beta1"
    update = {"name": name, "push_config": {}}
    client.call("UpdateSubscription", subscription=update, update_mask={"paths": ["push_config"]})
    assert version(client, name) == "v1beta1"
    client.pull(name)
    config["attributes"]["x-goog-version"] = "v2"
    assert client.refused("ModifyPushConfig", subscription=name, push_config=config) == bad("push_config.attributes")


# ---------------------------------------------------------------------- receipts


@pytest.mark.parametrize("name", ["Acknowledge", "ModifyAckDeadline"])
def test_a_receipt_of_another_subscription_is_refused(client: Client, name: str) -> None:
    topic = client.topic()
    mine, other = client.subscription(topic), client.subscription(topic)
    client.publish(topic, b"x")
    (own,), (foreign,) = client.pull(mine), client.pull(other)
    code, said = client.refused(name, subscription=mine, ack_ids=[own.ack_id, foreign.ack_id])
    assert (code, foreign.ack_id in said) == (INVALID, True)
    client.nack(mine, own)
    assert [each.message.data for each in client.pull(mine)] == [b"x"], "no part of the request was done"


def test_an_old_receipt_is_no_error_without_exactly_once(client: Client) -> None:
    topic = client.topic()
    name = client.subscription(topic)
    client.publish(topic, b"x")
    (received,) = client.pull(name)
    client.ack(name, received)
    client.ack(name, received)
    client.publish(topic, b"y")
    assert [each.message.data for each in client.pull(name)] == [b"y"], "acked messages stay acked"


def test_a_stream_that_acks_for_another_subscription_is_refused(client: Client) -> None:
    topic = client.topic()
    mine, other = client.subscription(topic), client.subscription(topic)
    client.publish(topic, b"x")
    (foreign,) = client.pull(other)
    requests = Requests(first(mine), m.StreamingPullRequest(ack_ids=[foreign.ack_id]))
    with pytest.raises(grpc.RpcError) as error:
        list(client.stream("StreamingPull", requests))
    assert error.value.code().name == INVALID


# ---------------------------------------------------------------------- labels, transforms, destinations

LABELS = [
    ({"a": ""}, True),
    ({"a-b_9": "c-d_9", "größe": "größe", "名": "名"}, True),
    ({"a" * 63: "b" * 63}, True),
    ({"Team": "a"}, False),
    ({"team": "A"}, False),
    ({"9a": ""}, False),
    ({"_a": ""}, False),
    ({"": "a"}, False),
    ({"a.b": ""}, False),
    ({"a": "b c"}, False),
    ({"a" * 64: ""}, False),
    ({"a": "b" * 64}, False),
]


@pytest.mark.parametrize(("labels", "good"), LABELS)
def test_labels_are_in_small_letters(client: Client, topic: str, labels: dict[str, str], good: bool) -> None:
    if good:
        name = client.subscription(topic, labels=labels)
        assert dict(client.call("GetSubscription", subscription=name).labels) == labels
        return
    for method, fields in [
        ("CreateTopic", {"name": "projects/p/topics/labelled"}),
        ("CreateSubscription", {"name": "projects/p/subscriptions/labelled", "topic": topic}),
    ]:
        assert client.refused(method, labels=labels, **fields) == bad("labels")


@pytest.mark.parametrize(
    ("transform", "field"),
    [
        ({}, "message_transforms"),
        ({"disabled": True}, "message_transforms"),
        ({"javascript_udf": {"code": "function f(m) { return m; }"}}, "javascript_udf.function_name"),
        ({"javascript_udf": {"function_name": "f"}}, "javascript_udf.code"),
        ({"ai_inference": {}}, "ai_inference.endpoint"),
        ({"compression": {"compression_mode": 1}}, "compression.compression_algorithm"),
        ({"compression": {"compression_algorithm": 1}}, "compression.compression_mode"),
    ],
)
def test_a_transform_says_what_it_does(client: Client, topic: str, transform: dict[str, Any], field: str) -> None:
    for method, fields in [
        ("CreateTopic", {"name": "projects/p/topics/transformed"}),
        ("CreateSubscription", {"name": "projects/p/subscriptions/transformed", "topic": topic}),
    ]:
        assert client.refused(method, message_transforms=[transform], **fields) == bad(field)


def test_at_most_five_transforms_are_enabled(client: Client, topic: str) -> None:
    """The text is that of the official emulator."""
    transform = {"javascript_udf": {"function_name": "f", "code": "function f(m) { return m; }"}}
    five, disabled = [transform] * 5, {**transform, "disabled": True}
    refusal = (
        "The request exceeds the maximum number of enabled message transforms. Maximum enabled transforms: 5. "
        "Enabled transforms: 6"
    )
    name = client.topic(message_transforms=[*five, disabled])
    fields = {"name": "projects/p/topics/six-transforms", "message_transforms": [*five, transform]}
    assert client.refused("CreateTopic", **fields) == (INVALID, refusal)
    update = {"name": name, "message_transforms": [*five, transform]}
    mask = {"paths": ["message_transforms"]}
    assert client.refused("UpdateTopic", topic=update, update_mask=mask) == (INVALID, refusal)
    fields = {"name": "projects/p/subscriptions/six-transforms", "topic": topic, "message_transforms": [transform] * 6}
    assert client.refused("CreateSubscription", **fields) == (INVALID, refusal)


def test_settings_that_are_not_acted_on_are_logged_once(client: Client, caplog: pytest.LogCaptureFixture) -> None:
    transform = {"javascript_udf": {"function_name": "f", "code": "function f(m) { return m; }"}}
    with caplog.at_level("WARNING"):
        topic = client.topic(message_transforms=[transform])
        update = {"name": topic, "message_transforms": [transform, transform]}
        client.call("UpdateTopic", topic=update, update_mask={"paths": ["message_transforms"]})
        table = client.subscription(topic, bigquery_config={"table": "p.d.t"})
        files = client.subscription(topic)
        update = {"name": files, "cloud_storage_config": {"bucket": "b"}}
        client.call("UpdateSubscription", subscription=update, update_mask={"paths": ["cloud_storage_config"]})
        client.topic(message_transforms=[{**transform, "disabled": True}])
    assert [record.getMessage() for record in caplog.records if record.levelname == "WARNING"] == [
        f"{topic} has message_transforms, which this server stores but does not run",
        f"{table} has bigquery_config, which this server stores but does not run",
        f"{files} has cloud_storage_config, which this server stores but does not run",
    ]


@pytest.mark.parametrize(
    ("config", "words"),
    [
        ({}, "argument=cloud_storage_config.bucket"),
        ({"max_duration": {"seconds": 59}}, "cloud_storage_config.max_duration is too small. You passed 59"),
        ({"max_duration": {"seconds": 601}}, "cloud_storage_config.max_duration is too large. You passed 601"),
        ({"max_bytes": 999}, "cloud_storage_config.max_bytes is too small"),
        ({"max_bytes": (10 << 30) + 1}, "cloud_storage_config.max_bytes is too large"),
        ({"max_messages": 999}, "cloud_storage_config.max_messages is too small"),
        ({"filename_suffix": "a/"}, "argument=cloud_storage_config.filename_suffix"),
    ],
)
def test_a_subscription_that_fills_files_has_bounds(
    client: Client, topic: str, config: dict[str, Any], words: str
) -> None:
    name, whole = "projects/p/subscriptions/files", {"bucket": "b", **config} if config else {}
    code, said = client.refused("CreateSubscription", name=name, topic=topic, cloud_storage_config=whole)
    assert (code, words in said) == (INVALID, True), said


def test_a_file_is_not_kept_open_longer_than_its_messages_are_leased(client: Client, topic: str) -> None:
    config = {"bucket": "b", "max_duration": {"seconds": 120}}
    name = client.subscription(topic, cloud_storage_config=config)
    assert client.call("GetSubscription", subscription=name).ack_deadline_seconds == 120
    code, said = client.refused(
        "CreateSubscription",
        name="projects/p/subscriptions/files",
        topic=topic,
        ack_deadline_seconds=60,
        cloud_storage_config=config,
    )
    assert (code, "ack_deadline_seconds" in said) == (INVALID, True)


def test_a_table_is_named_and_has_one_source_of_its_schema(client: Client, topic: str) -> None:
    name = "projects/p/subscriptions/table"
    both = {"table": "p.d.t", "use_topic_schema": True, "use_table_schema": True}
    for config, field in [({}, "table"), (both, "use_table_schema")]:
        assert client.refused("CreateSubscription", name=name, topic=topic, bigquery_config=config) == bad(
            f"bigquery_config.{field}"
        )


# ---------------------------------------------------------------------- revisions


def test_a_revision_is_compatible_with_every_earlier_one(client: Client) -> None:
    """Commit a schema revision: protocol buffers may add or remove optional fields. The text is production's."""

    def schema(*fields: str) -> Any:
        return m.Schema(type=1, definition=f'syntax = "proto3"; message M {{ {" ".join(fields)} }}')

    name, text, device = "projects/test/schemas/evolving", "string text = 1;", "string device = 2;"
    client.call("CreateSchema", parent="projects/test", schema_id="evolving", schema=schema(text))
    second = client.call("CommitSchema", name=name, schema=schema(text, device))
    third = client.call("CommitSchema", name=name, schema=schema(text))
    code, details = client.refused("CommitSchema", name=name, schema=schema(text, "int64 device_id = 2;"))
    assert code == INVALID
    assert details == (
        f'Compatibility checking failed to commit a schema revision for (schema="{name}"). '
        f'(reason="Revision is incompatible with previous revision: {second.revision_id}. '
        'Failed with error: device_id of type int64 is not compatible with device of type string"). '
        "Refer to https://cloud.google.com/pubsub/docs/schemas for more information."
    )
    assert client.call("GetSchema", name=name).revision_id == third.revision_id
    assert len(client.call("ListSchemaRevisions", name=name).schemas) == 3


def test_an_avro_revision_that_cannot_be_read_is_refused(client: Client) -> None:
    def schema(*fields: dict[str, Any]) -> Any:
        return m.Schema(type=2, definition=json.dumps({"type": "record", "name": "R", "fields": fields}))

    first, more = {"name": "a", "type": "string"}, {"name": "b", "type": "int"}
    name = client.call("CreateSchema", parent="projects/test", schema_id="avro-evolving", schema=schema(first)).name
    code, details = client.refused("CommitSchema", name=name, schema=schema(first, more))
    assert code == INVALID
    assert "field b is in one of them only and has no default" in details
    client.call("CommitSchema", name=name, schema=schema(first, {**more, "default": 0}))
    client.call("RollbackSchema", name=name, revision_id=client.call("GetSchema", name=name).revision_id)


def test_a_rollback_names_its_revision(client: Client) -> None:
    avro = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]})
    schema = {"type": 2, "definition": avro}
    name = client.call("CreateSchema", parent="projects/test", schema_id="rolled", schema=schema).name
    assert client.refused("RollbackSchema", name=name) == bad("revision_id")
    assert client.refused("DeleteSchemaRevision", name=name) == bad("revision_id")
    assert len(client.call("ListSchemaRevisions", name=name).schemas) == 1


@pytest.mark.parametrize("method", ["GetSchema", "DeleteSchemaRevision"])
def test_a_name_with_half_a_revision_is_refused(client: Client, method: str) -> None:
    assert client.refused(method, name="projects/p/schemas/half@")[0] == INVALID


def test_a_snapshot_does_not_fit_a_recreated_topic(client: Client) -> None:
    topic = client.topic()
    snapshot = client.subscription(topic).replace("subscriptions", "snapshots")
    client.call("CreateSnapshot", name=snapshot, subscription=snapshot.replace("snapshots", "subscriptions"))
    client.call("DeleteTopic", topic=topic)
    client.call("CreateTopic", name=topic)
    refused = client.refused("Seek", subscription=client.subscription(topic), snapshot=snapshot)
    assert refused == (INVALID, "The snapshot and the subscription must be of the same topic.")


# ---------------------------------------------------------------------- dead letter topics


def test_a_dead_letter_topic_must_be_there_when_it_is_set(client: Client, topic: str) -> None:
    name = client.subscription(topic)
    policy = {"dead_letter_topic": "projects/p/topics/missing"}
    update = m.Subscription(name=name, dead_letter_policy=policy)
    mask = {"paths": ["dead_letter_policy"]}
    missing = ("NOT_FOUND", "Resource not found (resource=missing).")
    assert client.refused("UpdateSubscription", subscription=update, update_mask=mask) == missing
    assert not client.call("GetSubscription", subscription=name).HasField("dead_letter_policy")


def test_a_deleted_dead_letter_topic_leaves_the_message_in_its_subscription(client: Client) -> None:
    """The message is redelivered after a pause, and its attempts are counted."""
    topic, dead = client.topic(), client.topic()
    name = client.subscription(topic, dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 5})
    client.publish(topic, b"x")
    client.call("DeleteTopic", topic=dead)
    for attempt in range(1, 6):
        (received,) = client.pull(name)
        assert received.delivery_attempt == attempt
        client.nack(name, received)
    assert client.call("Pull", subscription=name, max_messages=1, return_immediately=True).received_messages == []
    (received,) = client.pull(name, timeout=5)
    assert received.delivery_attempt == 6

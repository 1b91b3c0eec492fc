"""Topics, subscriptions and snapshots: stored and returned settings, and legal updates."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.doors.google import messages as m
from penstock.doors.google.options import GoogleOptions
from tests.doors.google.harness import NUMBERS, Client, Harness, opened


def mask(*paths: str) -> Any:
    return {"paths": paths}


def seconds(value: int) -> Any:
    return m.Duration(seconds=value)


def test_a_topic_is_returned_as_it_was_created(client: Client) -> None:
    given = m.Topic(
        name="projects/p/topics/whole",
        labels={"team": "a"},
        message_storage_policy={"allowed_persistence_regions": ["europe-west1"], "enforce_in_transit": True},
        kms_key_name="projects/p/locations/l/keyRings/r/cryptoKeys/k",
        message_retention_duration=seconds(600),
        ingestion_data_source_settings={"cloud_storage": {"bucket": "b", "text_format": {"delimiter": "\n"}}},
        message_transforms=[{"javascript_udf": {"function_name": "f", "code": "function f(m) { return m; }"}}],
    )
    kept = client.call("CreateTopic", given)
    given.state = 1
    assert kept == given
    assert client.call("GetTopic", topic=given.name) == given


def test_a_subscription_returns_its_defaults(client: Client) -> None:
    topic = client.topic(message_retention_duration=seconds(1200))
    made = client.call("GetSubscription", subscription=client.subscription(topic))
    assert made.HasField("push_config")
    assert made.ack_deadline_seconds == 10
    assert made.message_retention_duration.seconds == 7 * 86400
    assert made.expiration_policy.ttl.seconds == 31 * 86400
    assert made.topic_message_retention_duration.seconds == 1200
    assert made.state == 1
    assert not made.HasField("retry_policy")
    assert not made.HasField("dead_letter_policy")


def test_policies_are_filled_in(client: Client) -> None:
    topic = client.topic()
    name = client.subscription(
        topic, retry_policy={}, dead_letter_policy={"dead_letter_topic": topic}, expiration_policy={}
    )
    made = client.call("GetSubscription", subscription=name)
    assert (made.retry_policy.minimum_backoff.seconds, made.retry_policy.maximum_backoff.seconds) == (10, 600)
    assert made.dead_letter_policy.max_delivery_attempts == 5
    assert made.HasField("expiration_policy")
    assert not made.expiration_policy.HasField("ttl")  # never


def test_stored_settings_are_returned(client: Client) -> None:
    topic = client.topic()
    for field, value in [
        ("bigquery_config", {"table": "p.d.t", "write_metadata": True}),
        ("cloud_storage_config", {"bucket": "b", "filename_prefix": "x"}),
        ("bigtable_config", {"table": "projects/p/instances/i/tables/t"}),
        ("push_config", {"push_endpoint": "https://example.com/x", "attributes": {"x-goog-version": "v1"}}),
    ]:
        name = client.subscription(topic, **{field: value})
        made = client.call("GetSubscription", subscription=name)
        assert getattr(made, field) == type(getattr(made, field))(**value)


def test_a_subscription_without_a_name_gets_one(client: Client) -> None:
    made = client.call("CreateSubscription", topic=client.topic())
    assert made.name.startswith("projects/test/subscriptions/s-")


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("labels", {"labels": {"a": "b"}}),
        ("ack_deadline_seconds", {"ack_deadline_seconds": 33}),
        ("retain_acked_messages", {"retain_acked_messages": True}),
        ("message_retention_duration", {"message_retention_duration": seconds(1000)}),
        ("expiration_policy", {"expiration_policy": {"ttl": seconds(200_000)}}),
        ("expiration_policy.ttl", {"expiration_policy": {"ttl": seconds(100_000)}}),
        ("retry_policy", {"retry_policy": {"minimum_backoff": seconds(1), "maximum_backoff": seconds(2)}}),
        ("retry_policy.maximum_backoff", {"retry_policy": {"maximum_backoff": seconds(300)}}),
        ("enable_exactly_once_delivery", {"enable_exactly_once_delivery": True}),
        ("push_config", {"push_config": {"push_endpoint": "https://e.com", "attributes": {"x-goog-version": "v1"}}}),
        ("push_config.push_endpoint", {"push_config": {"push_endpoint": "https://example.com"}}),
        ("bigquery_config", {"bigquery_config": {"table": "t"}}),
        ("cloud_storage_config.bucket", {"cloud_storage_config": {"bucket": "b"}}),
        ("bigtable_config", {"bigtable_config": {"table": "t"}}),
        ("message_transforms", {"message_transforms": [{"javascript_udf": {"function_name": "f", "code": "c"}}]}),
    ],
)
def test_every_legal_update_of_a_subscription(client: Client, path: str, fields: dict[str, Any]) -> None:
    name = client.subscription(client.topic())
    before = client.call("GetSubscription", subscription=name)
    update = m.Subscription(name=name, **fields)
    after = client.call("UpdateSubscription", subscription=update, update_mask=mask(path))
    assert after == client.call("GetSubscription", subscription=name)
    value, wanted = after, update
    for step in path.split("."):
        value, wanted = getattr(value, step), getattr(wanted, step)
    assert value == wanted
    top = path.split(".")[0]
    after.ClearField(top)
    before.ClearField(top)
    assert after == before or top == "push_config"


def test_a_part_of_the_dead_letter_policy_can_be_changed_and_all_of_it_cleared(client: Client) -> None:
    topic = client.topic()
    name = client.subscription(topic, dead_letter_policy={"dead_letter_topic": topic})
    update = m.Subscription(name=name, dead_letter_policy={"max_delivery_attempts": 50})
    after = client.call(
        "UpdateSubscription", subscription=update, update_mask=mask("dead_letter_policy.max_delivery_attempts")
    )
    assert after.dead_letter_policy.max_delivery_attempts == 50
    assert after.dead_letter_policy.dead_letter_topic == topic
    cleared = client.call(
        "UpdateSubscription", subscription={"name": name}, update_mask=mask("dead_letter_policy", "labels")
    )
    assert not cleared.HasField("dead_letter_policy")


REFUSED = "Invalid update_mask provided in the UpdateSubscriptionRequest: "


@pytest.mark.parametrize(
    ("paths", "text"),
    [
        ([], "The update_mask in the UpdateSubscriptionRequest must be set, and must contain a non-empty paths list."),
        (["topic"], REFUSED + "the topic field in the Subscription is not mutable."),
        (["name"], REFUSED + "the name field in the Subscription is not mutable."),
        (["filter"], REFUSED + "the filter field in the Subscription is not mutable."),
        (["detached"], REFUSED + "the detached field in the Subscription is not mutable."),
        (
            ["enable_message_ordering"],
            REFUSED + "the enable_message_ordering field in the Subscription is not mutable.",
        ),
        (
            ["pushConfig"],
            REFUSED + "pushConfig is not a known Subscription field. Note that field paths must be of the form "
            "'push_config' rather than 'pushConfig'.",
        ),
        (
            ["*"],  # like the official emulator
            REFUSED + "* is not a known Subscription field. Note that field paths must be of the form 'push_config' "
            "rather than 'pushConfig'.",
        ),
        (
            ["retry_policy.nothing"],
            REFUSED + "retry_policy.nothing is not a known Subscription field. Note that field paths must be of the "
            "form 'push_config' rather than 'pushConfig'.",
        ),
    ],
)
def test_an_invalid_update_is_refused(client: Client, paths: list[str], text: str) -> None:
    name = client.subscription(client.topic())
    assert client.refused("UpdateSubscription", subscription={"name": name}, update_mask=mask(*paths)) == (
        "INVALID_ARGUMENT",
        text,
    )


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        ("labels", {"labels": {"x": "y"}}),
        ("message_retention_duration", {"message_retention_duration": seconds(700)}),
        ("message_storage_policy", {"message_storage_policy": {"allowed_persistence_regions": ["r"]}}),
        (
            "message_storage_policy.allowed_persistence_regions",
            {"message_storage_policy": {"allowed_persistence_regions": ["r"]}},
        ),
        ("ingestion_data_source_settings", {"ingestion_data_source_settings": {"aws_kinesis": {"stream_arn": "a"}}}),
        ("message_transforms", {"message_transforms": [{"javascript_udf": {"function_name": "f", "code": "c"}}]}),
        ("kms_key_name", {"kms_key_name": "k"}),
    ],
)
def test_every_legal_update_of_a_topic(client: Client, path: str, fields: dict[str, Any]) -> None:
    name = client.topic(labels={"before": "1"})
    update = m.Topic(name=name, **fields)
    after = client.call("UpdateTopic", topic=update, update_mask=mask(path))
    assert after == client.call("GetTopic", topic=name)
    top = path.split(".")[0]
    assert getattr(after, top) == getattr(update, top)
    cleared = client.call("UpdateTopic", topic={"name": name}, update_mask=mask(top))
    assert getattr(cleared, top) != getattr(after, top)


@pytest.mark.parametrize("path", ["message_storage_policy", "message_storage_policy.allowed_persistence_regions"])
def test_a_storage_policy_without_regions_is_refused(client: Client, path: str) -> None:
    """pubsub.proto, MessageStoragePolicy: an empty list "is not a valid configuration"."""
    policy = {"allowed_persistence_regions": ["r"]}
    name = client.topic(message_storage_policy=policy)
    empty = m.Topic(name=name, message_storage_policy={"enforce_in_transit": True})
    code, text = client.refused("UpdateTopic", topic=empty, update_mask=mask(path))
    assert (code, "message_storage_policy" in text) == ("INVALID_ARGUMENT", True)
    assert client.call("GetTopic", topic=name).message_storage_policy.allowed_persistence_regions == ["r"]


def test_a_wildcard_is_no_path_of_a_topic(client: Client) -> None:
    code, text = client.refused("UpdateTopic", topic={"name": client.topic()}, update_mask=mask("*"))
    assert code == "INVALID_ARGUMENT"
    assert text == (
        "Invalid update_mask provided in the UpdateTopicRequest: * is not a known Topic field. Note that field paths "
        "must be of the form 'schema_settings' rather than 'schemaSetings'."
    )


def test_lists_come_in_pages(client: Client) -> None:
    names = [f"projects/paged/topics/topic-{number:02}" for number in range(7)]
    for name in names:
        client.call("CreateTopic", name=name)
    seen, token = [], ""
    while True:
        page = client.call("ListTopics", project="projects/paged", page_size=3, page_token=token)
        assert len(page.topics) <= 3
        seen += [topic.name for topic in page.topics]
        token = page.next_page_token
        if not token:
            break
    assert seen == names


def test_a_topic_lists_its_subscriptions_and_snapshots(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic)
    snapshot = f"projects/test/snapshots/snapshot-{next(NUMBERS)}"
    client.call("CreateSnapshot", name=snapshot, subscription=subscription, labels={"a": "b"})
    assert list(client.call("ListTopicSubscriptions", topic=topic).subscriptions) == [subscription]
    assert list(client.call("ListTopicSnapshots", topic=topic).snapshots) == [snapshot]
    kept = client.call("GetSnapshot", snapshot=snapshot)
    assert (kept.topic, dict(kept.labels)) == (topic, {"a": "b"})
    changed = client.call(
        "UpdateSnapshot", snapshot={"name": snapshot, "labels": {"c": "d"}}, update_mask=mask("labels")
    )
    assert dict(changed.labels) == {"c": "d"}
    client.call("DeleteSnapshot", snapshot=snapshot)
    assert client.refused("GetSnapshot", snapshot=snapshot)[0] == "NOT_FOUND"


def test_a_snapshot_without_a_name_gets_one(client: Client) -> None:
    made = client.call("CreateSnapshot", subscription=client.subscription(client.topic()))
    assert made.name.startswith("projects/test/snapshots/s-")


def test_a_deleted_topic_leaves_its_subscriptions(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic)
    client.publish(topic, b"lost")
    client.call("DeleteTopic", topic=topic)
    left = client.call("GetSubscription", subscription=subscription)
    assert (left.topic, left.detached) == ("_deleted-topic_", False)
    assert client.pull(subscription) == []


def test_a_detached_subscription_stays_and_gives_nothing(client: Client) -> None:
    topic = client.topic()
    subscription = client.subscription(topic, labels={"kept": "1"})
    client.publish(topic, b"lost")
    client.call("DetachSubscription", subscription=subscription)
    left = client.call("GetSubscription", subscription=subscription)
    assert (left.topic, left.detached, dict(left.labels)) == (topic, True, {"kept": "1"})
    assert client.refused("Pull", subscription=subscription, max_messages=1)[0] == "FAILED_PRECONDITION"
    assert client.refused("Seek", subscription=subscription, time=m.Timestamp())[0] == "FAILED_PRECONDITION"
    assert list(client.call("ListTopicSubscriptions", topic=topic).subscriptions) == []


def test_policies_are_kept_with_the_resource_they_belong_to(client: Client) -> None:
    topic = client.topic()
    assert client.call("GetIamPolicy", resource=topic).etag == b"\x00 \x01"
    policy = {"bindings": [{"role": "roles/pubsub.viewer", "members": ["user:a@example.com"]}]}
    kept = client.call("SetIamPolicy", resource=topic, policy=policy)
    assert client.call("GetIamPolicy", resource=topic) == kept
    stale = m.Policy(etag=b"old", bindings=kept.bindings)
    assert client.refused("SetIamPolicy", resource=topic, policy=stale)[0] == "ABORTED"
    client.call("DeleteTopic", topic=topic)
    assert client.refused("GetIamPolicy", resource=topic)[0] == "NOT_FOUND"
    client.call("CreateTopic", name=topic)
    assert not client.call("GetIamPolicy", resource=topic).bindings


def test_permissions_of_existing_resources_are_granted(client: Client) -> None:
    topic, wanted = client.topic(), ["pubsub.topics.publish", "pubsub.topics.get"]
    assert list(client.call("TestIamPermissions", resource=topic, permissions=wanted).permissions) == wanted
    gone = client.call("TestIamPermissions", resource="projects/p/topics/missing", permissions=wanted)
    assert list(gone.permissions) == []
    assert client.refused("TestIamPermissions", resource=topic, permissions=["pubsub.*"])[0] == "INVALID_ARGUMENT"


def test_reset_forgets_everything(caplog: pytest.LogCaptureFixture) -> None:
    from tests.doors.google.harness import rest

    with opened() as harness, harness.connect() as client:
        client.subscription(client.topic())
        assert rest(harness.address, "POST", "/reset") == (200, b"Resetting...\n")
        assert not client.call("ListTopics", project="projects/test").topics
        assert not client.call("ListSubscriptions", project="projects/test").subscriptions
    assert [each for each in caplog.messages if "/reset" in each]


def test_a_reset_without_a_token_is_refused_as_every_call_is() -> None:
    from tests.doors.google.harness import rest

    with opened(GoogleOptions(reset=True, tokens=("secret",))) as harness:
        status, answer = rest(harness.address, "POST", "/reset")
        assert (status, answer["error"]["status"]) == (401, "UNAUTHENTICATED")
        assert harness.door.counts["UNAUTHENTICATED"] == 1


def test_all_tests_of_a_module_share_one_door(harness: Harness, client: Client) -> None:
    assert client.harness is harness

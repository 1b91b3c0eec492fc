"""The REST transports of the official libraries: every method of the three services, called with the generated code."""

from __future__ import annotations

import inspect
import json
from typing import Any

import pytest
from google.api_core import exceptions
from google.auth.credentials import AnonymousCredentials
from google.iam.v1 import iam_policy_pb2, policy_pb2
from google.protobuf import field_mask_pb2, timestamp_pb2
from google.pubsub_v1 import PublisherClient, SchemaServiceClient, SubscriberClient
from google.pubsub_v1.services.publisher.transports import PublisherRestTransport
from google.pubsub_v1.services.schema_service.transports import SchemaServiceRestTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberRestTransport
from google.pubsub_v1.types import Encoding, PushConfig, Schema, SchemaView, Snapshot, Subscription, Topic

from penstock.testing import Server

TOPIC, SUBSCRIPTION = "projects/rest/topics/one", "projects/rest/subscriptions/one"
SNAPSHOT, SCHEMA = "projects/rest/snapshots/one", "projects/rest/schemas/one"
AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]})
NOT_REST = {"streaming_pull"}


class Caller:
    """A REST client of one service that records the methods that it called."""

    def __init__(self, client: Any) -> None:
        self._client = client
        self.called: set[str] = set()

    def __getattr__(self, name: str) -> Any:
        self.called.add(name)
        return getattr(self._client, name)

    def missing(self) -> set[str]:
        transport = self._client.transport
        kinds = inspect.getmembers(type(transport), lambda each: isinstance(each, property))
        methods = {name for name, _ in kinds if not name.startswith("_") and name not in {"host", "kind"}}
        return methods - self.called - NOT_REST


def connected(kind: Any, transport: Any, address: str) -> Caller:
    return Caller(kind(transport=transport(host=address, credentials=AnonymousCredentials(), url_scheme="http")))


def test_every_method_of_the_publisher_and_the_subscriber(penstock: Server) -> None:
    publisher = connected(PublisherClient, PublisherRestTransport, penstock["pubsub"])
    subscriber = connected(SubscriberClient, SubscriberRestTransport, penstock["pubsub"])
    schemas = connected(SchemaServiceClient, SchemaServiceRestTransport, penstock["pubsub"])
    walk_topics(publisher)
    walk_subscriptions(subscriber, publisher)
    walk_snapshots(subscriber)
    assert [*publisher.list_topic_snapshots(topic=TOPIC)] == [SNAPSHOT]
    assert [*publisher.list_topic_subscriptions(topic=TOPIC)] == [SUBSCRIPTION]
    walk_schemas(schemas)
    for caller, resource in ((publisher, TOPIC), (subscriber, SUBSCRIPTION), (schemas, SCHEMA)):
        walk_policies(caller, resource)
    publisher.detach_subscription(request={"subscription": SUBSCRIPTION})
    subscriber.delete_snapshot(snapshot=SNAPSHOT)
    subscriber.delete_subscription(subscription=SUBSCRIPTION)
    schemas.delete_schema(name=SCHEMA)
    publisher.delete_topic(topic=TOPIC)
    with pytest.raises(exceptions.NotFound):
        publisher.get_topic(topic=TOPIC)
    assert [caller.missing() for caller in (publisher, subscriber, schemas)] == [set(), set(), set()]


def walk_topics(publisher: Caller) -> None:
    made = publisher.create_topic(request=Topic(name=TOPIC, message_retention_duration={"seconds": 3600}))
    assert (made.name, made.state) == (TOPIC, Topic.State.ACTIVE)
    mask = field_mask_pb2.FieldMask(paths=["labels", "message_retention_duration"])
    changed = publisher.update_topic(topic=Topic(name=TOPIC, labels={"a": "b"}), update_mask=mask)
    assert (dict(changed.labels), "message_retention_duration" in changed) == ({"a": "b"}, False)
    assert publisher.get_topic(topic=TOPIC).labels == {"a": "b"}
    assert [each.name for each in publisher.list_topics(project="projects/rest")] == [TOPIC]


def walk_subscriptions(subscriber: Caller, publisher: Caller) -> None:
    made = subscriber.create_subscription(name=SUBSCRIPTION, topic=TOPIC, ack_deadline_seconds=20)
    assert (made.ack_deadline_seconds, made.state) == (20, Subscription.State.ACTIVE)
    changed = subscriber.update_subscription(
        subscription=Subscription(name=SUBSCRIPTION, ack_deadline_seconds=30), update_mask="ackDeadlineSeconds"
    )
    assert changed.ack_deadline_seconds == 30
    assert subscriber.get_subscription(subscription=SUBSCRIPTION).topic == TOPIC
    assert [each.name for each in subscriber.list_subscriptions(project="projects/rest")] == [SUBSCRIPTION]
    subscriber.modify_push_config(subscription=SUBSCRIPTION, push_config=PushConfig())
    published = publisher.publish(topic=TOPIC, messages=[{"data": b"\x00x", "attributes": {"k": "v"}}])
    (received,) = subscriber.pull(subscription=SUBSCRIPTION, max_messages=5).received_messages
    assert (received.message.message_id, received.message.data) == (published.message_ids[0], b"\x00x")
    ids = [received.ack_id]
    subscriber.modify_ack_deadline(subscription=SUBSCRIPTION, ack_ids=ids, ack_deadline_seconds=60)
    subscriber.acknowledge(subscription=SUBSCRIPTION, ack_ids=ids)


def walk_snapshots(subscriber: Caller) -> None:
    assert subscriber.create_snapshot(name=SNAPSHOT, subscription=SUBSCRIPTION).topic == TOPIC
    changed = subscriber.update_snapshot(
        snapshot=Snapshot(name=SNAPSHOT, labels={"a": "b"}), update_mask=field_mask_pb2.FieldMask(paths=["labels"])
    )
    assert changed.labels == {"a": "b"}
    assert subscriber.get_snapshot(snapshot=SNAPSHOT).name == SNAPSHOT
    assert [each.name for each in subscriber.list_snapshots(project="projects/rest")] == [SNAPSHOT]
    subscriber.seek(request={"subscription": SUBSCRIPTION, "snapshot": SNAPSHOT})
    subscriber.seek(request={"subscription": SUBSCRIPTION, "time": timestamp_pb2.Timestamp(seconds=1)})


def walk_schemas(schemas: Caller) -> None:
    parent, schema = "projects/rest", Schema(type_=Schema.Type.AVRO, definition=AVRO)
    first = schemas.create_schema(parent=parent, schema=schema, schema_id="one")
    assert first.type_ is Schema.Type.AVRO
    second = schemas.commit_schema(name=SCHEMA, schema=Schema(name=SCHEMA, type_=Schema.Type.AVRO, definition=AVRO))
    assert schemas.get_schema(request={"name": SCHEMA, "view": SchemaView.FULL}).revision_id == second.revision_id
    assert [each.definition for each in schemas.list_schemas(request={"parent": parent, "view": SchemaView.BASIC})] == [
        ""
    ]
    third = schemas.rollback_schema(name=SCHEMA, revision_id=first.revision_id)
    assert len([*schemas.list_schema_revisions(name=SCHEMA)]) == 3
    schemas.delete_schema_revision(name=f"{SCHEMA}@{third.revision_id}")
    schemas.validate_schema(parent=parent, schema=schema)
    message = {"parent": parent, "name": SCHEMA, "message": b'{"a": "x"}', "encoding": Encoding.JSON}
    schemas.validate_message(request=message)
    with pytest.raises(exceptions.BadRequest):
        schemas.validate_message(request=message | {"message": b"{}"})


def walk_policies(caller: Caller, resource: str) -> None:
    policy = policy_pb2.Policy(bindings=[policy_pb2.Binding(role="roles/pubsub.viewer", members=["allUsers"])])
    caller.set_iam_policy(request=iam_policy_pb2.SetIamPolicyRequest(resource=resource, policy=policy))
    got = caller.get_iam_policy(request=iam_policy_pb2.GetIamPolicyRequest(resource=resource))
    assert got.bindings == policy.bindings
    asked = iam_policy_pb2.TestIamPermissionsRequest(resource=resource, permissions=["pubsub.topics.get"])
    assert caller.test_iam_permissions(request=asked).permissions == ["pubsub.topics.get"]

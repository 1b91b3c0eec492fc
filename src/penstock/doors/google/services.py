"""Every method of the door, by service and name: the one table behind gRPC, REST and reflection.

The rule kept here: a method that is not in this table does not exist, and what is in it exists on every transport.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.doors.google.calls import Method, Streaming, Unary
from penstock.doors.google.health import SERVICE as HEALTH
from penstock.doors.google.health import Health
from penstock.doors.google.messages import message
from penstock.doors.google.parts import Parts
from penstock.doors.google.reflection import SERVICES as REFLECTION
from penstock.doors.google.reflection import Reflection

PUBLISHER = "google.pubsub.v1.Publisher"
SUBSCRIBER = "google.pubsub.v1.Subscriber"
SCHEMAS = "google.pubsub.v1.SchemaService"
POLICIES = "google.iam.v1.IAMPolicy"

_EMPTY = "google.protobuf.Empty"


def methods(parts: Parts, is_serving: Callable[[], bool]) -> list[Method]:
    own = [*publisher(parts), *subscriber(parts), *schema_service(parts), *iam_policy(parts)]
    services = {method.service for method in own}
    return [*own, *health(Health(services, is_serving)), *reflection(own)]


def _method(service: str, name: str, request: str, response: str, unary: Unary, *, waits: bool = False) -> Method:
    return Method(service, name, _class(service, request), _class(service, response), unary, waits=waits)


def _class(service: str, name: str) -> Any:
    return message(name if "." in name else f"{service.rpartition('.')[0]}.{name}")


def publisher(parts: Parts) -> list[Method]:
    topics, subscriptions = parts.topics, parts.subscriptions
    rows: list[tuple[str, str, str, Unary]] = [
        ("CreateTopic", "Topic", "Topic", topics.create),
        ("UpdateTopic", "UpdateTopicRequest", "Topic", topics.update),
        ("Publish", "PublishRequest", "PublishResponse", parts.publishing.publish),
        ("GetTopic", "GetTopicRequest", "Topic", topics.get),
        ("ListTopics", "ListTopicsRequest", "ListTopicsResponse", topics.list),
        (
            "ListTopicSubscriptions",
            "ListTopicSubscriptionsRequest",
            "ListTopicSubscriptionsResponse",
            topics.list_subscriptions,
        ),
        ("ListTopicSnapshots", "ListTopicSnapshotsRequest", "ListTopicSnapshotsResponse", topics.list_snapshots),
        ("DeleteTopic", "DeleteTopicRequest", _EMPTY, topics.delete),
        ("DetachSubscription", "DetachSubscriptionRequest", "DetachSubscriptionResponse", subscriptions.detach),
    ]
    return [_method(PUBLISHER, *row) for row in rows]


def subscriber(parts: Parts) -> list[Method]:
    subscriptions, snapshots, pulling = parts.subscriptions, parts.snapshots, parts.pulling
    rows: list[tuple[str, str, str, Unary]] = [
        ("CreateSubscription", "Subscription", "Subscription", subscriptions.create),
        ("GetSubscription", "GetSubscriptionRequest", "Subscription", subscriptions.get),
        ("UpdateSubscription", "UpdateSubscriptionRequest", "Subscription", subscriptions.update),
        ("ListSubscriptions", "ListSubscriptionsRequest", "ListSubscriptionsResponse", subscriptions.list),
        ("DeleteSubscription", "DeleteSubscriptionRequest", _EMPTY, subscriptions.delete),
        ("ModifyAckDeadline", "ModifyAckDeadlineRequest", _EMPTY, pulling.modify_ack_deadline),
        ("Acknowledge", "AcknowledgeRequest", _EMPTY, pulling.acknowledge),
        ("ModifyPushConfig", "ModifyPushConfigRequest", _EMPTY, subscriptions.modify_push_config),
        ("GetSnapshot", "GetSnapshotRequest", "Snapshot", snapshots.get),
        ("ListSnapshots", "ListSnapshotsRequest", "ListSnapshotsResponse", snapshots.list),
        ("CreateSnapshot", "CreateSnapshotRequest", "Snapshot", snapshots.create),
        ("UpdateSnapshot", "UpdateSnapshotRequest", "Snapshot", snapshots.update),
        ("DeleteSnapshot", "DeleteSnapshotRequest", _EMPTY, snapshots.delete),
        ("Seek", "SeekRequest", "SeekResponse", snapshots.seek),
    ]
    pull = _method(SUBSCRIBER, "Pull", "PullRequest", "PullResponse", pulling.pull, waits=True)
    stream = _stream(SUBSCRIBER, "StreamingPull", parts.streaming.serve)
    return [*(_method(SUBSCRIBER, *row) for row in rows), pull, stream]


def schema_service(parts: Parts) -> list[Method]:
    schemas = parts.schemas
    revisions = "ListSchemaRevisions"
    rows: list[tuple[str, str, str, Unary]] = [
        ("CreateSchema", "CreateSchemaRequest", "Schema", schemas.create),
        ("GetSchema", "GetSchemaRequest", "Schema", schemas.get),
        ("ListSchemas", "ListSchemasRequest", "ListSchemasResponse", schemas.list),
        (revisions, f"{revisions}Request", f"{revisions}Response", schemas.list_revisions),
        ("CommitSchema", "CommitSchemaRequest", "Schema", schemas.commit),
        ("RollbackSchema", "RollbackSchemaRequest", "Schema", schemas.rollback),
        ("DeleteSchemaRevision", "DeleteSchemaRevisionRequest", "Schema", schemas.delete_revision),
        ("DeleteSchema", "DeleteSchemaRequest", _EMPTY, schemas.delete),
        ("ValidateSchema", "ValidateSchemaRequest", "ValidateSchemaResponse", schemas.validate),
        ("ValidateMessage", "ValidateMessageRequest", "ValidateMessageResponse", schemas.validate_message),
    ]
    return [_method(SCHEMAS, *row) for row in rows]


def iam_policy(parts: Parts) -> list[Method]:
    policies = parts.policies
    rows: list[tuple[str, str, str, Unary]] = [
        ("SetIamPolicy", "SetIamPolicyRequest", "Policy", policies.set),
        ("GetIamPolicy", "GetIamPolicyRequest", "Policy", policies.get),
        ("TestIamPermissions", "TestIamPermissionsRequest", "TestIamPermissionsResponse", policies.test),
    ]
    return [_method(POLICIES, *row) for row in rows]


def health(state: Health) -> list[Method]:
    request, response = (_class(HEALTH, f"HealthCheck{end}") for end in ("Request", "Response"))
    return [
        Method(HEALTH, "Check", request, response, state.check),
        Method(HEALTH, "Watch", request, response, streaming=state.watch, waits=True, answers_one=True),
    ]


def reflection(own: list[Method]) -> list[Method]:
    return [
        Method(
            service,
            "ServerReflectionInfo",
            _class(service, "ServerReflectionRequest"),
            _class(service, "ServerReflectionResponse"),
            streaming=Reflection(own).serve,
            waits=True,
        )
        for service in REFLECTION
    ]


def _stream(service: str, name: str, streaming: Streaming) -> Method:
    request, response = _class(service, f"{name}Request"), _class(service, f"{name}Response")
    return Method(service, name, request, response, streaming=streaming, waits=True)

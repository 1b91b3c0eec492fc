"""Every method of the door, by service and name: the one table behind gRPC, REST and reflection."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from penstock.doors.google.calls import Method, Streaming, Unary
from penstock.doors.google.flow_control import FlowControl
from penstock.doors.google.health import SERVICE as HEALTH
from penstock.doors.google.health import Health
from penstock.doors.google.messages import message
from penstock.doors.google.policies import Policies
from penstock.doors.google.publishing import Publishing
from penstock.doors.google.pulling import Pulling
from penstock.doors.google.reflection import SERVICES as REFLECTION
from penstock.doors.google.reflection import Reflection
from penstock.doors.google.schemas import Schemas
from penstock.doors.google.snapshots import Snapshots
from penstock.doors.google.streaming import StreamingPull
from penstock.doors.google.subscriptions import Subscriptions
from penstock.doors.google.topics import Topics
from penstock.doors.google.validation import Validation
from penstock.engine.async_queue import AsyncMessageQueue

PUBLISHER = "google.pubsub.v1.Publisher"
SUBSCRIBER = "google.pubsub.v1.Subscriber"
SCHEMAS = "google.pubsub.v1.SchemaService"
POLICIES = "google.iam.v1.IAMPolicy"

_EMPTY = "google.protobuf.Empty"


class Services:
    """The parts of this door that do the work, each handed what it needs."""

    def __init__(self, queue: AsyncMessageQueue, check_endpoint: Callable[[Any], None]) -> None:
        self.flow_control = FlowControl()
        self.schemas = Schemas(queue, queue.clock.now)
        self.topics = Topics(queue, self.schemas.check_settings)
        self.subscriptions = Subscriptions(queue, check_endpoint)
        self.snapshots = Snapshots(queue)
        self.policies = Policies(queue, self.schemas)
        self.publishing = Publishing(queue, Validation(self.schemas.revisions).validate)
        self.pulling = Pulling(queue)
        self.streaming = StreamingPull(queue, self.flow_control, self.pulling)


def methods(services: Services, is_serving: Callable[[], bool]) -> list[Method]:
    own = [*publisher(services), *subscriber(services), *schema_service(services), *iam_policy(services)]
    return [*own, *health(Health({method.service for method in own}, is_serving)), *reflection(own)]


def _method(service: str, name: str, request: str, response: str, unary: Unary, *, waits: bool = False) -> Method:
    return Method(service, name, _class(service, request), _class(service, response), unary, waits=waits)


def _class(service: str, name: str) -> Any:
    return message(name if "." in name else f"{service.rpartition('.')[0]}.{name}")


def publisher(services: Services) -> list[Method]:
    topics, subscriptions = services.topics, services.subscriptions
    rows: list[tuple[str, str, str, Unary]] = [
        ("CreateTopic", "Topic", "Topic", topics.create),
        ("UpdateTopic", "UpdateTopicRequest", "Topic", topics.update),
        ("Publish", "PublishRequest", "PublishResponse", services.publishing.publish),
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


def subscriber(services: Services) -> list[Method]:
    subscriptions, snapshots, pulling = services.subscriptions, services.snapshots, services.pulling
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
    stream = _stream(SUBSCRIBER, "StreamingPull", services.streaming.serve)
    return [*(_method(SUBSCRIBER, *row) for row in rows), pull, stream]


def schema_service(services: Services) -> list[Method]:
    schemas = services.schemas
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


def iam_policy(services: Services) -> list[Method]:
    policies = services.policies
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

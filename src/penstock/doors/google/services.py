"""The table of all methods, by service and name, for gRPC, REST and reflection."""

from __future__ import annotations

import logging
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from penstock.doors.consumers import Consumers
from penstock.doors.google.calls import Context, Method, Streaming, StreamingCall, Unary
from penstock.doors.google.destinations import KeptSettings
from penstock.doors.google.errors import CallError, Code
from penstock.doors.google.flow_control import FlowControl
from penstock.doors.google.messages import message
from penstock.doors.google.policies import Policies
from penstock.doors.google.publishing import Publishing
from penstock.doors.google.pulling import Pulling
from penstock.doors.google.reflection import SERVICES as REFLECTION
from penstock.doors.google.reflection import Reflection
from penstock.doors.google.schemas.service import Schemas
from penstock.doors.google.schemas.validation import Validation
from penstock.doors.google.snapshots import Snapshots
from penstock.doors.google.streaming import StreamingPull
from penstock.doors.google.subscriptions import Subscriptions
from penstock.doors.google.topics import Topics
from penstock.engine.port import Queue

PUBLISHER = "google.pubsub.v1.Publisher"
SUBSCRIBER = "google.pubsub.v1.Subscriber"
SCHEMAS = "google.pubsub.v1.SchemaService"
POLICIES = "google.iam.v1.IAMPolicy"
HEALTH = "grpc.health.v1.Health"

_EMPTY = "google.protobuf.Empty"
_SERVING, _NOT_SERVING, _SERVICE_UNKNOWN = 1, 2, 3
_Health = message("grpc.health.v1.HealthCheckResponse")


class Services:
    def __init__(self, queue: Queue, check_endpoint: Callable[[Any], None], log: logging.Logger) -> None:
        kept = KeptSettings(log)
        self.flow_control = FlowControl()
        self.schemas = Schemas(queue, queue.clock.now)
        self.topics = Topics(queue, self.schemas.check_settings, kept)
        self.subscriptions = Subscriptions(queue, check_endpoint, kept)
        self.snapshots = Snapshots(queue)
        self.policies = Policies(queue, self.schemas)
        self.publishing = Publishing(queue, Validation(self.schemas.revisions).validate)
        self.consumers = Consumers(queue.clock.now)
        self.pulling = Pulling(queue, self.consumers)
        self.streaming = StreamingPull(queue, self.flow_control, self.consumers)


class Health:
    """The gRPC health service: whether the server accepts calls."""

    def __init__(self, services: Collection[str], is_serving: Callable[[], bool]) -> None:
        self._services = services
        self._is_serving = is_serving

    async def check(self, request: Any, context: Context) -> Any:
        if request.service and request.service not in self._services:
            raise CallError(Code.NOT_FOUND, f"unknown service {request.service[:100]}")
        return _Health(status=_SERVING if self._is_serving() else _NOT_SERVING)

    async def watch(self, call: StreamingCall) -> None:
        """Send the current state. It only changes when the server stops, which ends the stream."""
        request = await call.next_request()
        is_known = request is not None and (not request.service or request.service in self._services)
        status = _SERVING if self._is_serving() else _NOT_SERVING
        await call.send(_Health(status=status if is_known else _SERVICE_UNKNOWN).SerializeToString())
        await call.closed()


def methods(services: Services, is_serving: Callable[[], bool]) -> list[Method]:
    own = [_method(service, *row) for service, rows in _rows(services).items() for row in rows]
    own += [
        _method(SUBSCRIBER, "Pull", "PullResponse", services.pulling.pull, waits=True),
        _stream(SUBSCRIBER, "StreamingPull", services.streaming.serve),
    ]
    state, reflection = Health({method.service for method in own}, is_serving), Reflection(own)
    check = _method(HEALTH, "Check", "HealthCheckResponse", state.check, "HealthCheckRequest")
    watch = replace(check, name="Watch", unary=None, streaming=state.watch, waits=True, answers_one=True)
    return [*own, check, watch, *(_stream(name, "ServerReflectionInfo", reflection.serve) for name in REFLECTION)]


def _method(service: str, name: str, response: str, unary: Unary, request: str = "", *, waits: bool = False) -> Method:
    kind = _class(service, request or f"{name}Request")
    return Method(service, name, kind, _class(service, response), unary, waits=waits)


def _stream(service: str, name: str, streaming: Streaming) -> Method:
    stem = name.removesuffix("Info")
    request, response = (_class(service, f"{stem}{end}") for end in ("Request", "Response"))
    return Method(service, name, request, response, streaming=streaming, waits=True)


def _class(service: str, name: str) -> Any:
    return message(name if "." in name else f"{service.rpartition('.')[0]}.{name}")


def _rows(services: Services) -> dict[str, list[tuple[str, str, Unary] | tuple[str, str, Unary, str]]]:
    """Return, by service: the method, its response, its implementation, and its request unless that is NameRequest."""
    topics, subscriptions, schemas = services.topics, services.subscriptions, services.schemas
    snapshots, pulling, policies = services.snapshots, services.pulling, services.policies
    return {
        PUBLISHER: [
            ("CreateTopic", "Topic", topics.create, "Topic"),
            ("UpdateTopic", "Topic", topics.update),
            ("Publish", "PublishResponse", services.publishing.publish),
            ("GetTopic", "Topic", topics.get),
            ("ListTopics", "ListTopicsResponse", topics.list),
            ("ListTopicSubscriptions", "ListTopicSubscriptionsResponse", topics.list_subscriptions),
            ("ListTopicSnapshots", "ListTopicSnapshotsResponse", topics.list_snapshots),
            ("DeleteTopic", _EMPTY, topics.delete),
            ("DetachSubscription", "DetachSubscriptionResponse", subscriptions.detach),
        ],
        SUBSCRIBER: [
            ("CreateSubscription", "Subscription", subscriptions.create, "Subscription"),
            ("GetSubscription", "Subscription", subscriptions.get),
            ("UpdateSubscription", "Subscription", subscriptions.update),
            ("ListSubscriptions", "ListSubscriptionsResponse", subscriptions.list),
            ("DeleteSubscription", _EMPTY, subscriptions.delete),
            ("ModifyAckDeadline", _EMPTY, pulling.modify_ack_deadline),
            ("Acknowledge", _EMPTY, pulling.acknowledge),
            ("ModifyPushConfig", _EMPTY, subscriptions.modify_push_config),
            ("GetSnapshot", "Snapshot", snapshots.get),
            ("ListSnapshots", "ListSnapshotsResponse", snapshots.list),
            ("CreateSnapshot", "Snapshot", snapshots.create),
            ("UpdateSnapshot", "Snapshot", snapshots.update),
            ("DeleteSnapshot", _EMPTY, snapshots.delete),
            ("Seek", "SeekResponse", snapshots.seek),
        ],
        SCHEMAS: [
            ("CreateSchema", "Schema", schemas.create),
            ("GetSchema", "Schema", schemas.get),
            ("ListSchemas", "ListSchemasResponse", schemas.list),
            ("ListSchemaRevisions", "ListSchemaRevisionsResponse", schemas.list_revisions),
            ("CommitSchema", "Schema", schemas.commit),
            ("RollbackSchema", "Schema", schemas.rollback),
            ("DeleteSchemaRevision", "Schema", schemas.delete_revision),
            ("DeleteSchema", _EMPTY, schemas.delete),
            ("ValidateSchema", "ValidateSchemaResponse", schemas.validate),
            ("ValidateMessage", "ValidateMessageResponse", schemas.validate_message),
        ],
        POLICIES: [
            ("SetIamPolicy", "Policy", policies.set),
            ("GetIamPolicy", "Policy", policies.get),
            ("TestIamPermissions", "TestIamPermissionsResponse", policies.test),
        ],
    }

"""The message types of the API, from descriptors in the file `messages.binpb`.

The pool is private, so that a program can use this door and the official client together.
`tests/doors/google/descriptors.py` writes the descriptors.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from google.protobuf import (
    any_pb2,
    descriptor_pb2,
    descriptor_pool,
    duration_pb2,
    empty_pb2,
    field_mask_pb2,
    message_factory,
    struct_pb2,
    timestamp_pb2,
)

WELL_KNOWN = (any_pb2, duration_pb2, empty_pb2, field_mask_pb2, struct_pb2, timestamp_pb2)
BUNDLE = Path(__file__).with_name("messages.binpb")


def well_known_pool() -> Any:
    """Return a new pool with the well-known types."""
    pool = descriptor_pool.DescriptorPool()
    for module in WELL_KNOWN:
        pool.AddSerializedFile(module.DESCRIPTOR.serialized_pb)
    return pool


POOL = well_known_pool()
for _file in descriptor_pb2.FileDescriptorSet.FromString(BUNDLE.read_bytes()).file:
    POOL.Add(_file)


def message(name: str) -> Any:
    """Return the class of a message, by its full name."""
    return message_factory.GetMessageClass(POOL.FindMessageTypeByName(name))


def _pubsub(name: str) -> Any:
    return message(f"google.pubsub.v1.{name}")


Empty = message("google.protobuf.Empty")
Timestamp = message("google.protobuf.Timestamp")
Duration = message("google.protobuf.Duration")
Any_ = message("google.protobuf.Any")

Topic = _pubsub("Topic")
Subscription = _pubsub("Subscription")
Snapshot = _pubsub("Snapshot")
Schema = _pubsub("Schema")
PubsubMessage = _pubsub("PubsubMessage")

PublishRequest = _pubsub("PublishRequest")
PublishResponse = _pubsub("PublishResponse")
PullResponse = _pubsub("PullResponse")
StreamingPullRequest = _pubsub("StreamingPullRequest")
StreamingPullResponse = _pubsub("StreamingPullResponse")
SchemaSettings = _pubsub("SchemaSettings")
PushConfig = _pubsub("PushConfig")

Policy = message("google.iam.v1.Policy")
TestIamPermissionsResponse = message("google.iam.v1.TestIamPermissionsResponse")

Status = message("google.rpc.Status")
ErrorInfo = message("google.rpc.ErrorInfo")


def response(name: str) -> Any:
    """Return a class of `google.pubsub.v1` that only one method needs."""
    return _pubsub(name)

"""Generator of src/penstock/doors/google/messages.binpb: run `python -m tests.doors.google.descriptors`.

The file holds the message types of the protocol as one FileDescriptorSet. They come from the official client's
packages, so that the server itself needs only protobuf. Types are copied, and only two things are changed: the file
names (proto-plus calls the file google/pubsub_v1/types/pubsub.proto), and the spelling of one field.
"""

from __future__ import annotations

from pathlib import Path

from google.iam.v1 import iam_policy_pb2, options_pb2, policy_pb2
from google.protobuf import descriptor_pb2
from google.pubsub_v1 import types
from google.rpc import error_details_pb2, status_pb2
from google.type import expr_pb2
from grpc_health.v1 import health_pb2
from grpc_reflection.v1alpha import reflection_pb2

PATH = Path(__file__).parents[3] / "src/penstock/doors/google/messages.binpb"

RENAMED = {
    "google/pubsub_v1/types/pubsub.proto": "google/pubsub/v1/pubsub.proto",
    "google/pubsub_v1/types/schema.proto": "google/pubsub/v1/schema.proto",
}


def descriptor_set() -> bytes:
    """Return every file, each after its dependencies."""
    generated = [expr_pb2, options_pb2, policy_pb2, iam_policy_pb2, status_pb2, error_details_pb2, health_pb2]
    files = [types.Schema.pb().DESCRIPTOR.file, types.Topic.pb().DESCRIPTOR.file]
    files += [module.DESCRIPTOR for module in [*generated, reflection_pb2]]
    bundle = descriptor_pb2.FileDescriptorSet(file=[_plain(file) for file in files])
    bundle.file.append(_reflection_v1(bundle.file[-1]))
    return bundle.SerializeToString(deterministic=True)


def _plain(file) -> descriptor_pb2.FileDescriptorProto:
    plain = descriptor_pb2.FileDescriptorProto.FromString(file.serialized_pb)
    plain.name = RENAMED.get(plain.name, plain.name)
    needed = [RENAMED.get(name, name) for name in plain.dependency if not name.startswith("google/api/")]
    plain.ClearField("dependency")
    plain.ClearField("service")
    plain.ClearField("options")
    plain.dependency.extend(needed)
    for message in plain.message_type:
        _strip(message)
    return plain


def _strip(message: descriptor_pb2.DescriptorProto) -> None:
    for field in message.field:
        field.ClearField("options")  # annotations of Google's tools
        if field.name == "type_":
            field.name = "type"  # proto-plus avoids a keyword of Python; names are not sent
    if not message.options.map_entry:
        message.ClearField("options")
    for nested in message.nested_type:
        _strip(nested)


def _reflection_v1(alpha: descriptor_pb2.FileDescriptorProto) -> descriptor_pb2.FileDescriptorProto:
    text = alpha.SerializeToString().replace(b"v1alpha", b"v1alph_")  # of equal length, so that the framing stays valid
    file = descriptor_pb2.FileDescriptorProto.FromString(text)
    file.name, file.package = "grpc/reflection/v1/reflection.proto", "grpc.reflection.v1"
    for message in file.message_type:
        for field in message.field:
            if field.type_name:
                field.type_name = field.type_name.replace("v1alph_", "v1")
    return file


if __name__ == "__main__":
    PATH.write_bytes(descriptor_set())

"""REST bodies with values of the wrong JSON type in every field: no server error, and no text of a Python error."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from penstock.doors.google.messages import message
from tests.doors.google.harness import Harness, rest

TOPIC, SUBSCRIPTION = "projects/types/topics/topic", "projects/types/subscriptions/subscription"
VALUES = [0, 1.5, 10**30, True, None, "", "x", "1e9s", [], [1], [None], [[]], {}, {"a": 1}, {"a": None}, {"@type": "x"}]
PYTHON = (
    "expected str",
    "bytes-like",
    "NoneType",
    "'int'",
    "'str'",
    "'list'",
    "'dict'",
    "argument must",
    "codec",
    "()",
)
DEPTH = 2

BODIES = [
    ("PUT", "projects/types/topics/another", "Topic"),
    ("PUT", "projects/types/subscriptions/another", "Subscription"),
    ("PUT", "projects/types/snapshots/another", "CreateSnapshotRequest"),
    ("PATCH", TOPIC, "UpdateTopicRequest"),
    ("PATCH", SUBSCRIPTION, "UpdateSubscriptionRequest"),
    ("POST", f"{TOPIC}:publish", "PublishRequest"),
    ("POST", f"{SUBSCRIPTION}:acknowledge", "AcknowledgeRequest"),
    ("POST", f"{SUBSCRIPTION}:modifyAckDeadline", "ModifyAckDeadlineRequest"),
    ("POST", f"{SUBSCRIPTION}:modifyPushConfig", "ModifyPushConfigRequest"),
    ("POST", f"{SUBSCRIPTION}:seek", "SeekRequest"),
    ("POST", "projects/types/schemas", "Schema"),
    ("POST", "projects/types/schemas:validate", "ValidateSchemaRequest"),
    ("POST", "projects/types/schemas:validateMessage", "ValidateMessageRequest"),
    ("POST", f"{TOPIC}:setIamPolicy", "google.iam.v1.SetIamPolicyRequest"),
    ("POST", f"{TOPIC}:testIamPermissions", "google.iam.v1.TestIamPermissionsRequest"),
]


@pytest.fixture(scope="module", autouse=True)
def _resources(harness: Harness) -> None:
    assert rest(harness.address, "PUT", f"/v1/{TOPIC}", {})[0] == 200
    assert rest(harness.address, "PUT", f"/v1/{SUBSCRIPTION}", {"topic": TOPIC})[0] == 200


def bodies(descriptor: Any, depth: int = DEPTH) -> Iterator[Any]:
    """Yield objects that have one value of any type in one field, down to the fields of their messages."""
    yield from VALUES
    for field in descriptor.fields if depth else ():
        kind, name = field.message_type, field.camelcase_name
        is_map = kind is not None and kind.GetOptions().map_entry
        parts = VALUES if kind is None or is_map or kind.full_name.startswith("google.protobuf.") else None
        for part in bodies(kind, depth - 1) if parts is None else parts:
            yield {name: part}
            if field.is_repeated:
                yield {name: {"key": part} if is_map else [part]}


@pytest.mark.parametrize(("verb", "path", "kind"), BODIES)
def test_a_value_of_any_type_in_any_field(harness: Harness, verb: str, path: str, kind: str) -> None:
    descriptor = message(kind if "." in kind else f"google.pubsub.v1.{kind}").DESCRIPTOR
    for body in bodies(descriptor):
        content = json.dumps(body).encode()
        status, answer = rest(harness.address, verb, f"/v1/{path}", content, content_type="application/json")
        assert status < 500, (content, answer)
        said = answer["error"]["message"] if status >= 400 else ""
        assert not [words for words in PYTHON if words in said], (content, said)

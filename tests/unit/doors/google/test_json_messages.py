"""JSON checked against descriptors: errors name the field and have no text of Python."""

from __future__ import annotations

import re
from typing import Any

import pytest
from google.protobuf import json_format
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.google.errors import CallError
from penstock.doors.google.json_messages import check_fields, parse_message
from penstock.doors.google.messages import POOL, Schema, Subscription, Topic, message

KINDS = [Topic, Subscription, Schema, message("google.pubsub.v1.PublishRequest")]
PYTHON = re.compile(
    r"object of|not iterable|bytes-like|NoneType|\\'(int|str|dict|list)\\'|literal|codec|recursion|argument"
)
SCALARS = (
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8) | st.sampled_from(["5s", "AVRO"])
)


def values(descriptor: Any, depth: int = 0) -> st.SearchStrategy[Any]:
    """Return objects with fields of a message, whose values may be of any kind."""
    fields = {}
    for field in descriptor.fields:
        value = SCALARS | st.lists(SCALARS, max_size=2) | st.dictionaries(st.text(max_size=3), SCALARS, max_size=2)
        if field.message_type is not None and depth < 2:
            inner = values(field.message_type, depth + 1)
            value = value | (st.lists(inner, max_size=2) if field.is_repeated else inner)
        fields[field.name] = fields[field.camelcase_name] = value
    return st.fixed_dictionaries({}, optional=fields)


@pytest.mark.parametrize("kind", KINDS, ids=lambda kind: kind.DESCRIPTOR.name)
@given(data=st.data())
def test_any_json_is_a_message_or_refused_in_plain_words(kind: Any, data: st.DataObject) -> None:
    fields = data.draw(values(kind.DESCRIPTOR))
    refusal = ""
    try:
        check_fields(fields, kind.DESCRIPTOR)
    except CallError as error:
        refusal = error.message
    assert not PYTHON.search(refusal)
    if not refusal:
        # the check refuses every value that cannot be parsed
        json_format.ParseDict(fields, kind(), descriptor_pool=POOL)


@given(st.binary(max_size=40))
def test_all_bytes_come_back_from_their_json(data: bytes) -> None:
    shown = json_format.MessageToDict(KINDS[3](messages=[{"data": data}]), descriptor_pool=POOL)
    assert parse_message(shown, KINDS[3]).messages[0].data == data


@pytest.mark.parametrize(
    ("kind", "fields", "text"),
    [
        (Subscription, {"pushConfig": {"pubsubWrapper": {}, "noWrapper": {}}}, "oneof field 'wrapper' is already set"),
        (
            Topic,
            {"schemaSettings": []},
            "Invalid value at 'schema_settings' (type.googleapis.com/google.pubsub.v1.Schem",
        ),
        (
            Topic,
            {"schemaSettings": {"encoding": "X"}},
            "Invalid value at 'schema_settings.encoding' (TYPE_ENUM), \"X\"",
        ),
        (
            Topic,
            {"messageRetentionDuration": "5"},
            "'message_retention_duration' (type.googleapis.com/google.protobuf.D",
        ),
        (Subscription, {"ackDeadlineSeconds": 1 << 40}, "'ack_deadline_seconds' (TYPE_INT32), 1099511627776"),
        (Topic, {"name": "\ud800"}, "Invalid value at 'name' (TYPE_STRING)"),
        (Topic, [], "Invalid value (type.googleapis.com/google.pubsub.v1.Topic), a list"),
    ],
)
def test_an_error_names_the_field(kind: Any, fields: Any, text: str) -> None:
    with pytest.raises(CallError) as caught:
        parse_message(fields, kind)
    assert text in caught.value.message

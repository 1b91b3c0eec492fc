"""Generated requests: with any values in the fields, the answer is OK or an error of the caller."""

from __future__ import annotations

import base64
import binascii
import random
from collections.abc import Callable
from typing import Any

import grpc

from tests.doors.google.harness import Client, rest

OURS = {"UNKNOWN", "INTERNAL", "DATA_LOSS", "UNAVAILABLE", "DEADLINE_EXCEEDED"}
TOPIC, SUBSCRIPTION = "projects/fuzz/topics/known", "projects/fuzz/subscriptions/known"
SNAPSHOT = "projects/fuzz/snapshots/known"
NAMES = [
    "",
    "x",
    "projects/fuzz",
    TOPIC,
    SUBSCRIPTION,
    SNAPSHOT,
    "projects/fuzz/schemas/known",
    "projects/fuzz/schemas/known@12345678",
    "projects/fuzz/topics/missing",
    "projects//topics/",
    "_deleted-topic_",
    "1-1-1",
    "-1--1--1",
    "ü\x00\n",
    "attributes.a",
    "https://push.invalid/",
    '{"type": "record", "name": "R", "fields": []}',
    "*",
    "labels",
    "push_config.push_endpoint",
    "x" * 2000,
]
DEFINITIONS = {
    "AVRO": [
        '{"type": "record", "name": "R", "fields": [{"name": "n", "type": ["null", "R"]}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "n", "type": "R"}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "n", "type": {"type": "array", "items": "R"}}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "n", "type": {"type": "map", "values": ["R", "int"]}}]}',
        '{"type": "record", "name": "R", "fields": [{"name": "n", "type": '
        + '{"type": "array", "items": ' * 330
        + '"int"'
        + "}" * 332,
    ],
    "PROTOCOL_BUFFER": [
        'syntax = "proto3"; message R { R n = 1; repeated R m = 2; }',
        'syntax = "proto3"; message R { map<string, R> n = 1; }',
        "message R { required R n = 1; }",
    ],
}
UNITS = [b"\x02", b"\x01\x02", b"\x02\x02n", b"\x0a\x04", b"\x0b", b'{"n":', b'{"n":{"R":', b"[", b'{"n":[']
NUMBERS_TRIED = [0, 1, -1, 2, 10, 600, 601, 2**31 - 1, -(2**31)]


def fill(message: Any, source: random.Random, depth: int = 0) -> Any:
    """Set some of the fields, nested ones less often."""
    for field in message.DESCRIPTOR.fields:
        if source.random() < 0.35 + depth * 0.12:
            continue
        if field.is_repeated:
            _fill_repeated(message, field, source, depth)
        elif field.message_type is not None:
            getattr(message, field.name).SetInParent()
            fill(getattr(message, field.name), source, depth + 1)
        else:
            setattr(message, field.name, _value(field, source))
    return message


def _fill_repeated(message: Any, field: Any, source: random.Random, depth: int) -> None:
    target = getattr(message, field.name)
    if field.message_type is not None and field.message_type.GetOptions().map_entry:
        if field.message_type.fields_by_name["value"].message_type is None:
            target[source.choice(NAMES)] = source.choice(NAMES)
    elif field.message_type is not None:
        for _ in range(source.randrange(3)):
            fill(target.add(), source, depth + 1)
    else:
        target.extend(_value(field, source) for _ in range(source.randrange(3)))


def _value(field: Any, source: random.Random) -> Any:
    kind = field.type
    if kind == field.TYPE_BOOL:
        return source.random() < 0.5
    if kind == field.TYPE_BYTES:
        return source.randbytes(source.randrange(40))
    if kind == field.TYPE_STRING:
        return source.choice(NAMES)
    if kind == field.TYPE_ENUM:
        return source.randrange(6)
    if kind in (field.TYPE_DOUBLE, field.TYPE_FLOAT):
        return source.random()
    if kind in (field.TYPE_INT64, field.TYPE_SINT64):
        return source.choice([*NUMBERS_TRIED, 2**63 - 1, -(2**63)])
    return source.choice(NUMBERS_TRIED)


def prepare(client: Client) -> None:
    made: list[tuple[str, dict[str, Any]]] = [
        ("CreateTopic", {"name": "projects/fuzz/topics/known"}),
        ("CreateSubscription", {"name": "projects/fuzz/subscriptions/known", "topic": "projects/fuzz/topics/known"}),
        (
            "CreateSnapshot",
            {"name": "projects/fuzz/snapshots/known", "subscription": "projects/fuzz/subscriptions/known"},
        ),
    ]
    for name, fields in made:
        try:
            client.call(name, **fields)
        except grpc.RpcError:
            continue  # it exists already, or an earlier request deleted what it needs


def test_no_request_causes_an_internal_or_unknown_error(client: Client, rounds: Callable[[int, int], int]) -> None:
    source = random.Random(20261115)
    methods = [
        method
        for method in client.harness.kinds.values()
        if method.service.startswith("google.") and method.name not in ("StreamingPull", "Pull")
    ]
    for _ in range(rounds(40, 4000)):
        prepare(client)
        for method in methods:
            request = fill(method.request(), source)
            code, text = outcome(client, method.name, request)
            assert code not in OURS, (code, text, method.name, str(request))


def test_recursive_schemas_and_repetitive_bodies(client: Client, rounds: Callable[[int, int], int]) -> None:
    """The depth of a recursive type depends on the bytes of the message, so repetitive bytes are tried."""
    source = random.Random(20261118)
    method = next(method for method in client.harness.kinds.values() if method.name == "ValidateMessage")
    for _ in range(rounds(150, 20_000)):
        request = method.request(parent="projects/fuzz", encoding=source.choice(["JSON", "BINARY"]))
        kind = source.choice(list(DEFINITIONS))
        request.schema.type = kind
        request.schema.definition = source.choice(DEFINITIONS[kind])
        units = source.choices(UNITS, k=source.choice([1, 1, 2, 3]))
        request.message = b"".join(units) * source.choice([1, 3, 99, 101, 500, 4_000, 100_000]) + source.randbytes(2)
        code, text = outcome(client, method.name, request)
        assert code in ("OK", "INVALID_ARGUMENT"), (code, text, units, request.schema.definition[:100])


def outcome(client: Client, name: str, request: Any) -> tuple[str, str]:
    try:
        client.call(name, request)
    except grpc.RpcError as error:
        return error.code().name, error.details()
    return "OK", ""


def decoded(text: str) -> bytes | None:
    """Return the decoded base64 text, in either alphabet and with or without padding. None if it is invalid."""
    if "=" not in text:
        text += "=" * (-len(text) % 4)
    if len(text) % 4 or text.count("=") > 2:  # Python's decoder ignores padding that is too long
        return None
    try:
        return base64.b64decode(text.replace("-", "+").replace("_", "/").encode("ascii"), validate=True)
    except (binascii.Error, UnicodeEncodeError):
        return None


def test_rest_stores_the_bytes_of_valid_base64_and_refuses_any_other_text(
    client: Client, rounds: Callable[[int, int], int]
) -> None:
    source = random.Random(20261118)
    topic = client.topic()
    subscription = client.subscription(topic)
    texts = ["hello world!", '{"a": 1}', "aGVsbG8gd29ybGQh", "_-8", "/+8=", "YQ=", "a", "====", "YQ==YQ==", "YWFh\n"]
    for alphabet in ("abYZ09+/", "abYZ09-_=", "abc =!\n{}é\x00"):
        texts += ["".join(source.choices(alphabet, k=source.randrange(1, 9))) for _ in range(rounds(60, 2000))]
    wanted = []
    for text in texts:
        body = {"messages": [{"data": text, "attributes": {"text": text}}]}
        status, answer = rest(client.harness.address, "POST", f"/v1/{topic}:publish", body)
        assert (status == 200) == (decoded(text) is not None), (text, status, answer)
        wanted += [(decoded(text), text)] if status == 200 else []
    received: list[Any] = []
    while len(received) < len(wanted):
        received += client.pull(subscription, 1000)
    stored = [(each.message.data, each.message.attributes["text"]) for each in received]
    assert sorted(stored) == sorted(wanted)

"""Data nested up to a million levels, given to every decoder of a real server: each answers with a refusal of its own
protocol, and the server lives on."""

from __future__ import annotations

import base64
import http.client
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import quote

import grpc
import pyarrow as pa
import pyarrow.flight as flight
import pytest
from google.protobuf import json_format

from penstock.admin.client import Client as AdminClient
from penstock.doors.google.messages import response as message
from penstock.doors.google.rest import BODY_BYTES_MAX
from penstock.text.blocking import Client as TextClient
from tests.acceptance.command_line import CommandLine
from tests.doors.azure.signing import ACCOUNT, account_sas
from tests.server_process import SECONDS, ServerProcess

DEPTHS = (500, 4_000, 1_000_000)
NODE = {"type": "record", "name": "N", "fields": [{"name": "n", "type": ["null", "N"]}]}
TREE = 'syntax = "proto3"; message M { M n = 1; }'
BOX = {"type": "record", "name": "B", "fields": [{"name": "n", "type": {"type": "map", "values": "int"}}]}
AVRO, PROTO = ("AVRO", json.dumps(NODE)), ("PROTOCOL_BUFFER", TREE)
TOO_DEEP = "The message is nested deeper than 100 levels."
URL_LEVELS_MAX = 20_000  # more does not fit into a request line


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(
        tmp_path_factory.mktemp("nesting"), "--memory", "--default-project", "demo", "--log-requests"
    ) as server:
        schemas = [
            {"name": name, "type": kind, "definition": text} for name, (kind, text) in (("avro", AVRO), ("tree", PROTO))
        ]
        topics: list[dict[str, Any]] = [
            {
                "name": f"{schema}-{encoding}".lower(),
                "pubsub": {"schema_settings": {"schema": schema, "encoding": encoding}},
            }
            for schema in ("avro", "tree")
            for encoding in ("BINARY", "JSON")
        ]
        with AdminClient(server.addresses["http"]) as client:
            client.post("/topology", {"schemas": schemas, "topics": [*topics, {"name": "plain"}]})
        yield server


@pytest.fixture(autouse=True)
def _alive(server: ServerProcess) -> Iterator[None]:
    """Check after every test that the same process still answers, and has logged no error."""
    before = len(server.log())
    yield
    assert server.process.poll() is None, server.log()
    with AdminClient(server.addresses["http"]) as client:
        assert client.get("/topics/plain")["name"]
    assert not any(word in server.log()[before:] for word in ("Traceback", " ERROR "))


def request(
    address: str, method: str, path: str, body: bytes = b"", headers: dict[str, str] | None = None
) -> tuple[int, bytes]:
    connection = http.client.HTTPConnection(address, timeout=SECONDS)
    try:
        connection.request(method, path, body, headers or {"content-type": "application/json"})
        answer = connection.getresponse()
        return answer.status, answer.read()
    finally:
        connection.close()


def objects(levels: int) -> bytes:
    return b'{"n":' * levels + b"null" + b"}" * levels


def tree(levels: int) -> bytes:
    """Return nested protobuf messages."""
    parts, size = [], 0
    for _ in range(levels):
        part = b"\x0a" + varint(size)
        size += len(part)
        parts.append(part)
    return b"".join(reversed(parts))


def varint(number: int) -> bytes:
    parts = bytearray()
    while number > 0x7F:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*parts, number])


def bodies(levels: int) -> list[tuple[tuple[str, str], str, bytes]]:
    """Return schema, encoding and a body, for every decoder of message bodies."""
    return [
        (AVRO, "BINARY", b"\x02" * levels + b"\x00"),
        (AVRO, "JSON", objects(levels)),
        (AVRO, "JSON", b"[" * levels),
        (("AVRO", json.dumps(BOX)), "JSON", b'{"n":' + objects(levels) + b"}"),
        (PROTO, "BINARY", tree(levels)),
        (PROTO, "BINARY", b"\x7b" * levels + b"\x7c" * levels),  # groups in an unknown field
        (PROTO, "JSON", objects(levels)),
        (PROTO, "JSON", b'{"x":' + b"[" * levels + b"]" * levels + b"}"),
    ]


def refused_rest(server: ServerProcess, method: str, path: str, body: bytes) -> None:
    status, content = request(server.addresses["pubsub"], method, path, body)
    error = json.loads(content)["error"]
    if len(body) > BODY_BYTES_MAX:
        assert (status, error["status"]) == (413, "RESOURCE_EXHAUSTED")
        return
    assert (status, error["status"]) == (400, "INVALID_ARGUMENT"), (path, body[:100], content[:500])
    assert "recursion" not in error["message"].lower()


def grpc_code(server: ServerProcess, path: str, body: bytes) -> str:
    with grpc.insecure_channel(server.addresses["pubsub"]) as channel:
        call = channel.unary_unary(path)
        try:
            call(body, timeout=SECONDS)
        except grpc.RpcError as error:
            return str(error.code().name)
    return "OK"


@pytest.mark.parametrize("levels", DEPTHS)
def test_message_bodies_to_validate(server: ServerProcess, levels: int) -> None:
    for (kind, definition), encoding, body in bodies(levels):
        fields = {"schema": {"type": kind, "definition": definition}, "encoding": encoding}
        call = json_format.ParseDict({"parent": "projects/demo", **fields}, message("ValidateMessageRequest")())
        call.message = body
        path = "/google.pubsub.v1.SchemaService/ValidateMessage"
        assert grpc_code(server, path, call.SerializeToString()) == "INVALID_ARGUMENT", (encoding, body[:20])
        fields["message"] = base64.b64encode(body).decode()
        refused_rest(server, "POST", "/v1/projects/demo/schemas:validateMessage", json.dumps(fields).encode())


@pytest.mark.parametrize("levels", DEPTHS)
def test_bodies_that_a_text_client_stored_are_shown_with_the_reason(server: ServerProcess, levels: int) -> None:
    stored = {"avro-binary": 0, "avro-json": 1, "tree-binary": 4, "tree-json": 6}
    with TextClient(server.addresses["text"]) as text, AdminClient(server.addresses["http"]) as admin:
        for topic, index in stored.items():
            text.send(topic, bodies(levels)[index][2])
            query = {"from": -1, "decode": "true", "body_bytes": 10}
            (shown,) = admin.get(f"/topics/{topic}/messages", **query)["messages"]
            assert shown["decoded"]["text"] is None
            assert shown["decoded"]["problem"] == TOO_DEEP


def test_the_deepest_bodies_that_are_accepted_are_shown(server: ServerProcess) -> None:
    chain: Any = None
    for _ in range(99):
        chain = {"n": {"N": chain} if chain else None}
    deepest = {
        "avro-binary": b"\x02" * 99 + b"\x00",
        "avro-json": json.dumps(chain).encode(),
        "tree-binary": tree(100),
        "tree-json": objects(100),
    }
    with AdminClient(server.addresses["http"]) as admin:
        for topic, body in deepest.items():
            content = {"messages": [{"data": base64.b64encode(body).decode()}]}
            path = f"/v1/projects/demo/topics/{topic}:publish"
            status, answer = request(server.addresses["pubsub"], "POST", path, json.dumps(content).encode())
            assert status == 200, (topic, answer)
            query = {"from": -1, "decode": "true", "body_bytes": 10}
            (shown,) = admin.get(f"/topics/{topic}/messages", **query)["messages"]
            assert shown["decoded"]["problem"] == "", topic
            assert shown["decoded"]["text"].count('"n"') >= 99


@pytest.mark.parametrize("levels", [100_000, 1_000_000])
@pytest.mark.parametrize(("suffix", "before", "after"), [("toml", "[", "]"), ("toml", "{a=", "}"), ("json", "[", "]")])
def test_seed_files(server: ServerProcess, tmp_path: Path, suffix: str, before: str, after: str, levels: int) -> None:
    file, nested = tmp_path / f"seed.{suffix}", before * levels + "1" + after * levels
    file.write_text(f"topics = {nested}" if suffix == "toml" else f'{{"topics": {nested}}}')
    said = CommandLine(server, tmp_path).refused("seed", str(file), code=2)
    assert f"{file}: not valid {suffix.upper()}: values are nested too deeply" in said


@pytest.mark.parametrize("levels", DEPTHS)
def test_requests_of_the_pubsub_api(server: ServerProcess, levels: int) -> None:
    nested = objects(levels)
    for method, path, body in [
        ("POST", "/v1/projects/demo/topics/plain:publish", b'{"messages":[{"attributes":' + nested + b"}]}"),
        ("POST", "/v1/projects/demo/topics/plain:publish", b'{"messages":' + b"[" * levels + b"]" * levels + b"}"),
        ("PUT", "/v1/projects/demo/topics/nested", nested),
        ("PUT", "/v1/projects/demo/topics/nested", b"[" * levels),
    ]:
        refused_rest(server, method, path, body)
    groups = b"\x7b" * levels + b"\x7c" * levels
    assert grpc_code(server, "/google.pubsub.v1.Publisher/Publish", groups) not in ("UNKNOWN", "UNAVAILABLE", "OK")


@pytest.mark.parametrize("levels", [330, *DEPTHS])
def test_definitions_of_schemas(server: ServerProcess, levels: int) -> None:
    array = '{"type":"array","items":' * levels + '"int"' + "}" * levels
    definitions = [
        ("AVRO", '{"type":"record","name":"R","fields":[{"name":"a","type":' + array + "}]}"),
        ("AVRO", "[" * levels),
        ("PROTOCOL_BUFFER", "message M {" * levels),
        ("PROTOCOL_BUFFER", "message M { optional int32 a = 1 " + "[" * levels),
    ]
    for kind, definition in definitions:
        schema = {"type": kind, "definition": definition}
        for path, fields in (("/schemas", schema), ("/schemas:validate", {"schema": schema})):
            target = f"/v1/projects/demo{path}" + ("?schemaId=nested" if fields is schema else "")
            refused_rest(server, "POST", target, json.dumps(fields).encode())


@pytest.mark.parametrize("levels", DEPTHS)
def test_bodies_of_the_admin_api(server: ServerProcess, levels: int) -> None:
    nested, lists = objects(levels), b"[" * levels + b"]" * levels
    for path, body in [
        ("/topics", nested),
        ("/topics", b'{"name":' + lists + b"}"),
        ("/topics", b'{"name":"nested","labels":' + nested + b"}"),
        ("/topology", b'{"topics":[{"name":"nested","pubsub":' + nested + b"}]}"),
        ("/topology", b'{"topics":[{"name":"nested","pubsub":{"schema_settings":' + lists + b"}}]}"),
        ("/topics/plain/messages", b'{"messages":[{"attributes":' + nested + b"}]}"),
    ]:
        status, content = request(server.addresses["http"], "POST", "/admin/v1" + path, body)
        assert status == 400, (path, status, content[:300])
        assert json.loads(content)["error"], path


@pytest.mark.parametrize("levels", [500, 1_000, URL_LEVELS_MAX])
def test_tokens_of_pages(server: ServerProcess, levels: int) -> None:
    for key in (b"[" * levels + b"]" * levels, b"[" * levels):
        token = quote(base64.urlsafe_b64encode(key))
        for place in ("/topics", "/topics?sort=-messages", "/subscriptions", "/queues"):
            target = f"/admin/v1{place}{'&' if '?' in place else '?'}page_token={token}"
            status, content = request(server.addresses["http"], "GET", target)
            assert (status, json.loads(content)["error"]["message"]) == (400, "This page_token is not one of this list")
        for place in ("topics", "subscriptions", "topics/plain/subscriptions"):
            refused_rest(server, "GET", f"/v1/projects/demo/{place}?pageToken={token}", b"")


@pytest.mark.parametrize("levels", DEPTHS)
def test_xml(server: ServerProcess, levels: int) -> None:
    nested = b"<a>" * levels + b"</a>" * levels
    azure = server.addresses["azure"]
    headers = {"x-ms-version": "2021-08-06", "content-type": "application/xml"}
    status, _ = request(azure, "PUT", f"/{ACCOUNT}/nested?{account_sas()}", b"", headers)
    assert status in (201, 204)
    for method, target in (("POST", "nested/messages?"), ("PUT", "?restype=service&comp=properties&")):
        for body in (nested, b"<a>" * levels, b"<QueueMessage>" + nested + b"</QueueMessage>"):
            status, content = request(azure, method, f"/{ACCOUNT}/{target}{account_sas()}", body, headers)
            assert status in (400, 413), (method, target, status, content[:300])
            assert b"<Error><Code>" in content


@pytest.mark.parametrize("levels", DEPTHS)
def test_filters(server: ServerProcess, levels: int) -> None:
    for unit in ("(", "NOT ", "-", "attributes:a AND ("):
        text = unit * levels + "attributes:a"
        body = json.dumps({"topic": "projects/demo/topics/plain", "filter": text}).encode()
        refused_rest(server, "PUT", "/v1/projects/demo/subscriptions/filtered", body)
        made = json.dumps({"name": "filtered", "topic": "plain", "filter": text}).encode()
        status, content = request(server.addresses["http"], "POST", "/admin/v1/subscriptions", made)
        assert status in (400, 413), content[:300]
        query = quote(unit * min(levels, URL_LEVELS_MAX) + "attributes:a")
        status, _ = request(server.addresses["http"], "GET", f"/admin/v1/topics/plain/stream?filter={query}")
        assert 400 <= status < 500


@pytest.mark.parametrize("levels", DEPTHS)
def test_json_paths_and_the_bodies_they_search(server: ServerProcess, levels: int) -> None:
    with TextClient(server.addresses["text"]) as text:
        text.send("plain", objects(levels))
        text.send("plain", b"[" * levels)
    short = min(levels, URL_LEVELS_MAX)
    for path in ("$.n", "$" + ".n" * short, "$" + "[0]" * short, "$.n=" + "[" * short, "$[" * short):
        target = f"/admin/v1/topics/plain/stream?json={quote(path)}&body_bytes=10"
        status, content = request(server.addresses["http"], "GET", target)
        assert status == 200 or 400 <= status < 500, (path[:10], status, content[:300])


@pytest.mark.parametrize("levels", DEPTHS)
def test_requests_of_flight(server: ServerProcess, levels: int) -> None:
    nested = objects(levels)
    with flight.connect(f"grpc://{server.addresses['flight']}") as client:
        options = flight.FlightCallOptions(timeout=SECONDS)
        with pytest.raises((pa.ArrowInvalid, flight.FlightError), match=r"unknown field|JSON"):
            list(client.do_action(flight.Action("bounds", nested), options))
        with pytest.raises((pa.ArrowInvalid, flight.FlightError), match="expected `"):
            list(client.do_action(flight.Action("bounds", b'{"topics":' + nested + b"}"), options))
        with pytest.raises((pa.ArrowInvalid, flight.FlightError), match=r"unknown field|JSON"):
            client.do_get(flight.Ticket(nested), options).read_all()
        with pytest.raises((pa.ArrowInvalid, flight.FlightError), match=r"unknown field|JSON"):
            _put(client, nested, pa.schema([("data", pa.binary())]))


@pytest.mark.parametrize("levels", [50, 500, 4_000])  # the client's own library follows a schema without a limit
def test_arrow_schemas(server: ServerProcess, levels: int) -> None:
    kind: Any = pa.binary()
    for _ in range(levels):
        kind = pa.list_(kind)
    with flight.connect(f"grpc://{server.addresses['flight']}") as client:
        with pytest.raises((pa.ArrowInvalid, flight.FlightError)):
            _put(client, b'{"topic":"plain"}', pa.schema([("data", kind)]))
        command = flight.FlightDescriptor.for_command(b'{"topic":"plain"}')
        options = flight.FlightCallOptions(timeout=SECONDS)
        batch = pa.record_batch({"data": [b"still there"]})
        writer, reader = client.do_put(command, batch.schema, options)
        writer.write_batch(batch)
        assert json.loads(reader.read().to_pybytes())
        writer.close()


def _put(client: flight.FlightClient, command: bytes, schema: pa.Schema) -> None:
    options = flight.FlightCallOptions(timeout=SECONDS)
    writer, reader = client.do_put(flight.FlightDescriptor.for_command(command), schema, options)
    try:
        writer.done_writing()
        reader.read()
    finally:
        writer.close()

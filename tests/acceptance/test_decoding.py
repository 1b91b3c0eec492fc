"""Bodies decoded by the schema of their topic, through the admin API and `penstock peek --decode`."""

from __future__ import annotations

import base64
import io
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import fastavro
import pytest

from penstock.admin.client import Client
from penstock.errors import InvalidArgumentError
from tests.acceptance.command_line import CommandLine
from tests.server_process import ServerProcess
from tests.unchecked import publish_unchecked

AVRO = {
    "type": "record",
    "name": "Reading",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "value", "type": "double"},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 3}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "raw", "type": ["null", "bytes"]},
    ],
}
PROTO = 'syntax = "proto3"; message State { string name = 1; int64 post_code = 2; repeated double wind = 3; }'
STATE = b"\x0a\x06Alaska\x10\xff\xff\xff\xff\xff\xff\xff\xff\x7f"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path, "--memory", doors=["http"]) as server:
        schemas = [
            {"name": "reading", "type": "AVRO", "definition": json.dumps(AVRO)},
            {"name": "state", "type": "PROTOCOL_BUFFER", "definition": PROTO},
        ]
        by = {"readings": ("reading", "BINARY"), "states": ("state", "BINARY"), "texts": ("state", "JSON")}
        topics: list[dict[str, Any]] = [
            {"name": name, "pubsub": {"schema_settings": {"schema": schema, "encoding": encoding}}}
            for name, (schema, encoding) in by.items()
        ]
        with Client(server.addresses["http"]) as client:
            client.post("/topology", {"schemas": schemas, "topics": [*topics, {"name": "plain"}]})
        yield server


def avro(**fields: Any) -> bytes:
    whole = {"id": 1, "value": 0.5, "price": Decimal("0"), "at": datetime(2026, 1, 1, tzinfo=UTC), "raw": None}
    body = io.BytesIO()
    fastavro.schemaless_writer(body, fastavro.parse_schema(AVRO), whole | fields)
    return body.getvalue()


def publish(client: Client, topic: str, *bodies: bytes) -> int:
    """Publish bodies and return the offset of the first."""
    messages = [{"data_base64": base64.b64encode(body).decode()} for body in bodies]
    return int(client.post(f"/topics/{topic}/messages", {"messages": messages})["first_offset"])


def test_avro_with_every_digit(server: ServerProcess) -> None:
    with Client(server.addresses["http"]) as client:
        price = Decimal("123456789012345678901234.500")
        offset = publish(client, "readings", avro(id=2**63 - 1, value=float("nan"), price=price, raw=b"\x00\xff"))
        decoded = client.get(f"/topics/readings/messages/{offset}", decode="true")["decoded"]
        assert decoded["text"] == (
            '{"id":9223372036854775807,"value":"NaN","price":123456789012345678901234.500,'
            '"at":"2026-01-01T00:00:00Z","raw":"AP8="}'
        )
        assert (decoded["kind"], decoded["encoding"], decoded["problem"]) == ("AVRO", "BINARY", "")
        assert decoded["schema"] == "projects/penstock/schemas/reading"


def test_protocol_buffers_in_a_stream_and_on_the_command_line(server: ServerProcess, tmp_path: Path) -> None:
    command = CommandLine(server, tmp_path)
    with Client(server.addresses["http"]) as client:
        publish(client, "states", STATE)
        found = [line for line in client.stream("/topics/states/stream", decode="true") if "decoded" in line]
        assert json.loads(found[0]["decoded"]["text"]) == {"name": "Alaska", "post_code": "9223372036854775807"}
    for words in (["peek"], ["tail"], ["search", "--text", "Alaska"]):
        words = (
            [*words[:1], "states", *words[2:], "--decode"]
            if words[0] != "search"
            else ["search", "states", "Alaska", "-d"]
        )
        (line,) = command(*words).lines
        assert json.loads(line)["post_code"] == "9223372036854775807"


def test_a_body_that_does_not_match_the_schema_is_shown_raw_with_the_reason(
    server: ServerProcess, tmp_path: Path
) -> None:
    command = CommandLine(server, tmp_path)
    with Client(server.addresses["http"]) as client:
        for topic, body in (("readings", b"not avro at all"), ("states", b"not proto"), ("texts", b"{}{}")):
            with pytest.raises(InvalidArgumentError, match="Invalid data in message: Message failed schema validation"):
                publish(client, topic, body)
            publish_unchecked(client, topic, body)
        last = client.get("/topics/readings/messages", **{"from": -1, "decode": "true"})["messages"][0]
        assert last["decoded"]["text"] is None
        assert last["decoded"]["problem"] == "The body does not fit the schema."
        publish(client, "texts", b'{"name": "Alaska", "post_code": 7}')
        texts = client.get("/topics/texts/messages", decode="true")["messages"]
        assert [each["decoded"]["text"] is None for each in texts] == [True, False]
        assert texts[1]["attributes"]["googclient_schemaencoding"] == "JSON", (
            "the same text as a client of the vendor decodes"
        )
        publish(client, "plain", b"x")
        assert client.get("/topics/plain/messages/0", decode="true")["decoded"] is None
        assert "decoded" not in client.get("/topics/plain/messages/0")
    assert command("peek", "readings", "-n", "1", "--decode").out == "not avro at all\n"
    with command.terminal("peek", "readings", "-n", "1", "--decode") as terminal:
        terminal.until("The body does not fit the schema.")


def test_the_beginning_of_large_bodies(server: ServerProcess) -> None:
    with Client(server.addresses["http"]) as client:
        client.post("/topics", {"name": "large"})
        for body in (b"a" * 5_000_000, "é".encode() * 10, b"\xff" * 10, b"short"):
            publish(client, "large", body)
        page = client.get("/topics/large/messages", body_bytes=7)
        assert [each.get("data", each.get("data_base64")) for each in page["messages"]] == [
            "aaaaaaa",
            "ééé",
            base64.b64encode(b"\xff" * 7).decode(),
            "short",
        ]
        assert [each.get("cut") for each in page["messages"]] == [True, True, True, None]
        assert page["messages"][0]["size"] == 5_000_000
        assert len(client.get("/topics/large/messages/0")["data"]) == 5_000_000

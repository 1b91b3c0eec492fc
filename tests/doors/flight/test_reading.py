"""Ranges of topics as record batches."""

from __future__ import annotations

import base64
import datetime
import json
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from tests.doors.flight.flight_server import MAP, Client, FlightServer, Refused, messages, talking, until

CANONICAL = pa.schema(
    [
        ("topic", pa.string()),
        ("offset", pa.int64()),
        ("message_id", pa.string()),
        ("data", pa.binary()),
        ("attributes", MAP),
        ("publish_time", pa.timestamp("us", "UTC")),
        ("ordering_key", pa.string()),
    ]
)


def test_the_schema_is_the_canonical_one_also_of_nothing(either: Client) -> None:
    either.act("topic.ensure", topic="empty")
    assert either.get(topic="empty", first=0, until=0).schema.equals(CANONICAL)
    info = either.client.get_flight_info(flight.FlightDescriptor.for_path("empty"))
    assert info.schema.equals(CANONICAL)
    assert either.client.get_schema(flight.FlightDescriptor.for_path("empty")).schema.equals(CANONICAL)


@pytest.mark.parametrize(("first", "end"), [(0, 1000), (0, 1), (999, 1000), (99, 101), (250, 750), (100, 200), (5, 5)])
def test_a_range_is_read_across_stored_batches(either: Client, first: int, end: int) -> None:
    if "ranges" not in str(either.act("bounds")):
        either.fill("ranges", 1000, per_batch=100)
    table = either.get(topic="ranges", first=first, until=end)
    assert table["offset"].to_pylist() == list(range(first, end))
    assert table["data"].to_pylist() == [f"m{number}".encode() for number in range(first, end)]
    assert set(table["topic"].to_pylist()) <= {"projects/penstock/topics/ranges"}
    assert len(set(table["message_id"].to_pylist())) == end - first


def test_every_column_comes_back_as_it_was_put(either: Client) -> None:
    either.act("topic.ensure", topic="whole")
    before = datetime.datetime.now(datetime.UTC) - datetime.timedelta(milliseconds=1)
    batch = pa.record_batch(
        {
            "data": pa.array([b"", b"\x00\xff", "né".encode()], pa.binary()),
            "attributes": pa.array([[("a", "1"), ("ä", "ö")], [], None], MAP),
            "ordering_key": pa.array(["k", "", None]),
        }
    )
    either.put({"topic": "whole"}, [batch])
    rows = either.get(topic="whole", first=0, until=3).to_pylist()
    assert [row["data"] for row in rows] == [b"", b"\x00\xff", "né".encode()]
    assert [row["attributes"] for row in rows] == [[("a", "1"), ("ä", "ö")], [], []]
    assert [row["ordering_key"] for row in rows] == ["k", "", ""]
    assert all(before <= row["publish_time"] <= datetime.datetime.now(datetime.UTC) for row in rows)


def test_columns_are_chosen_by_name_and_come_in_canonical_order(either: Client) -> None:
    either.fill("columns", 10)
    table = either.get(topic="columns", first=2, until=4, columns=["data", "offset"])
    assert table.schema.names == ["offset", "data"]
    assert table.to_pylist() == [{"offset": 2, "data": b"m2"}, {"offset": 3, "data": b"m3"}]


def test_large_bodies_and_many_rows_come_in_several_batches(either: Client) -> None:
    either.act("topic.ensure", topic="large")
    body = pa.record_batch({"data": pa.array([bytes([number % 200]) * 50_000 for number in range(400)], pa.binary())})
    either.put({"topic": "large"}, [body])
    reader = either.scan(topic="large", first=0, until=400)
    batches = [chunk.data for chunk in reader]
    assert len(batches) > 1
    assert [value.as_py()[:1] for batch in batches for value in batch["data"]] == [bytes([n % 200]) for n in range(400)]


def test_messages_of_another_door_are_read(disk: FlightServer, client: Client) -> None:
    name = "projects/shop/topics/orders"
    client.act("topic.ensure", topic=name)
    body = {
        "messages": [{"data": base64.b64encode(b"paid").decode(), "attributes": {"by": "rest"}, "orderingKey": "k"}]
    }
    ids = json.loads(disk.fetch("pubsub", f"/v1/{name}:publish", body))["messageIds"]
    (row,) = client.get(topic=name, first=0, until=1).to_pylist()
    assert (row["data"], row["attributes"], row["ordering_key"]) == (b"paid", [("by", "rest")], "k")
    assert row["message_id"] == ids[0]
    assert row["topic"] == name


def test_generic_clients_list_and_read_topics(either: Client) -> None:
    either.fill("generic", 25)
    name = "projects/penstock/topics/generic"
    (listed,) = [info for info in either.client.list_flights() if info.descriptor.path == [name.encode()]]
    info = either.client.get_flight_info(flight.FlightDescriptor.for_path("generic"))
    for each in (listed, info):
        assert (each.total_records, each.total_bytes) == (25, either.bounds("generic")["bytes"])
        assert either.client.do_get(each.endpoints[0].ticket).read_all().num_rows == 25
    listed_actions = {action.type for action in either.client.list_actions()}
    assert listed_actions == set(either.act("help")["actions"])
    assert {"bounds", "limit", "split", "find", "cursor.open", "stage.decide"} <= listed_actions


def test_the_example_of_the_page_runs(disk: FlightServer, capsys: pytest.CaptureFixture[str]) -> None:
    page = (Path(__file__).parents[3] / "docs" / "doors" / "flight.md").read_text()
    (example,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    scope: dict[str, Any] = {}
    exec(example.replace("127.0.0.1:8815", disk.address), scope)
    scope["client"].close()
    assert '"first":0,"rows":2' in capsys.readouterr().out


def test_a_client_that_leaves_ends_its_scan(disk: FlightServer, client: Client) -> None:
    client.act("topic.ensure", topic="left")
    body = pa.record_batch({"data": pa.array([b"x" * 10_000] * 500, pa.binary())})
    client.put({"topic": "left"}, [body] * 10)
    reader = client.scan(topic="left", first=0, until=5000)
    reader.read_chunk()
    reader.cancel()
    with talking(disk) as other:
        assert other.get(topic="left", first=4990, until=5000).num_rows == 10


@pytest.mark.parametrize(
    ("ticket", "code", "words"),
    [
        (b"{", "invalid_argument", "not JSON"),
        (b"\xff\xfe", "invalid_argument", "not JSON"),
        (b'{"topic": "bad"}', "invalid_argument", "first"),
        (b'{"topic": "bad", "first": "0", "until": 1}', "invalid_argument", "first"),
        (b'{"topic": "bad", "first": 0, "until": 1, "what": 1}', "invalid_argument", "what"),
        (b'{"topic": "bad", "first": 0, "until": 11}', "invalid_argument", "ends at offset 10"),
        (b'{"topic": "bad", "first": 5, "until": 4}', "invalid_argument", "from 5 to 4"),
        (b'{"topic": "bad", "first": -1, "until": 4}', "invalid_argument", "-1"),
        (b'{"topic": "bad", "first": 0, "until": 1, "columns": ["dat"]}', "invalid_argument", "dat"),
        (b'{"topic": "bad", "first": 0, "until": 1, "columns": []}', "invalid_argument", "column"),
        (b'{"topic": "bad", "first": 0, "until": 1, "ranges": []}', "invalid_argument", "exclude each other"),
        (b'{"ranges": []}', "invalid_argument", "1 to 10000 ranges"),
        (b'{"ranges": [{"topic": "bad", "first": 0}]}', "invalid_argument", "until"),
        (b'{"topic": "a/b", "first": 0, "until": 1}', "invalid_argument", "projects/PROJECT/topics/TOPIC"),
        (b'{"topic": "nobody", "first": 0, "until": 1}', "not_found", "projects/penstock/topics/nobody"),
    ],
)
def test_a_bad_ticket_is_refused_in_one_sentence(client: Client, ticket: bytes, code: str, words: str) -> None:
    if client.act("topic.ensure", topic="bad")["created"]:
        client.fill("bad", 10)
    with pytest.raises(Refused) as caught:
        client.get_raw(ticket)
    assert caught.value.code == code
    assert words in caught.value.message
    assert "\n" not in caught.value.message
    assert "Traceback" not in str(caught.value.__cause__)


def test_several_ranges_are_read_one_after_the_other_in_few_batches(either: Client) -> None:
    names = [f"many-{number:02d}" for number in range(30)]
    for name in names:
        either.fill(name, 3)
    ranges = [{"topic": name, "first": 1, "until": 3} for name in names]
    found = either.get(ranges=ranges, columns=["topic", "offset", "data"])
    wanted = [(f"projects/penstock/topics/{name}", offset) for name in names for offset in (1, 2)]
    assert [(row["topic"], row["offset"]) for row in found.to_pylist()] == wanted
    assert found.column("data").num_chunks == 1


def test_a_range_of_a_topic_that_was_made_again_is_out_of_range(disk: FlightServer, client: Client) -> None:
    client.fill("again", 5)
    was = client.bounds("again")["identity"]
    disk.fetch("pubsub", "/v1/projects/penstock/topics/again", method="DELETE")
    client.fill("again", 9)
    old = {"topic": "again", "first": 2, "until": 5, "identity": was}
    with pytest.raises(Refused, match=r"out_of_range: Topic .*again was deleted and made again"):
        client.get(ranges=[old])
    assert client.get(ranges=[old], lossy=True).num_rows == 0
    now = client.bounds("again")["identity"]
    assert client.get(ranges=[old | {"identity": now}]).num_rows == 3
    told = client.act("split", ranges=[old, old | {"topic": "never"}], bytes=100)
    assert told["parts"] == []
    assert told["replaced"] == ["projects/penstock/topics/again"]
    assert told["gone"] == ["projects/penstock/topics/never"]


def test_columns_derived_from_the_position_match_the_messages(either: Client) -> None:
    either.fill("placed", 25, per_batch=10)
    whole = either.get(topic="placed", first=3, until=21).select(["topic", "offset", "message_id"])
    assert either.get(topic="placed", first=3, until=21, columns=["message_id", "topic", "offset"]).equals(whole)


def test_written_messages_are_read_after_a_restart(folder: Path) -> None:
    with FlightServer(folder, "--data", str(folder / "data")) as server:
        with talking(server) as client:
            client.fill("kept", 500)
            before = client.get(topic="kept", first=0, until=500)
        server.kill()
        server.start()
        with talking(server) as client:
            assert client.get(topic="kept", first=0, until=500).equals(before)


@pytest.mark.parametrize("store", ["disk", "memory"])
def test_a_range_that_is_no_longer_kept_names_the_earliest_offset(folder: Path, store: str) -> None:
    where = ["--data", str(folder / "data")] if store == "disk" else ["--memory"]
    with FlightServer(folder, "--retention-seconds", "0", *where) as server, talking(server) as client:
        client.act("topic.ensure", topic="short")
        client.act("cursor.open", name="reader", offsets={"short": 0})
        client.fill("short", 40, per_batch=10)
        witness(client)  # retention has run, and messages above the cursor are kept
        assert client.get(topic="short", first=0, until=40).num_rows == 40
        client.act("cursor.advance", name="reader", offsets={"short": 25})
        until(lambda: client.bounds("short")["head"] == 25, "retention")
        with pytest.raises(Refused) as caught:
            client.get(topic="short", first=5, until=40)
        name = "projects/penstock/topics/short"
        assert caught.value.message == f"Topic {name} no longer has offset 5: the earliest kept is 25"
        assert caught.value.details == {
            "code": "out_of_range",
            "message": caught.value.message,
            "topic": name,
            "wanted": 5,
            "earliest": 25,
        }
        lossy = client.get(topic="short", first=5, until=40, lossy=True)
        assert lossy["offset"].to_pylist() == list(range(25, 40))
        assert client.get(topic="short", first=3, until=9, lossy=True).num_rows == 0
        assert client.put({"topic": "short"}, [messages(range(2))])[0]["published"][0]["first"] == 40


def witness(client: Client) -> None:
    """Wait until retention has removed messages of another topic."""
    client.act("topic.ensure", topic="witness")
    client.act("cursor.open", name="witness", offsets={"witness": 0})
    client.fill("witness", 10)
    client.act("cursor.advance", name="witness", offsets={"witness": 10})
    until(lambda: client.bounds("witness")["head"] == 10, "retention")

"""Publishing of record batches: accepted and refused schemas, and publish-once keys."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from tests.doors.flight.flight_server import MAP, Client, FlightServer, Refused, messages, talking

T = "projects/penstock/topics/"
LARGE_MAP = pa.map_(pa.large_string(), pa.large_string())


def published(topic: str, first: int, rows: int, *, repeated: bool = False) -> dict[str, Any]:
    return {"topic": T + topic, "first": first, "rows": rows, "repeated": repeated}


@pytest.mark.parametrize(
    "data",
    [
        pa.array([b"a", b"bc"], pa.binary()),
        pa.array(["a", "bc"], pa.string()),
        pa.array([b"a", b"bc"], pa.large_binary()),
        pa.array(["a", "bc"], pa.large_string()),
    ],
    ids=lambda array: str(array.type),
)
def test_data_of_every_type(either: Client, data: pa.Array) -> None:
    topic = f"type-{data.type}"
    either.act("topic.ensure", topic=topic)
    either.put({"topic": topic}, [pa.record_batch({"data": data})])
    assert either.get(topic=topic, first=0, until=2)["data"].to_pylist() == [b"a", b"bc"]


def test_columns_in_any_order_with_nulls_and_slices(either: Client) -> None:
    either.act("topic.ensure", topic="order")
    batch = pa.record_batch(
        {
            "ordering_key": pa.array(["x", None, "y", "é"]),
            "attributes": pa.array([[("no", "1")], None, [("a", "b"), ("c", "")], []], LARGE_MAP),
            "data": pa.array(["0", "1", "2", "3"]),
        }
    )
    either.put({"topic": "order"}, [batch.slice(1), batch.slice(0, 0)])
    rows = either.get(topic="order", first=0, until=3).to_pylist()
    assert [row["data"] for row in rows] == [b"1", b"2", b"3"]
    assert [row["ordering_key"] for row in rows] == ["", "y", "é"]
    assert [row["attributes"] for row in rows] == [[], [("a", "b"), ("c", "")], []]
    assert either.bounds("order")["bytes"] == 3 + 1 + 2 + 3  # data, keys (é has two bytes), attributes


@pytest.mark.parametrize("name", ["no good!", "goog-x", "a\u00a0b", "a\u200db", "x" * 300, "t1"])
def test_topics_are_created_only_with_names_for_pubsub_clients(either: Client, name: str) -> None:
    """Names of topics may come from a column of data (decision 0015)."""
    with pytest.raises(Refused, match="A name that Pub/Sub clients can use has 3 to 255 letters, digits"):
        either.act("topic.ensure", topic=name)
    with pytest.raises(Refused, match="not_found"):
        either.bounds(name)


def test_rows_name_their_topics(either: Client) -> None:
    for topic in ("ro-a", "ro-b", "ro-default"):
        either.act("topic.ensure", topic=topic)
    rows = {"data": pa.array(["0", "1", "2", "3", "4"]), "topic": pa.array(["ro-a", T + "ro-b", None, "ro-a", "ro-b"])}
    (answer,) = either.put({"topic": "ro-default"}, [pa.record_batch(rows)])
    assert answer["published"] == [published("ro-a", 0, 2), published("ro-b", 0, 2), published("ro-default", 0, 1)]
    assert either.get(topic="ro-a", first=0, until=2)["data"].to_pylist() == [b"0", b"3"]
    with pytest.raises(Refused, match="invalid_argument: A row has no topic"):
        either.put({}, [pa.record_batch(rows)])
    with pytest.raises(Refused, match=f"not_found: .*{T}ro-c"):
        either.put({}, [pa.record_batch({"data": pa.array(["0", "1"]), "topic": pa.array(["ro-a", "ro-c"])})])
    assert either.bounds("ro-a")["tail"] == 2  # the batch with a wrong topic was not published in part


@pytest.mark.parametrize(
    ("schema", "words"),
    [
        ({"data": pa.int64()}, "Column data is int64; it must be binary or string"),
        ({"data": pa.binary(), "key": pa.string()}, r"Column key \(string\) is not known"),
        ({"data": pa.binary(), "attributes": pa.string()}, "Column attributes is string; it must be map"),
        (
            {"data": pa.binary(), "attributes": pa.map_(pa.string(), pa.int32())},
            "Column attributes is map<string, int32",
        ),
        ({"data": pa.binary(), "ordering_key": pa.binary()}, "Column ordering_key is binary; it must be string"),
        ({"data": pa.binary(), "topic": pa.int8()}, "Column topic is int8; it must be string"),
        ({"topic": pa.string()}, "Column data is missing"),
        ({"data": pa.dictionary(pa.int32(), pa.string())}, "Column data is dictionary"),
        ({"data": pa.struct([(f"field-{number}", pa.int8()) for number in range(2_000)])}, "Column data is struct"),
    ],
)
def test_a_wrong_schema_is_refused_by_name(client: Client, schema: dict[str, pa.DataType], words: str) -> None:
    client.act("topic.ensure", topic="wrong")
    batch = pa.schema(list(schema.items())).empty_table().to_batches()
    empty = batch[0] if batch else pa.RecordBatch.from_pylist([], schema=pa.schema(list(schema.items())))
    with pytest.raises(Refused, match=f"invalid_argument: {words}"):
        client.put({"topic": "wrong"}, [empty])
    assert client.bounds("wrong")["tail"] == 0


@pytest.mark.parametrize(
    ("columns", "words"),
    [
        ({"data": pa.array([b"a", None], pa.binary())}, "Column data has a null"),
        ({"data": ["a"], "attributes": pa.array([[("k", None)]], MAP)}, "Column attributes has a null value"),
        ({"data": ["a"], "attributes": pa.array([[("", "v")]], MAP)}, "Attribute keys must not be empty"),
        ({"data": ["a"], "attributes": pa.array([[("k" * 257, "v")]], MAP)}, "Attribute key exceeds maximum of 256"),
        ({"data": ["a"], "attributes": pa.array([[("k", "v" * 1025)]], MAP)}, "Attribute value exceeds maximum"),
        ({"data": ["a"], "ordering_key": pa.array(["k" * 1025])}, "Ordering key exceeds maximum of 1024"),
        ({"data": pa.array([b"x" * (10 << 20) + b"x"], pa.binary())}, "Message size exceeds maximum of 10MB"),
        ({"data": pa.array([b"x" * (1 << 20)] * 65, pa.binary())}, "at most 250000 rows and 64 MiB"),
        ({"data": pa.array([b""] * 250_001, pa.binary())}, "at most 250000 rows and 64 MiB"),
    ],
)
def test_a_bad_row_refuses_the_batch(client: Client, columns: dict[str, Any], words: str) -> None:
    client.act("topic.ensure", topic="rows")
    with pytest.raises(Refused, match=f"invalid_argument: .*{words}"):
        client.put({"topic": "rows"}, [pa.record_batch(columns)])
    assert client.bounds("rows")["tail"] == 0


def test_a_name_that_one_vendor_reserves_is_nothing_special_here(client: Client) -> None:
    client.act("topic.ensure", topic="names")
    named = pa.array([[("googx", "v")]], MAP)
    client.put({"topic": "names"}, [pa.record_batch({"data": ["a"], "attributes": named})])
    assert client.get(topic="names", first=0, until=1)["attributes"].to_pylist() == [[("googx", "v")]]


def test_text_that_is_not_utf8_is_refused(client: Client) -> None:
    client.act("topic.ensure", topic="utf8")
    bad = pa.Array.from_buffers(pa.string(), 1, pa.array([b"\xff\xfe"], pa.binary()).buffers())
    with pytest.raises(Refused, match="invalid_argument: Text must be valid UTF-8"):
        client.put({"topic": "utf8"}, [pa.record_batch({"data": pa.array([b"a"]), "ordering_key": bad})])


def test_a_repeated_key_counts_once(client: Client) -> None:
    client.act("topic.ensure", topic="twice")
    twice = pa.array([[("k", "one"), ("k", "2")]], MAP)
    client.put({"topic": "twice"}, [pa.record_batch({"data": ["a"], "attributes": twice})])
    assert client.get(topic="twice", first=0, until=1)["attributes"].to_pylist() == [[("k", "2")]]
    assert client.bounds("twice")["bytes"] == 3


@pytest.mark.parametrize(
    ("command", "words"),
    [
        (b"{", "command: this is not JSON"),
        ({"topik": "a"}, "unknown field `topik`"),
        ({}, "There is no topic"),
        ({"topic": "a/b"}, "A topic is named"),
        ({"topic": "command", "once": {"producer": "", "epoch": 0}}, "needs a producer"),
        ({"topic": "command", "once": {"producer": "p"}}, "epoch"),
        ({"topic": "command", "once": {"producer": "p", "epoch": 0}}, "metadata"),
        ({"topic": "command", "once": {"producer": "p", "epoch": 0}, "stage": True}, "the decision has it"),
    ],
)
def test_a_bad_command_is_refused(client: Client, command: Any, words: str) -> None:
    client.act("topic.ensure", topic="command")
    with pytest.raises(Refused, match=f"invalid_argument: .*{words}"):
        client.put(command, [messages(range(3))])


def test_an_unknown_topic_is_refused_before_anything_is_read(client: Client) -> None:
    with pytest.raises(Refused, match=f"not_found: Topic not found: {T}nobody") as caught:
        client.put({"topic": "nobody"}, [messages(range(3))])
    assert caught.value.kind is flight.FlightServerError


def test_many_batches_on_their_way_keep_their_order(either: Client) -> None:
    either.act("topic.ensure", topic="flow")
    batches = [messages(range(first, first + 500)) for first in range(0, 20_000, 500)]
    answers = either.put({"topic": "flow"}, batches, together=True)
    assert [answer["sequence"] for answer in answers] == list(range(40))
    assert [answer["published"][0]["first"] for answer in answers] == list(range(0, 20_000, 500))
    found = either.get(topic="flow", first=0, until=20_000)["data"].to_pylist()
    assert found == [f"m{number}".encode() for number in range(20_000)]


def test_a_batch_of_several_pieces_is_one_publish(either: Client) -> None:
    either.act("topic.ensure", topic="pieces")
    many = messages(range(25_000))
    large = pa.record_batch({"data": pa.array([b"x" * 100_000] * 120, pa.binary())})
    key = {"topic": "pieces", "once": {"producer": "p", "epoch": 1}}
    assert either.put(key, [many, large], [0, 1])[0]["published"] == [published("pieces", 0, 25_000)]
    again = either.put(key, [many, large], [0, 1])
    assert [answer["published"][0]["repeated"] for answer in again] == [True, True]
    assert either.bounds("pieces")["tail"] == 25_120
    assert either.get(topic="pieces", first=24_990, until=25_000)["data"].to_pylist()[-1] == b"m24999"


# ---------------------------------------------------------------------- publish-once keys


def test_a_repeated_sequence_gets_the_first_answer(either: Client) -> None:
    either.act("topic.ensure", topic="once")
    key = {"topic": "once", "once": {"producer": "query-1", "epoch": 7}}
    first = either.put(key, [messages(range(10)), messages(range(10, 30))], [0, 1])
    assert [answer["published"] for answer in first] == [[published("once", 0, 10)], [published("once", 10, 20)]]
    again = either.put(key, [messages(range(10)), messages(range(10, 30)), messages([30])], [0, 1, 2])
    assert [answer["published"][0]["repeated"] for answer in again] == [True, True, False]
    assert [answer["published"][0]["first"] for answer in again] == [0, 10, 30]
    assert either.bounds("once")["tail"] == 31


def test_an_older_epoch_is_refused(either: Client) -> None:
    either.act("topic.ensure", topic="epochs")
    new = {"topic": "epochs", "once": {"producer": "q", "epoch": 5}}
    old = {"topic": "epochs", "once": {"producer": "q", "epoch": 4}}
    either.put(old, [messages(range(3))], [0])
    either.put(new, [messages(range(3))], [0])
    with pytest.raises(Refused, match="failed_precondition: Producer q is at epoch 5; epoch 4 is over"):
        either.put(old, [messages(range(3))], [1])
    with pytest.raises(Refused, match="other_messages: Sequence 0 was taken with 3 messages, not 2"):
        either.put(new, [messages(range(2))], [0])
    with pytest.raises(Refused, match="other_messages: Sequence 0 was taken with other messages"):
        either.put(new, [messages([0, 1, 3])], [0])
    assert either.bounds("epochs")["tail"] == 6


def test_a_number_above_64_bits_is_refused_and_no_publish_waits_for_it(client: Client) -> None:
    """Each such upload once kept its share of the bytes in flight, until all publishes waited forever."""
    client.act("topic.ensure", topic="numbers")
    large = pa.record_batch({"data": pa.array([b"x" * (9 << 20)], pa.binary())})
    for epoch, sequence in [(1 << 63, 0), (0, 1 << 63), (10**30, 0), (-(10**30), 0)] * 2:
        with pytest.raises(Refused, match=r"invalid_argument: .*expected `int`"):
            client.put({"topic": "numbers", "once": {"producer": "p", "epoch": epoch}}, [large], [sequence])
    with pytest.raises(Refused, match="invalid_argument: ticket: expected `int`"):
        client.get(topic="numbers", first=0, until=10**30)
    client.put({"topic": "numbers"}, [large])


def test_a_failure_after_the_first_batch_is_in_its_answer(client: Client) -> None:
    """This client waits for each answer, so it would not see an error that only ends the call."""
    client.act("topic.ensure", topic="later")
    key = {"topic": "later", "once": {"producer": "q", "epoch": 1}}
    client.put(key, [messages(range(3)), messages(range(3))], [0, 1])
    answers: list[Any] = []
    writer, reader = client.client.do_put(
        flight.FlightDescriptor.for_command(b'{"topic": "later", "once": {"producer": "q", "epoch": 1}}'),
        messages([0]).schema,
        flight.FlightCallOptions(timeout=20),
    )
    for sequence, rows in ((0, 3), (1, 2)):
        writer.write_with_metadata(messages(range(rows)), b'{"sequence": %d}' % sequence)
        answers.append(reader.read().to_pybytes())
    assert b'"repeated":true' in answers[0]
    assert b'"code":"other_messages"' in answers[1]
    with pytest.raises(flight.FlightServerError, match="Sequence 1 was taken with 3 messages, not 2"):
        writer.close()


@pytest.mark.kill
def test_once_holds_over_a_power_cut(folder: Path) -> None:
    with FlightServer(folder, "--data", str(folder / "data")) as server:
        key = {"topic": "cut", "once": {"producer": "q", "epoch": 2}}
        batches = [messages(range(first, first + 100)) for first in range(0, 500, 100)]
        with talking(server) as client:
            client.act("topic.ensure", topic="cut")
            first = client.put(key, batches[:3], [0, 1, 2])
        server.kill()
        server.start()
        with talking(server) as client:
            again = client.put(key, batches, [0, 1, 2, 3, 4])
            assert [answer["published"][0]["repeated"] for answer in again] == [True, True, True, False, False]
            assert [each["published"][0]["first"] for each in again[:3]] == [
                each["published"][0]["first"] for each in first
            ]
            found = client.get(topic="cut", first=0, until=500)["data"].to_pylist()
            assert found == [f"m{number}".encode() for number in range(500)]

"""Staged rows: they are decided and published once, even if a process is killed."""

from __future__ import annotations

import threading
from collections import Counter
from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.flight as flight
import pytest

from tests.doors.flight.flight_server import MAP, Client, FlightServer, Refused, messages, talking, until

STAGING = "projects/penstock/topics/penstock-staging"
T = "projects/penstock/topics/"


def stage(client: Client, topic: str, batches: list[pa.RecordBatch]) -> list[dict[str, Any]]:
    """Stage the rows of one task, and return their location."""
    answers = client.put({"topic": topic, "stage": True}, batches)
    return [
        {"first": place["first"], "rows": place["rows"], "topic": place["target"]}
        for answer in answers
        for place in answer["published"]
    ]


def test_staged_rows_appear_with_the_decision(either: Client) -> None:
    either.act("topic.ensure", topic="decided")
    rows = pa.record_batch(
        {
            "data": pa.array(["a", "b"]),
            "attributes": pa.array([[("k", "v")], None], MAP),
            "ordering_key": pa.array(["o", None]),
        }
    )
    parts = [stage(either, "decided", [rows]), stage(either, "decided", [messages(range(10))])]
    assert either.bounds("decided")["tail"] == 0
    assert either.act("stage.decide", query="q-1", epoch=0, parts=parts) == {"repeated": False, "rows": 12}
    found = either.get(topic="decided", first=0, until=12).to_pylist()
    assert [row["data"] for row in found] == [b"a", b"b", *(f"m{number}".encode() for number in range(10))]
    assert [row["attributes"] for row in found[:3]] == [[("k", "v")], [], []]
    assert found[0]["ordering_key"] == "o"
    assert either.bounds("decided")["bytes"] == 1 + 2 + 1 + 1 + 20
    assert either.act("cursor.list")["cursors"] == []


def test_only_decided_rows_are_published_and_only_once(either: Client) -> None:
    either.act("topic.ensure", topic="attempts")
    lost, won = stage(either, "attempts", [messages(range(5))]), stage(either, "attempts", [messages(range(5, 10))])
    assert either.act("stage.decide", query="q-2", epoch=4, parts=[won])["rows"] == 5
    # A driver without memory of the first attempt stages other rows for the same epoch. The recorded decision holds.
    assert either.act("stage.decide", query="q-2", epoch=4, parts=[lost]) == {"repeated": True, "rows": 5}
    with pytest.raises(Refused, match="failed_precondition: Query q-2 is at epoch 4; epoch 3 is over"):
        either.act("stage.decide", query="q-2", epoch=3, parts=[lost])
    found = either.get(topic="attempts", first=0, until=either.bounds("attempts")["tail"])
    assert found["data"].to_pylist() == [f"m{number}".encode() for number in range(5, 10)]
    assert either.act("stage.decide", query="q-2", epoch=5, parts=[[]]) == {"repeated": False, "rows": 0}


def test_rows_for_several_topics_are_staged_together(either: Client) -> None:
    for topic in ("st-a", "st-b"):
        either.act("topic.ensure", topic=topic)
    rows = pa.record_batch({"data": pa.array(["0", "1", "2"]), "topic": pa.array(["st-a", "st-b", None])})
    (answer,) = either.put({"topic": "st-a", "stage": True}, [rows])
    for everything in ({}, {"pattern": ".*"}):
        assert STAGING not in either.act("bounds", **everything)["topics"]
    (place,) = answer["published"]
    assert (place["topic"], place["target"], place["rows"]) == (STAGING, None, 3)
    parts = [[{"first": place["first"], "rows": 3, "topic": None}]]
    either.act("stage.decide", query="q-3", epoch=0, parts=parts)
    assert either.get(topic="st-a", first=0, until=2)["data"].to_pylist() == [b"0", b"2"]
    assert either.get(topic="st-b", first=0, until=1)["data"].to_pylist() == [b"1"]


def test_invalid_decisions_are_refused(client: Client) -> None:
    client.act("topic.ensure", topic="cannot")
    stage(client, "cannot", [messages(range(5))])
    tail = client.bounds(STAGING)["tail"]
    for parts, words in (
        ([[{"first": tail - 1, "rows": 2}]], "no rows are staged"),
        ([[{"first": -1, "rows": 2}]], "no rows are staged"),
        ([{"first": 0, "rows": 2}], "stage.decide"),
    ):
        with pytest.raises(Refused, match=f"invalid_argument: .*{words}"):
            client.act("stage.decide", query="q-4", epoch=0, parts=parts)
    with pytest.raises(Refused, match=r"invalid_argument: stage\.decide: a query has a name"):
        client.act("stage.decide", query="", epoch=0, parts=[])
    with pytest.raises(Refused, match="not_found"):
        stage(client, "nobody", [messages(range(5))])


@pytest.mark.kill
@pytest.mark.parametrize("victim", ["server", "reader"])
def test_a_decision_is_finished_after_any_kill(folder: Path, victim: str) -> None:
    total = 60_000
    with FlightServer(folder, "--data", str(folder / "data")) as server:
        with talking(server) as client:
            client.act("topic.ensure", topic="target")
            parts = [stage(client, "target", [messages(range(first, first + 5000))]) for first in range(0, total, 5000)]
        decide_and_kill(server, victim, parts)
        if victim == "server":
            server.start()
        with talking(server) as client:
            # No client asks again, because the decision was made.
            until(lambda: tail_of(client, "target") == total, "the rest of the copy")
            assert client.act("stage.decide", query="job", epoch=1, parts=[]) == {"repeated": True, "rows": total}
            found = client.get(topic="target", first=0, until=total)["data"].to_pylist()
            assert Counter(found) == Counter(f"m{number}".encode() for number in range(total))
            assert tail_of(client, "target") == total
            until(lambda: client.act("cursor.list")["cursors"] == [], "letting staged rows go")


def decide_and_kill(server: FlightServer, victim: str, parts: list[Any]) -> None:
    """Kill while decided rows are being copied."""

    def decide() -> None:
        with talking(server) as client, suppress(flight.FlightError, Refused):
            client.act("stage.decide", query="job", epoch=1, parts=parts)

    reader = server.reader()
    deciding = threading.Thread(target=decide)
    with talking(server) as client:
        deciding.start()
        while client.bounds("target")["tail"] == 0:
            pass
    if victim == "server":
        server.kill()
    else:
        reader.kill()
    deciding.join()


def tail_of(client: Client, topic: str) -> int:
    """Return the tail of a topic, or -1 while the server does not answer."""
    try:
        return client.bounds(topic)["tail"]
    except (flight.FlightError, Refused):
        return -1

"""The actions before a read: bounds, times, limits and parts."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from tests.doors.flight.flight_server import Client, FlightServer, Refused, messages, talking

T = "projects/penstock/topics/"


def test_bounds_by_name_by_pattern_and_of_all(either: Client) -> None:
    for topic in ("bo-a", "bo-b", "other"):
        either.fill(topic, 3)
    found = either.act("bounds", topics=["bo-a", T + "other"])["topics"]
    names = {topic: bound.pop("identity") for topic, bound in found.items()}
    assert found == {T + "bo-a": {"head": 0, "tail": 3, "bytes": 6}, T + "other": {"head": 0, "tail": 3, "bytes": 6}}
    assert len(set(names.values())) == 2
    assert set(either.act("bounds", pattern=".*/bo-.")["topics"]) == {T + "bo-a", T + "bo-b"}
    assert set(either.act("bounds", pattern="bo-.")["topics"]) == {T + "bo-a", T + "bo-b"}  # in the default project
    assert either.act("bounds", pattern="bo-.", project="elsewhere")["topics"] == {}
    assert either.act("bounds", pattern="bo")["topics"] == {}  # the full name is used
    assert {T + "bo-a", T + "other"} <= set(either.act("bounds")["topics"])


def test_a_pattern_that_would_take_for_ever_holds_up_no_client(client: Client) -> None:
    client.act("topic.ensure", topic="a" * 40)
    assert client.act("bounds", pattern="(a+)+b")["topics"] == {}
    assert set(client.act("bounds", pattern="(a+)+")["topics"]) == {T + "a" * 40}


def test_bounds_of_missing_topics(client: Client) -> None:
    with pytest.raises(Refused, match=f"not_found: Topic not found: {T}nowhere"):
        client.act("bounds", topics=["nowhere"])
    with pytest.raises(Refused, match="invalid_argument: The pattern is not a regular expression"):
        client.act("bounds", pattern="(")
    for pattern in ("(?!internal-).*", r"(a)\1", "a)|(?:b"):
        with pytest.raises(Refused, match="invalid_argument: The pattern is not a regular expression of RE2: "):
            client.act("bounds", pattern=pattern)
    with pytest.raises(Refused, match="invalid_argument: bounds: topics and pattern"):
        client.act("bounds", pattern="a", topics=["b"])
    with pytest.raises(Refused, match="invalid_argument: bounds: wait_seconds"):
        client.act("bounds", wait_seconds=31)
    with pytest.raises(Refused, match="invalid_argument: bounds: this is not JSON"):
        client.raw("bounds", b"{nope")
    with pytest.raises(Refused, match="not_found: There is no action burn"):
        client.act("burn")


@pytest.mark.parametrize("kind", ["disk", "memory"])
def test_a_long_poll_is_answered_by_the_next_message(kind: str, request: pytest.FixtureRequest) -> None:
    server: FlightServer = request.getfixturevalue(kind)
    with talking(server) as client, talking(server) as other:
        client.fill("poll", 5)
        answers: list[tuple[float, int]] = []

        def poll() -> None:
            found = other.act("bounds", topics=["poll"], after={"poll": 5}, wait_seconds=20)
            answers.append((time.monotonic(), found["topics"][T + "poll"]["tail"]))

        waiting = threading.Thread(target=poll)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive()
        client.put({"topic": "poll"}, [messages([5])])
        published = time.monotonic()
        waiting.join(10)
        assert answers[0][1] == 6
        assert answers[0][0] - published < 10  # the call would have waited for 20


def test_a_long_poll_ends_with_its_time_and_at_once_if_there_is_more(client: Client) -> None:
    client.fill("poll2", 5)
    begun = time.monotonic()
    assert client.act("bounds", topics=["poll2"], after={"poll2": 4}, wait_seconds=20)["topics"]
    assert time.monotonic() - begun < 15
    begun = time.monotonic()
    client.act("bounds", topics=["poll2"], after={"poll2": 5}, wait_seconds=0.3)
    assert 0.25 < time.monotonic() - begun < 15


def test_the_offset_of_a_time(either: Client) -> None:
    either.fill("times", 30, per_batch=10)
    times = either.get(topic="times", first=0, until=30)["publish_time"].cast(pa.int64()).to_pylist()
    for at in (times[0], times[10], times[20]):
        expected = next(offset for offset, each in enumerate(times) if each >= at)
        assert either.act("find", times={"times": at}) == {"offsets": {T + "times": expected}}
    assert either.act("find", times={"times": 0})["offsets"] == {T + "times": 0}
    assert either.act("find", times={"times": times[-1] + 1_000_000})["offsets"] == {T + "times": 30}
    assert either.act("find", times={"times": 2**63})["offsets"] == {T + "times": 30}
    with pytest.raises(Refused, match="not_found"):
        either.act("find", times={"no-such-topic": 0})


def test_a_limit_in_rows_is_shared_by_backlog(either: Client) -> None:
    either.fill("li-a", 300)
    either.fill("li-b", 100)
    found = either.act("limit", **{"from": {"li-a": 0, "li-b": 0}, "rows": 40})
    found.pop("identities")
    assert found == {
        "until": {T + "li-a": 30, T + "li-b": 10},
        "heads": {T + "li-a": 0, T + "li-b": 0},
        "tails": {T + "li-a": 300, T + "li-b": 100},
    }
    everything = either.act("limit", **{"from": {"li-a": 250, "li-b": 100}, "rows": None, "bytes": None})
    assert everything["until"] == {T + "li-a": 300, T + "li-b": 100}
    bounded = either.act("limit", **{"from": {"li-a": 0}, "rows": 1000, "until": {"li-a": 7}})
    assert bounded["until"] == {T + "li-a": 7}


def test_a_limit_in_bytes_is_kept(either: Client) -> None:
    either.act("topic.ensure", topic="lib")
    either.put({"topic": "lib"}, [pa.record_batch({"data": pa.array([b"x" * 100] * 50, pa.binary())})] * 4)
    for size, rows in ((1000, 10), (1099, 10), (1100, 11), (10_000, 100), (20_000, 200), (99, 1), (1, 1)):
        assert either.act("limit", **{"from": {"lib": 0}, "bytes": size})["until"] == {T + "lib": rows}, size
    assert either.act("limit", **{"from": {"lib": 150}, "bytes": 500, "rows": 3})["until"] == {T + "lib": 153}


def test_a_limit_gives_at_least_one_message(either: Client) -> None:
    names = [f"still-{number}" for number in range(5)]
    for name in names:
        either.fill(name, 7)
    at = dict.fromkeys((T + name for name in names), 0)
    rounds = 0
    while any(offset < 7 for offset in at.values()):
        found = either.act("limit", **{"from": at, "rows": 2, "bytes": 1})["until"]
        assert sum(found.values()) > sum(at.values())
        assert all(found[name] >= at[name] for name in at)
        at, rounds = found, rounds + 1
    assert rounds <= 35
    assert either.act("limit", **{"from": at, "rows": 2})["until"] == at


def test_invalid_limits_are_refused(client: Client) -> None:
    client.fill("sense", 5)
    for body, words in (
        ({"from": {"sense": 0}, "rows": 0}, "1 or more"),
        ({"from": {"sense": 0}, "bytes": -1}, "1 or more"),
        ({"from": {"sense": 6}}, "ends at offset 5"),
        ({"rows": 5}, "from"),
    ):
        with pytest.raises(Refused, match=f"invalid_argument: .*{words}"):
            client.act("limit", **body)


def test_parts_are_cut_by_bytes(either: Client) -> None:
    either.act("topic.ensure", topic="parts")
    body = pa.record_batch({"data": pa.array([b"x" * (100 if n % 2 else 900) for n in range(100)], pa.binary())})
    either.put({"topic": "parts"}, [body, body])
    whole = [{"topic": "parts", "first": 10, "until": 190}]
    parts = either.act("split", ranges=whole, bytes=10_000, rows=None, parts=1)["parts"]
    assert_covers(parts, 10, 190)
    assert len(parts) == 9
    assert all(part["bytes"] <= 11_000 for part in parts)
    assert sum(part["bytes"] for part in parts) == 90_000
    assert either.act("split", ranges=whole, bytes=10**9)["parts"] == [
        {"topic": T + "parts", "first": 10, "until": 190, "bytes": 90_000}
    ]


def test_parts_are_cut_by_rows_and_by_number(either: Client) -> None:
    either.fill("parts2", 100)
    whole = [{"topic": "parts2", "first": 0, "until": 100}]
    by_rows = either.act("split", ranges=whole, bytes=10**9, rows=30)["parts"]
    assert_covers(by_rows, 0, 100)
    assert len(by_rows) == 4
    by_number = either.act("split", ranges=whole, bytes=10**9, rows=None, parts=7)["parts"]
    assert_covers(by_number, 0, 100)
    assert len(by_number) >= 7
    single = either.act("split", ranges=[{"topic": "parts2", "first": 0, "until": 3}], bytes=1, parts=10)["parts"]
    assert [(part["first"], part["until"]) for part in single] == [(0, 1), (1, 2), (2, 3)]
    assert either.act("split", ranges=[{"topic": "parts2", "first": 5, "until": 5}], bytes=1, parts=3)["parts"] == []


def test_parts_of_several_topics_stay_within_one_each(either: Client) -> None:
    either.fill("pa-a", 60)
    either.fill("pa-b", 20)
    ranges = [{"topic": "pa-a", "first": 0, "until": 60}, {"topic": "pa-b", "first": 0, "until": 20}]
    parts = either.act("split", ranges=ranges, bytes=10**9, parts=8)["parts"]
    assert len(parts) >= 8
    assert_covers([part for part in parts if part["topic"] == T + "pa-a"], 0, 60)
    assert_covers([part for part in parts if part["topic"] == T + "pa-b"], 0, 20)


def test_too_many_parts_and_bad_ranges_are_refused(client: Client) -> None:
    client.act("topic.ensure", topic="many")
    client.put({"topic": "many"}, [messages(range(20_000))])
    for body, words in (
        ({"ranges": [{"topic": "many", "first": 0, "until": 20_000}], "bytes": 10**9, "rows": 1}, "more than 10,000"),
        ({"ranges": [{"topic": "many", "first": 0, "until": 20_000}], "bytes": 1}, "more than 10,000"),
        ({"ranges": [{"topic": "many", "first": 0, "until": 20_001}], "bytes": 1}, "ends at offset"),
        ({"ranges": [{"topic": "many", "first": 0}], "bytes": 1}, "until"),
        ({"ranges": [], "bytes": 0}, "bytes"),
    ):
        with pytest.raises(Refused, match=f"invalid_argument: .*{words}"):
            client.act("split", **body)


def test_every_action_is_known_to_the_process_that_answers_it(client: Client) -> None:
    for kind in client.act("help")["actions"]:
        for body in (b"{", b'{"unknown": 1}'):
            with pytest.raises(Refused, match=f"invalid_argument: {kind}: "):
                client.raw(kind, body)


def test_an_action_that_is_too_large_for_the_server_is_refused(client: Client) -> None:
    with pytest.raises(Refused, match=r"invalid_argument: topic\.ensure: more than 16 MiB"):
        client.act("topic.ensure", topic="x" * (16 << 20))


def assert_covers(parts: list[dict[str, int]], first: int, until: int) -> None:
    """Check that parts have no gaps and no overlaps, and are not empty."""
    assert parts[0]["first"] == first
    assert parts[-1]["until"] == until
    assert all(part["first"] < part["until"] for part in parts)
    assert [part["until"] for part in parts[:-1]] == [part["first"] for part in parts[1:]]

"""Named cursors: set once, moved forward only, protecting unread messages, and shown in the metrics."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.doors.flight.flight_server import Client, FlightServer, Refused, talking

T = "projects/penstock/topics/"


def test_the_first_open_sets_the_cursor(either: Client) -> None:
    either.fill("pin", 50, per_batch=10)
    assert either.act("cursor.open", name="pinned", offsets={"pin": 17}) == {
        "offsets": {T + "pin": 17},
        "opened": [T + "pin"],
    }
    assert either.act("cursor.open", name="pinned", offsets={"pin": 30}) == {"offsets": {T + "pin": 17}, "opened": []}
    assert either.act("cursor.list", name="pinned") == {
        "cursors": [{"name": "pinned", "topic": T + "pin", "offset": 17, "lag": 33}]
    }


def test_a_cursor_goes_forward_only(either: Client) -> None:
    either.fill("forward", 50, per_batch=10)
    assert either.act("cursor.advance", name="walker", offsets={"forward": 10})["offsets"] == {T + "forward": 10}
    assert either.act("cursor.advance", name="walker", offsets={"forward": 35})["offsets"] == {T + "forward": 35}
    assert either.act("cursor.advance", name="walker", offsets={"forward": 5})["offsets"] == {T + "forward": 35}
    assert either.act("cursor.advance", name="walker", offsets={"forward": 35})["offsets"] == {T + "forward": 35}
    assert either.act("cursor.advance", name="walker", offsets={"forward": 50})["offsets"] == {T + "forward": 50}
    for kind in ("cursor.advance", "cursor.open"):
        with pytest.raises(Refused, match=r"invalid_argument: .* ends at offset 50"):
            either.act(kind, name="walker" if kind == "cursor.advance" else "new", offsets={"forward": 51})


def test_a_consumer_of_several_topics_has_a_cursor_for_each(either: Client) -> None:
    for topic in ("se-a", "se-b"):
        either.fill(topic, 10)
    opened = either.act("cursor.open", name="several", offsets={"se-a": 1, "se-b": 2})
    assert opened["offsets"] == {T + "se-a": 1, T + "se-b": 2}
    one = either.act("cursor.advance", name="several", offsets={"se-b": 5}, many=True)
    assert one["offsets"] == {T + "se-b": 5}
    assert [(each["topic"], each["offset"]) for each in either.act("cursor.list", name="several")["cursors"]] == [
        (T + "se-a", 1),
        (T + "se-b", 5),
    ]
    assert either.act("cursor.delete", name="several") == {"deleted": 2}
    assert either.act("cursor.delete", name="several") == {"deleted": 0}


def test_the_lag_is_in_the_metrics_and_the_cursor_among_the_subscriptions(disk: FlightServer, client: Client) -> None:
    client.fill("lagging", 40)
    client.act("cursor.open", name="late", offsets={"lagging": 10})
    size = len("".join(f"m{number}" for number in range(10, 40)))

    def metric(name: str) -> float:
        (line,) = [
            line for line in disk.metrics().splitlines() if line.startswith(name + "{") and "subscriptions/late" in line
        ]
        return float(line.rpartition(" ")[2])

    assert metric("penstock_backlog_messages") == 30
    assert metric("penstock_backlog_bytes") == size
    client.act("cursor.advance", name="late", offsets={"lagging": 40})
    assert metric("penstock_backlog_messages") == 0
    listed = json.loads(disk.fetch("pubsub", "/v1/projects/penstock/subscriptions"))["subscriptions"]
    assert "projects/penstock/subscriptions/late" in [each["name"] for each in listed]


def test_a_subscription_that_is_pulled_is_not_a_cursor(disk: FlightServer, client: Client) -> None:
    client.fill("pulled", 5)
    name = "/v1/projects/penstock/subscriptions/somebodys"
    request = {"topic": T + "pulled"}
    disk.put(name, request)
    for kind in ("cursor.open", "cursor.advance"):
        with pytest.raises(Refused, match=r"failed_precondition: .*somebodys is not a cursor"):
            client.act(kind, name="somebodys", offsets={"pulled": 0})


def test_a_cursor_of_another_topic_is_not_moved(client: Client) -> None:
    for topic in ("mo-a", "mo-b"):
        client.fill(topic, 5)
    client.act("cursor.open", name="moved", offsets={"mo-a": 0})
    with pytest.raises(Refused, match=r"failed_precondition: .*reads another topic"):
        client.act("cursor.advance", name="moved", offsets={"mo-b": 3})


def test_a_consumer_has_one_cursor_in_a_topic_however_it_names_it(either: Client) -> None:
    """One topic became several, and one again. No cursor is left that would hold back messages."""
    for topic in ("one-a", "one-b"):
        either.fill(topic, 10)
    either.act("cursor.open", name="turned", offsets={"one-a": 4})
    both = either.act("cursor.open", name="turned", offsets={"one-a": 0, "one-b": 0})
    assert both["offsets"] == {T + "one-a": 4, T + "one-b": 0}
    either.act("cursor.advance", name="turned", offsets={"one-a": 6, "one-b": 7})
    assert either.act("cursor.open", name="turned", offsets={"one-b": 0})["offsets"] == {T + "one-b": 7}
    found = [(each["topic"], each["offset"]) for each in either.act("cursor.list", name="turned")["cursors"]]
    assert sorted(found) == [(T + "one-a", 6), (T + "one-b", 7)]


def test_a_cursor_starts_again_in_a_topic_created_again(disk: FlightServer, client: Client) -> None:
    client.fill("anew", 10)
    was = client.bounds("anew")["identity"]
    for name in ("opener", "mover"):
        client.act("cursor.open", name=name, offsets={"anew": 8})
    disk.fetch("pubsub", "/v1/projects/penstock/topics/anew", method="DELETE")
    client.fill("anew", 20)
    now = client.bounds("anew")["identity"]
    opened = client.act("cursor.open", name="opener", offsets={"anew": 15})
    assert opened == {"offsets": {T + "anew": 0}, "opened": [T + "anew"], "replaced": [T + "anew"]}
    # A reader of the old topic does not move a cursor in the new one.
    old = client.act("cursor.advance", name="mover", offsets={"anew": 9}, identities={"anew": was})
    assert old == {"offsets": {}}
    new = client.act("cursor.advance", name="mover", offsets={"anew": 12}, identities={"anew": now})
    assert new == {"offsets": {T + "anew": 12}}


def test_bad_names_and_unknown_topics(client: Client) -> None:
    client.fill("nam", 1)
    for name in ("", "a/b", "a b", "-a", "x" * 201):
        with pytest.raises(Refused, match="invalid_argument: The name of a consumer"):
            client.act("cursor.open", name=name, offsets={"nam": 0})
    with pytest.raises(Refused, match="not_found"):
        client.act("cursor.open", name="fine", offsets={"nothing-there": 0})


def test_cursors_survive_a_power_cut(folder: Path) -> None:
    with FlightServer(folder, "--data", str(folder / "data")) as server:
        with talking(server) as client:
            client.fill("kept", 300, per_batch=50)
            client.act("cursor.open", name="a", offsets={"kept": 120})
            client.act("cursor.advance", name="b", offsets={"kept": 77})
            client.act("cursor.advance", name="b", offsets={"kept": 178})
            before = client.act("cursor.list")
        server.kill()
        server.start()
        with talking(server) as client:
            assert client.act("cursor.list") == before
            assert {each["name"]: each["offset"] for each in before["cursors"]} == {"a": 120, "b": 178}

"""Live data: leases with their door, statistics, samples, events, the server and its settings."""

from __future__ import annotations

import http.client
import json
import logging
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from penstock import Draft, ManualClock
from penstock.doors.http.admin import events, openapi
from penstock.doors.http.admin.calls import About, ShownSetting
from penstock.doors.http.options import HttpOptions
from penstock.engine.statistics import FLOWS_MAX, DoorTraffic
from tests.doors.http.harness import SECONDS, Harness, segment

TOPIC, SUBSCRIPTION = "projects/penstock/topics/orders", "projects/penstock/subscriptions/billing"
NOBODY = "projects/penstock/subscriptions/x"


@pytest.fixture
def harness() -> Iterator[Harness]:
    with Harness(clock=ManualClock()) as harness:
        harness.do(lambda: harness.queue.create_topic(TOPIC))
        harness.do(lambda: harness.queue.create_subscription(SUBSCRIPTION, TOPIC))
        yield harness


def publish(harness: Harness, count: int, door: str = "text") -> None:
    harness.do(lambda: harness.queue.at(door).publish(TOPIC, [Draft(b"12345")] * count))


def pass_seconds(harness: Harness, seconds: int) -> None:
    async def advance() -> None:
        for _ in range(seconds):
            harness.clock.advance(1)

    harness.run(advance())


class Stream:
    """The event stream of one client."""

    def __init__(self, harness: Harness, **query: str) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", harness.port, timeout=SECONDS)
        target = "/admin/v1/events" + ("?" + "&".join(f"{k}={v}" for k, v in query.items()) if query else "")
        self._connection.request("GET", target, headers={"Host": "localhost"})
        self.response = self._connection.getresponse()
        assert self.response.headers["Content-Type"] == "text/event-stream"
        assert self.next("hello")

    def next(self, wanted: str) -> Any:
        """Return the data of the next event of this name."""
        name = ""
        while True:
            line = self.response.readline().decode().rstrip("\n")
            if line.startswith("event: "):
                name = line.removeprefix("event: ")
            elif line.startswith("data: ") and name == wanted:
                return json.loads(line.removeprefix("data: "))

    def close(self) -> None:
        self.response.close()
        self._connection.close()


@contextmanager
def listening(harness: Harness, **query: str) -> Iterator[Stream]:
    stream = Stream(harness, **query)
    try:
        yield stream
    finally:
        stream.close()


# ---------------------------------------------------------------------- leases


def test_leases_name_their_consumer_and_door(harness: Harness) -> None:
    publish(harness, 3)
    harness.do(lambda: harness.queue.at("azure").pull(SUBSCRIPTION, 1))
    harness.do(lambda: harness.queue.at("pubsub").pull(SUBSCRIPTION, 2, holder="stream-7", lease_seconds=float("inf")))
    page = harness.get("/subscriptions/billing/leases", page_size=2)
    assert page["total"] == 3
    first, second = page["leases"]
    assert (first["offset"], first["door"], first["holder"], first["attempts"]) == (0, "azure", "", 1)
    assert first["leased_at"] < first["deadline"]
    assert (second["door"], second["holder"], second["deadline"]) == ("pubsub", "stream-7", None)
    rest = harness.get("/subscriptions/billing/leases", page_size=2, page_token=page["next_page_token"])
    assert [each["offset"] for each in rest["leases"]] == [2]
    assert rest["next_page_token"] == ""


def test_of_a_lease_from_before_the_start_the_door_is_not_known(harness: Harness) -> None:
    publish(harness, 1)
    harness.do(lambda: harness.queue.pull(SUBSCRIPTION, 1))
    harness.queue.engine.lease_origins._stamps.clear()
    (lease,) = harness.get("/subscriptions/billing/leases")["leases"]
    assert (lease["door"], lease["holder"], lease["leased_at"]) == (None, None, None)


@pytest.mark.parametrize(
    ("path", "query", "status", "sentence"),
    [
        ("/subscriptions/nobody/leases", {}, 404, "Subscription not found: projects/penstock/subscriptions/nobody"),
        ("/subscriptions/billing/leases", {"page_token": "x"}, 400, "This page_token is not one of this list"),
        ("/samples", {"step": 5}, 400, "step must be 1 or 60"),
        ("/samples", {"what": "topic"}, 400, "name must say which topic"),
        ("/samples", {"what": "topic", "name": "x"}, 404, "Topic not found: projects/penstock/topics/x"),
        ("/samples", {"what": "subscription", "name": "x"}, 404, f"Subscription not found: {NOBODY}"),
        ("/samples", {"what": "door", "name": "x"}, 400, "Samples are kept of these protocols: text, http"),
        ("/events", {"topics": ",".join(["a"] * 101)}, 400, "At most 100 topics and subscriptions can be named"),
        ("/moves/7", {}, 404, "Move not found: 7"),
    ],
)  # fmt: skip
def test_bad_input_is_one_sentence(
    harness: Harness, path: str, query: dict[str, Any], status: int, sentence: str
) -> None:
    harness.queue.at("text"), harness.queue.at("http")
    pass_seconds(harness, 1)
    answer = harness.ask("GET", path, **query)
    assert answer.status == status
    if "protocols" in sentence:
        assert answer.sentence.startswith("Samples are kept of these protocols: ")
    else:
        assert answer.sentence == sentence


# ---------------------------------------------------------------------- statistics and samples


def test_rates_are_of_the_last_ten_seconds_and_totals_since_the_start(harness: Harness) -> None:
    pass_seconds(harness, 1)
    publish(harness, 50)
    harness.do(lambda: harness.queue.at("azure").pull(SUBSCRIPTION, 20))
    pass_seconds(harness, 9)
    statistics = harness.get("/statistics")
    assert statistics["published"] == {"per_second": 5.0, "total": 50}
    assert statistics["published_bytes"]["total"] == 250
    assert statistics["delivered"] == {"per_second": 2.0, "total": 20}
    assert (statistics["backlog_messages"], statistics["in_flight_messages"]) == (50, 20)
    assert statistics["oldest_age_seconds"] == 9
    assert statistics["commits"]["total"] > 0
    topic = harness.get("/topics/orders")
    assert (topic["publish_rate"], topic["publish_bytes_rate"]) == (5.0, 25.0)
    pass_seconds(harness, 10)
    assert harness.get("/topics/orders")["publish_rate"] == 0
    assert harness.get("/statistics")["published"] == {"per_second": 0.0, "total": 50}


def test_statistics_have_the_flow_through_each_door(harness: Harness) -> None:
    harness.condition.counts = {"text": {}, "azure": {}}
    pass_seconds(harness, 1)
    publish(harness, 50)
    azure = harness.queue.at("azure")
    deliveries = harness.do(lambda: azure.pull(SUBSCRIPTION, 20))
    harness.do(lambda: azure.nack([each.receipt for each in deliveries[:5]]))
    harness.do(lambda: azure.nack([each.receipt for each in deliveries[5:10]], unseen=True))
    harness.do(lambda: azure.extend([each.receipt for each in deliveries[10:12]], 0))
    harness.do(lambda: azure.ack([each.receipt for each in deliveries[12:]]))
    pass_seconds(harness, 9)
    statistics = harness.get("/statistics")
    assert statistics["doors"]["text"]["per_second"]["messages_in"] == 5.0
    out = statistics["doors"]["azure"]
    assert (out["messages_out"], out["acks"], out["returns"]) == (20, 8, 7), (
        "a message that no program saw is not counted as a return"
    )
    assert (out["per_second"]["messages_out"], out["per_second"]["returns"]) == (2.0, 0.7)
    flows = statistics["flows"]
    assert flows["entered"] == [{"door": "text", "topic": TOPIC, "per_second": 5.0}]
    assert flows["left"] == [{"subscription": SUBSCRIPTION, "door": "azure", "per_second": 2.0}]
    pass_seconds(harness, 10)
    assert harness.get("/statistics")["flows"] == {"entered": [], "left": []}


def test_unused_samples_take_little_memory() -> None:
    traffic = DoorTraffic()
    for number in range(FLOWS_MAX + 5):
        traffic.count_in(f"topic-{number}", 1)
    traffic.count_in("topic-0", 2)
    entered, left = traffic.take_flows()
    assert (len(entered), entered["topic-0"], left) == (FLOWS_MAX, 3, {})


def test_a_list_has_the_rates_of_the_last_seconds(harness: Harness) -> None:
    pass_seconds(harness, 1)
    publish(harness, 7)
    harness.do(lambda: harness.queue.at("azure").pull(SUBSCRIPTION, 3))
    pass_seconds(harness, 2)
    harness.post("/topics", {"name": "quiet"})
    topics = {each["id"]: each["recent"] for each in harness.get("/topics", recent=2)["topics"]}
    assert topics == {"orders": [7, 0], "quiet": []}
    assert harness.get("/subscriptions", recent=2)["subscriptions"][0]["recent"] == [3, 0]
    assert "recent" not in harness.get("/topics")["topics"][0]


def test_samples_of_the_server_a_door_a_topic_and_a_subscription(harness: Harness) -> None:
    pass_seconds(harness, 1)
    publish(harness, 7)
    pass_seconds(harness, 2)
    samples = harness.get("/samples", seconds=2)
    assert samples["step"] == 1
    rows = [dict(zip(samples["fields"], row, strict=True)) for row in samples["rows"]]
    assert [row["published"] for row in rows] == [7, 0]
    assert [row["backlog_messages"] for row in rows] == [7, 7]
    door = harness.get("/samples", what="door", name="text", seconds=2)
    assert [row[door["fields"].index("messages_in")] for row in door["rows"]] == [7, 0]
    topic = harness.get("/samples", what="topic", name="orders", seconds=2)
    assert topic["rows"] == [[7, 35], [0, 0]]
    harness.post("/subscriptions", {"name": "quiet", "topic": "orders"})
    harness.get("/samples", what="subscription", name="quiet")  # the first request for its samples starts the recording
    pass_seconds(harness, 2)
    subscription = harness.get("/samples", what="subscription", name="quiet")
    assert [row[subscription["fields"].index("backlog_messages")] for row in subscription["rows"]] == [0, 0]


def test_a_stuck_subscription_has_samples_before_the_first_request(harness: Harness) -> None:
    """Nothing is pulled, so the backlog grows, and its chart must show that."""
    pass_seconds(harness, 1)
    for _ in range(3):
        publish(harness, 2)
        pass_seconds(harness, 1)
    pass_seconds(harness, 1)
    samples = harness.get("/samples", what="subscription", name="billing")
    rows = [dict(zip(samples["fields"], row, strict=True)) for row in samples["rows"]]
    assert [row["backlog_messages"] for row in rows] == [2, 4, 6, 6]
    assert [row["oldest_age_seconds"] for row in rows] == [1, 2, 3, 4]


def test_a_topic_made_again_under_its_name_has_no_history(harness: Harness) -> None:
    pass_seconds(harness, 1)
    publish(harness, 7)
    harness.do(lambda: harness.queue.pull(SUBSCRIPTION, 7))
    pass_seconds(harness, 2)
    assert harness.get("/samples", what="topic", name="orders")["rows"] == [[7, 35], [0, 0]]
    harness.ask("DELETE", f"/subscriptions/{segment(SUBSCRIPTION)}")
    harness.ask("DELETE", f"/topics/{segment(TOPIC)}")
    harness.post("/topics", {"name": "orders"})
    harness.post("/subscriptions", {"name": "billing", "topic": "orders"})
    assert harness.get("/topics", recent=2)["topics"][0]["recent"] == []
    pass_seconds(harness, 1)
    assert harness.get("/topics/orders")["publish_rate"] == 0
    assert harness.get("/subscriptions/billing")["deliver_rate"] == 0
    assert harness.get("/samples", what="topic", name="orders")["rows"] == []
    assert harness.get("/samples", what="subscription", name="billing")["rows"] == []


def test_minutes_are_kept_longer(harness: Harness) -> None:
    publish(harness, 60)
    pass_seconds(harness, 180)
    samples = harness.get("/samples", step=60, seconds=86400)
    assert len(samples["rows"]) in (2, 3)
    assert sum(row[0] for row in samples["rows"]) * 60 == pytest.approx(60, abs=61)


# ---------------------------------------------------------------------- events


def test_a_sample_each_second(harness: Harness) -> None:
    with listening(harness) as stream:
        publish(harness, 3)
        pass_seconds(harness, 1)
        sample = stream.next("sample")
        assert sample["server"]["published"] == 3
        assert sample["topics"] == {TOPIC: {"published": 3, "published_bytes": 15}}
        pass_seconds(harness, 1)
        assert stream.next("sample")["topics"] == {}


def test_named_subscriptions_are_in_every_sample(harness: Harness) -> None:
    publish(harness, 3)
    with listening(harness, subscriptions="billing") as stream:
        pass_seconds(harness, 1)
        assert stream.next("sample")["subscriptions"][SUBSCRIPTION]["backlog_messages"] == 3


def test_resources_that_come_and_go(harness: Harness) -> None:
    with listening(harness) as stream:
        harness.post("/topics", {"name": "new"})
        harness.ask("DELETE", f"/topics/{segment(TOPIC)}")
        name = "projects/penstock/topics/new"
        assert stream.next("resource") == {"kind": "topic", "name": name, "change": "created"}
        assert stream.next("resource") == {"kind": "subscription", "name": SUBSCRIPTION, "change": "detached"}
        assert stream.next("resource") == {"kind": "topic", "name": TOPIC, "change": "deleted"}


def test_warnings_are_events(harness: Harness) -> None:
    with listening(harness) as stream:
        logging.getLogger("penstock.anything").warning("something is %s", "odd")
        notice = stream.next("notice")
        assert (notice["level"], notice["text"]) == ("warning", "something is odd")


def test_log_lines_are_not_for_a_token_that_may_only_read(harness: Harness) -> None:
    reader, other = events.Client([], [], notices=False), events.Client([], [])
    harness.context.events._clients |= {reader, other}
    harness.context.events.notice("warning", "the disk of /srv/data is full")
    assert b"/srv/data" in harness.run(other.next())
    assert not reader._waiting


def test_a_stream_ends_with_the_server() -> None:
    with Harness() as harness:
        stream = Stream(harness)
    with pytest.raises(http.client.IncompleteRead):  # cut off, so that a client does not take the stream for complete
        stream.response.read()
    stream.close()


def test_a_slow_client_gets_the_number_of_lost_events(harness: Harness) -> None:
    client = events.Client([], [])
    for _ in range(events.WAITING_MAX + 5):
        client.add(b"x")
    text = harness.run(client.next())
    assert text.endswith(b'event: lost\ndata: {"events":5}\n\n')
    client.add(b"y")
    assert harness.run(client.next()) == b"y"


def test_a_quiet_stream_shows_that_it_lives(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "QUIET_SECONDS", 0.01)
    with listening(harness) as stream:
        assert stream.response.readline().startswith(b"\n")
        assert stream.response.readline() == b": nothing happened\n"


def test_the_listener_ends_with_the_last_client(harness: Harness) -> None:
    live = harness.context.events
    with listening(harness):
        assert live._listeners
    left = harness.do(lambda: _until(lambda: not live._listeners))
    assert left


async def _until(condition: Any) -> bool:
    import asyncio

    async with asyncio.timeout(SECONDS):
        while not condition():
            await asyncio.sleep(0.01)
    return True


def test_the_number_of_clients_is_limited(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "CLIENTS_MAX", 1)
    with listening(harness):
        answer = harness.ask("GET", "/events")
        assert (answer.status, answer.sentence) == (429, "Too many clients listen to events")


# ---------------------------------------------------------------------- the server


def test_the_server_describes_itself(harness: Harness) -> None:
    server = harness.get("/server")
    assert server["version"] == "1.2.3"
    assert server["durability"]["class"] == "memory"
    assert server["journal"] == {"bytes": 0, "wal_bytes": 0, "free_bytes": None, "full": False}
    assert server["limits"]["message_max_bytes"] == 10 << 20
    assert server["recovered"] == {"topics": 0, "messages": 0, "milliseconds": 0}


def test_paths_of_the_machine_need_a_write_token() -> None:
    options = HttpOptions(tokens=("all",), read_tokens=("look",))
    with Harness(options) as harness:
        shown = [ShownSetting("data", "/srv/data", "./x", True, "Folder.", True)]
        harness.context.about = About(10**18, "/srv/data", shown)
        for token, place in (("all", "/srv/data"), ("look", None)):
            headers = {"Authorization": f"Bearer {token}"}
            assert harness.ask("GET", "/server", headers=headers).json["data"] == place
            assert harness.ask("GET", "/settings", headers=headers).json["settings"][0]["value"] == place


def test_the_description_is_made_once(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Creating the document takes a tenth of a second, in which other clients would wait."""
    described = harness.get("/openapi.json")
    monkeypatch.setattr(openapi, "document", lambda *_: {"made": "again"})
    assert harness.get("/openapi.json") == described


def test_everything_here_is_described(harness: Harness) -> None:
    described = harness.get("/openapi.json")
    operations = [each for path in described["paths"].values() for each in path.values()]
    names = [each["operationId"] for each in operations]
    assert len(names) == len(set(names))
    assert {"show_server", "stream_events", "start_move", "list_leases", "restore_project_snapshot"} <= set(names)

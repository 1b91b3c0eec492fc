"""Messages of a topic in the admin API: listed, found, streamed and published."""

from __future__ import annotations

import asyncio
import base64
import http.client
import json
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from typing import Any

import pytest

from penstock import ManualClock
from penstock.admin.client import Client
from penstock.broker.log import Sizes
from penstock.broker.model import SECOND, Draft
from penstock.doors.http.admin import message_records
from penstock.doors.http.admin.message_records import message_record
from penstock.errors import NotFoundError
from tests.doors.http.harness import SECONDS, Harness

TOPIC = "projects/penstock/topics/orders"
START = int(datetime(2026, 11, 15, 10, tzinfo=UTC).timestamp()) * SECOND


@pytest.fixture
def admin() -> Iterator[Harness]:
    """Yield a topic with 50 messages, one per second."""
    clock = ManualClock(START)
    with Harness(clock=clock, sizes=Sizes(cache_bytes=1, chunk_messages=3)) as harness:
        harness.post("/topics", {"name": "orders", "retention_seconds": 86400})
        for number in range(50):
            draft = Draft(b'{"n": %d, "a": {"b": [1, "x"]}}' % number, {"odd": str(number % 2)}, "k" * (number % 3))
            harness.do(lambda draft=draft: harness.queue.publish(TOPIC, [draft]))
            harness.call(clock.advance, 1)
        yield harness


def offsets(page: Any) -> list[int]:
    return [each["offset"] for each in page["messages"]]


def test_a_message_is_shown_whole(admin: Harness) -> None:
    message = admin.get("/topics/orders/messages/7")
    assert message["topic"] == TOPIC
    assert (message["offset"], message["data"]) == (7, '{"n": 7, "a": {"b": [1, "x"]}}')
    assert (message["attributes"], message["ordering_key"]) == ({"odd": "1"}, "k")
    assert message["publish_time"] == "2026-11-15T10:00:07Z"
    assert (message["visible_at"], message["expires_at"]) == (None, None)
    assert message["size"] == len(message["data"]) + len("odd1k")
    assert "data_base64" not in message
    answer = admin.ask("GET", "/topics/orders/messages/50")
    assert (answer.status, answer.sentence) == (404, f"No message at offset 50 of {TOPIC}: it keeps 0 to 49")
    assert admin.ask("GET", "/topics/orders/messages/x").sentence == "The offset must be a whole number"
    assert admin.ask("GET", "/topics/none/messages/0").status == 404


def test_looking_consumes_nothing(admin: Harness) -> None:
    admin.post("/subscriptions", {"name": "s", "topic": "orders", "start": "beginning"})
    before = admin.get("/subscriptions/s")
    admin.get("/topics/orders/messages", max=1000)
    assert admin.get("/subscriptions/s") == before


@pytest.mark.parametrize(
    ("query", "expected", "complete"),
    [
        ({}, list(range(50)), True),
        ({"max": 3}, [0, 1, 2], False),
        ({"from": 48}, [48, 49], True),
        ({"from": -3}, [47, 48, 49], True),
        ({"from": -1000, "max": 2}, [0, 1], False),
        ({"from": 1000}, [], True),
        ({"from": 5, "until": 8}, [5, 6, 7], True),
        ({"from": 8, "until": 5}, [], True),
        ({"order": "desc", "max": 3}, [49, 48, 47], False),
        ({"order": "desc", "from": -2}, [49, 48], True),
        ({"order": "desc", "until": 2}, [1, 0], True),
        ({"at": "2026-11-15T10:00:47Z"}, [47, 48, 49], True),
        ({"at": "2026-11-15 10:00:47"}, [47, 48, 49], True),
        ({"at": "2026-11-15T11:00:48+01:00"}, [48, 49], True),
        ({"at": "-2s"}, [48, 49], True),
        ({"at": "-2.5s", "until_time": "-1s"}, [48], True),
        ({"at": "2030-01-01T00:00:00Z"}, [], True),
        ({"until_time": "1970-01-01"}, [], True),
        ({"filter": 'attributes.odd = "1"', "max": 3}, [1, 3, 5], False),
        ({"filter": 'attributes.odd = "1"', "order": "desc", "max": 2}, [49, 47], False),
        ({"text": '"n": 12,'}, [12], True),
        ({"text": "odd", "max": 1, "from": 3}, [3], False),
        ({"json": "$.n=31"}, [31], True),
        ({"json": "$.a.b[1]=x", "until": 2}, [0, 1], True),
        ({"json": '$["a"].b[0]=1', "until": 2}, [0, 1], True),
        ({"json": "$.a.c"}, [], True),
        ({"json": "$.n", "from": -1}, [49], True),
        ({"json": "$.n=true"}, [], True),
        ({"json": "$.n=1", "filter": 'attributes.odd = "0"'}, [], True),
    ],
)
def test_ranges_and_searches(admin: Harness, query: dict[str, Any], expected: list[int], complete: bool) -> None:
    page = admin.get("/topics/orders/messages", **query)
    assert (offsets(page), page["complete"]) == (expected, complete)
    streamed = streamed_offsets(admin, **query)
    assert streamed == expected


def streamed_offsets(admin: Harness, **query: Any) -> list[int]:
    with Client(admin.door.address) as client:
        return [line["offset"] for line in client.stream("/topics/orders/stream", **query) if "offset" in line]


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("search", [{}, {"filter": 'attributes.odd = "1"'}])
def test_pages_follow_one_another_without_a_gap(admin: Harness, order: str, search: dict[str, str]) -> None:
    found: list[int] = []
    scanned, more = 0, {}
    while True:
        page = admin.get("/topics/orders/messages", order=order, max=7, **search, **more)
        found += offsets(page)
        scanned += page["scanned"]
        if page["complete"]:
            break
        more = {"from" if order == "asc" else "until": page["next_offset"]}
    expected = [number for number in range(50) if not search or number % 2]
    assert found == (expected if order == "asc" else expected[::-1])
    assert scanned == 50


@pytest.mark.parametrize("order", ["asc", "desc"])
@pytest.mark.parametrize("search", [{}, {"filter": 'attributes.odd = "1"'}])
def test_streams_follow_one_another_without_a_gap(admin: Harness, order: str, search: dict[str, str]) -> None:
    found: list[int] = []
    scanned, more = 0, dict[str, int]()
    with Client(admin.door.address) as client:
        while scanned < 50:
            lines = list(client.stream("/topics/orders/stream", order=order, max=7, **search, **more))
            found += [line["offset"] for line in lines if "offset" in line]
            scanned += lines[-1]["progress"]["scanned"]
            more = {"from" if order == "asc" else "until": lines[-1]["progress"]["next_offset"]}
    expected = [number for number in range(50) if not search or number % 2]
    assert found == (expected if order == "asc" else expected[::-1])
    assert scanned == 50


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"from": "x"}, "from must be a whole number"),
        ({"from": 10**15}, "from must be a whole number, at most 549755813887"),
        ({"until": -1}, "until must be a whole number, at least 0"),
        ({"max": 1001}, "max must be a whole number, at most 1000"),
        ({"max": 0}, "max must be a whole number, at least 1"),
        ({"from": 1, "at": "-10m"}, "from and at exclude each other"),
        ({"until": 1, "until_time": "-10m"}, "until and until_time exclude each other"),
        ({"at": "yesterday"}, "at must be an instant such as 2026-11-15T10:00:00Z, or -10m"),
        ({"at": "2026-13-01"}, "at must be an instant such as 2026-11-15T10:00:00Z, or -10m"),
        ({"until_time": "-10"}, "until_time must be an instant such as 2026-11-15T10:00:00Z, or -10m"),
        ({"order": "up"}, "order must be asc or desc"),
        ({"json": "a.b"}, "json must be a path such as $.a.b[0], or $.a.b=5"),
        ({"json": "$..b"}, "json must be a path such as $.a.b[0], or $.a.b=5"),
        ({"follow": "true"}, "Unknown parameter: follow"),
    ],
)
def test_a_wrong_question_gets_one_sentence(admin: Harness, query: dict[str, Any], sentence: str) -> None:
    answer = admin.ask("GET", "/topics/orders/messages", **query)
    assert (answer.status, answer.sentence) == (400, sentence)


def test_a_wrong_filter_says_where(admin: Harness) -> None:
    answer = admin.ask("GET", "/topics/orders/messages", filter="attributes.odd ==")
    assert answer.status == 400
    assert "column" in answer.sentence


def test_an_answer_is_bounded_in_bytes(admin: Harness) -> None:
    big = Draft(b"x" * (3 << 20))
    admin.post("/topics", {"name": "big", "retention_seconds": 60})
    for _ in range(5):
        admin.do(lambda: admin.queue.publish("projects/penstock/topics/big", [big]))
    found: list[int] = []
    more: dict[str, Any] = {}
    pages = 0
    while True:
        page = admin.get("/topics/big/messages", **more)
        pages += 1
        found += offsets(page)
        if page["complete"]:
            break
        more = {"from": page["next_offset"]}
    assert (found, pages) == ([0, 1, 2, 3, 4], 3)
    assert offsets(admin.get("/topics/big/messages", order="desc")) == [4, 3]


def test_bytes_that_are_no_text_are_base64(admin: Harness) -> None:
    admin.do(lambda: admin.queue.publish(TOPIC, [Draft(b"\xff\x00")]))
    message = admin.get("/topics/orders/messages/50")
    assert base64.b64decode(message["data_base64"]) == b"\xff\x00"
    assert "data" not in message


def test_messages_dropped_by_retention_are_left_out(admin: Harness) -> None:
    admin.post("/topics/orders/purge")
    assert admin.get("/topics/orders/messages") == {
        "messages": [],
        "next_offset": 50,
        "scanned": 0,
        "complete": True,
    }
    assert admin.ask("GET", "/topics/orders/messages/3").sentence == (
        f"No message at offset 3 of {TOPIC}: it keeps none"
    )


# ---------------------------------------------------------------------- streams


def test_a_stream_begins_and_ends_with_its_progress(admin: Harness) -> None:
    with Client(admin.door.address) as client:
        lines = list(client.stream("/topics/orders/stream", text='"n": 12,'))
    assert [set(line) == {"progress"} for line in lines] == [True, False, True]
    assert lines[0] == {"progress": {"next_offset": 0, "scanned": 0, "found": 0}}
    assert lines[1]["offset"] == 12
    assert lines[2] == {"progress": {"next_offset": 50, "scanned": 50, "found": 1}}


def test_a_stream_that_follows_shows_new_messages(admin: Harness) -> None:
    with Client(admin.door.address) as client:
        lines = client.stream("/topics/orders/stream", follow=True, filter='attributes.odd = "1"', max=2)
        assert "progress" in next(lines)
        for number in range(3):
            draft = Draft(b"new", {"odd": str(number % 2)})
            admin.do(lambda draft=draft: admin.queue.publish(TOPIC, [draft]))
        found = next(line for line in lines if "offset" in line)
        assert found["offset"] == 51, "the stream began at the end"
        admin.do(lambda: admin.queue.publish(TOPIC, [Draft(b"new", {"odd": "1"})]))
        rest = list(lines)
        assert [line["offset"] for line in rest if "offset" in line] == [53]
        assert rest[-1]["progress"]["found"] == 2


def test_a_stream_that_follows_may_begin_before_the_end(admin: Harness) -> None:
    with Client(admin.door.address) as client:
        lines = client.stream("/topics/orders/stream", **{"follow": True, "from": -2, "max": 3})
        messages = (line["offset"] for line in lines if "offset" in line)
        assert [next(messages), next(messages)] == [48, 49]
        admin.do(lambda: admin.queue.publish(TOPIC, [Draft(b"new")]))
        assert list(messages) == [50]


def test_a_stream_ends_when_its_topic_is_deleted(admin: Harness) -> None:
    with Client(admin.door.address) as client:
        lines = client.stream("/topics/orders/stream", follow=True)
        next(lines)
        admin.ask("DELETE", "/topics/orders")
        with pytest.raises(NotFoundError, match=f"^Topic not found: {TOPIC}$"):
            list(lines)


def test_a_stream_ends_when_its_reader_disconnects(admin: Harness) -> None:
    """A stream leaves only its listener behind, and the listener is removed."""
    engine = admin.queue.engine
    before = sum(map(len, engine._listeners.values()))
    with Client(admin.door.address) as client:
        lines = client.stream("/topics/orders/stream", follow=True)
        next(lines)
        assert sum(map(len, engine._listeners.values())) > before
        lines.close()
        while sum(map(len, engine._listeners.values())) > before:
            admin.get("/topics/orders")


def test_a_search_ends_when_its_reader_disconnects(admin: Harness) -> None:
    """The search is still reading, and has found no message to send."""
    reads, waits, ended = list[int](), threading.Event(), threading.Event()
    queue = admin.context.queue

    class Endless:
        """A queue whose second read never ends."""

        def __getattr__(self, name: str) -> Any:
            return getattr(queue, name)

        async def read(self, *where: Any) -> Any:
            reads.append(where[1])
            if len(reads) == 1:
                return (await queue.read(*where))[:10]
            waits.set()
            try:
                await asyncio.Event().wait()
            finally:
                ended.set()

    admin.context.queue = Endless()  # type: ignore[assignment]
    with Client(f"127.0.0.1:{admin.port}") as client:
        search = client.stream("/topics/orders/stream", text="nowhere")
        assert next(search) == {"progress": {"next_offset": 0, "scanned": 0, "found": 0}}
        assert waits.wait(SECONDS)
        search.close()
        assert ended.wait(SECONDS)
    assert reads == [0, 10]


def test_a_wrong_stream_is_refused_before_it_begins(admin: Harness) -> None:
    for query in ({"order": "desc"}, {"until": 5}, {"until_time": "-1m"}):
        answer = admin.ask("GET", "/topics/orders/stream", follow="true", **query)
        assert (answer.status, answer.sentence) == (
            400,
            "follow has no end: leave out until, until_time and order=desc",
        )
    assert admin.ask("GET", "/topics/none/stream").status == 404
    assert admin.ask("GET", "/topics/orders/stream", follow="maybe").status == 400
    assert admin.ask("HEAD", "/topics/orders/stream").headers["Content-Type"] == "application/x-ndjson"


def test_a_stream_does_not_run_ahead_of_its_reader(admin: Harness) -> None:
    big = Draft(b"x" * (1 << 20))
    for _ in range(40):
        admin.do(lambda: admin.queue.publish(TOPIC, [big]))
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=20)
    connection.request("GET", "/admin/v1/topics/orders/stream?from=50", headers={"Host": "localhost"})
    response = connection.getresponse()
    response.read(1)
    assert admin.door._budget.in_use_bytes < 8 << 20
    assert sum(1 for line in response if b'"offset"' in line) == 40
    connection.close()


def test_streams_let_other_tasks_run_between_slices(admin: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    """Design law: no client may hold up another. A slice is a millisecond of work for all streams together."""
    work_seconds, turn, worked = 0.0002, 0, dict[int, int]()

    def slow_record(*words: Any) -> Any:
        worked[turn] = worked.get(turn, 0) + 1
        ends = time.perf_counter() + work_seconds
        while time.perf_counter() < ends:
            pass
        return message_record(*words)

    async def count_turns() -> None:
        nonlocal turn
        while True:
            turn += 1
            await asyncio.sleep(0)

    monkeypatch.setattr(message_records, "message_record", slow_record)
    admin.do(lambda: admin.queue.publish(TOPIC, [Draft(b"x")] * 900))
    counting = asyncio.run_coroutine_threadsafe(count_turns(), admin.loop)
    began = time.perf_counter()
    with ThreadPoolExecutor(4) as readers:
        found = list(readers.map(lambda _: len(streamed_offsets(admin)), range(4)))
    passed = time.perf_counter() - began
    counting.cancel()
    assert found == [950] * 4
    assert max(worked.values()) <= 40, "messages of all streams between two turns of other tasks"
    assert passed > 4 * 4 * 950 * work_seconds, "all streams together use a fifth of the time"


# ---------------------------------------------------------------------- publishing


def test_messages_are_published_in_one_step(admin: Harness) -> None:
    answer = admin.post(
        "/topics/orders/messages",
        {
            "messages": [
                {"data": "héllo", "attributes": {"a": "b"}, "ordering_key": "k", "ttl_seconds": 60},
                {"data_base64": base64.b64encode(b"\xff").decode(), "delay_seconds": 5},
            ]
        },
    )
    assert answer["first_offset"] == 50
    first = admin.get("/topics/orders/messages/50")
    assert (first["id"], first["data"], first["attributes"], first["ordering_key"]) == (
        answer["ids"][0],
        "héllo",
        {"a": "b"},
        "k",
    )
    assert first["expires_at"] == "2026-11-15T10:01:50Z"
    second = admin.get("/topics/orders/messages/51")
    assert (second["data_base64"], second["visible_at"]) == ("/w==", "2026-11-15T10:00:55Z")


def test_keys_that_another_protocol_reserves_are_accepted(admin: Harness) -> None:
    """A complete export can be imported."""
    admin.post("/topics/orders/messages", {"messages": [{"data": "", "attributes": {"googx": "1"}}]})
    assert admin.get("/topics/orders/messages/50")["attributes"] == {"googx": "1"}


def test_a_publish_that_is_repeated_is_stored_once(admin: Harness) -> None:
    body = {"messages": [{"data": "x"}], "once": {"producer": "p", "epoch": 1, "sequence": 7}}
    first, again = admin.post("/topics/orders/messages", body), admin.post("/topics/orders/messages", body)
    assert first == again
    assert admin.get("/topics/orders")["next_offset"] == 51


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "The field messages is missing"),
        ({"messages": []}, "messages must be a list of at least 1"),
        ({"messages": [{"data": "x"}] * 1001}, "messages must be a list of at most 1000"),
        ({"messages": [{}]}, "messages[0] must have data or data_base64, and not both"),
        ({"messages": [{"data": "x", "data_base64": ""}]}, "messages[0] must have data or data_base64, and not both"),
        ({"messages": [{"data": "x"}, {"data_base64": "?"}]}, "messages[1].data_base64 is not Base64"),
        ({"messages": [{"data": "x", "colour": 1}]}, "Unknown field: messages[0].colour"),
        ({"messages": [{"data": 5}]}, "messages[0].data must be text or null"),
        ({"messages": [{"data": "x", "attributes": {"": "x"}}]}, "Attribute keys must not be empty"),
        ({"messages": [{"data": "x", "delay_seconds": -1}]}, "messages[0].delay_seconds must be a number, at least 0"),
    ],
)
def test_a_wrong_publish_gets_one_sentence(admin: Harness, body: Any, sentence: str) -> None:
    answer = admin.ask("POST", "/topics/orders/messages", body)
    assert (answer.status, answer.sentence) == (400, sentence)
    assert admin.get("/topics/orders")["next_offset"] == 50


def test_a_lone_surrogate_is_not_text(admin: Harness) -> None:
    answer = admin.ask(
        "POST",
        "/topics/orders/messages",
        b'{"messages": [{"data": "\\ud800"}]}',
        headers={"Content-Type": "application/json"},
    )
    assert answer.status == 400
    json.loads(answer.body)

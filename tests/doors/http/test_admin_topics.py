"""Topics and projects in the admin API."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from penstock.broker.model import Draft
from tests.doors.http.harness import Harness, segment


@pytest.fixture
def admin() -> Iterator[Harness]:
    with Harness() as harness:
        yield harness


def test_a_topic_is_made_shown_changed_and_deleted(admin: Harness) -> None:
    made = admin.ask("POST", "/topics", {"name": "orders", "labels": {"team": "a"}, "retention_seconds": 60})
    assert made.status == 201
    assert made.json["name"] == "projects/penstock/topics/orders"
    assert (made.json["project"], made.json["id"]) == ("penstock", "orders")
    assert made.json["names"]["python"] == "orders"
    assert made.json["names"]["azure"] is None, "the Pub/Sub door is closed"
    assert made.json["last_published_at"] is None

    changed = admin.ask("PATCH", "/topics/orders", {"retention_bytes": 5000})
    assert changed.status == 200
    shown = admin.get("/topics/orders")
    assert (shown["retention_seconds"], shown["retention_bytes"], shown["labels"]) == (60, 5000, {"team": "a"})

    assert admin.ask("DELETE", "/topics/orders").status == 204
    gone = admin.ask("GET", "/topics/orders")
    assert (gone.status, gone.sentence) == (404, "Topic not found: projects/penstock/topics/orders")
    assert admin.ask("DELETE", "/topics/orders").status == 404


def test_a_topic_has_its_counts(admin: Harness) -> None:
    admin.post("/topics", {"name": "orders", "retention_seconds": 60})
    name = "projects/penstock/topics/orders"
    admin.do(lambda: admin.queue.publish(name, [Draft(b"12345"), Draft(b"123")]))
    shown = admin.get("/topics/orders")
    assert (shown["first_offset"], shown["next_offset"], shown["messages"], shown["bytes"]) == (0, 2, 2, 8)
    assert (shown["published"], shown["subscriptions"]) == (2, 0)
    assert shown["dropped"] == {}
    assert shown["last_published_at"].endswith("Z")


def test_names_are_short_or_full(admin: Harness) -> None:
    full = "projects/p/topics/orders"
    assert admin.post("/topics", {"name": full})["name"] == full
    assert admin.get(f"/topics/{segment(full)}")["name"] == full
    assert admin.get("/topics/orders", project="p")["name"] == full
    assert admin.post("/topics", {"name": "more", "project": "p"})["name"] == "projects/p/topics/more"
    assert admin.ask("GET", "/topics/orders").status == 404
    for wrong in ("projects/p/subscriptions/orders", "a/b", "projects//topics/x", "projects/p/topics/"):
        answer = admin.ask("GET", f"/topics/{segment(wrong)}")
        sentence = f"Not a name in topics: {wrong}. Give NAME or projects/PROJECT/topics/NAME"
        assert (answer.status, answer.sentence) == (400, sentence)
    assert admin.ask("GET", "/topics/x%0Ay").status == 404
    assert admin.ask("GET", "/topics/%FF").sentence == "The path is not UTF-8"
    assert admin.ask("GET", "/topics/orders", project="a/b").sentence == "A project is a name without slashes"


def test_a_list_is_in_pages_and_can_be_searched_and_sorted(admin: Harness) -> None:
    for number in range(25):
        admin.post("/topics", {"name": f"t{number:02}", "project": "p" if number % 2 else "q", "retention_seconds": 60})
    busy = "projects/q/topics/t08"
    admin.do(lambda: admin.queue.publish(busy, [Draft(b"x")] * 3))
    page = admin.get("/topics", page_size=10)
    assert (len(page["topics"]), page["total"]) == (10, 25)
    names = []
    token = ""
    while True:
        page = admin.get("/topics", page_size=10, page_token=token)
        names += [each["name"] for each in page["topics"]]
        token = page["next_page_token"]
        if not token:
            break
    assert names == sorted(names)
    assert len(set(names)) == 25
    assert [each["id"] for each in admin.get("/topics", search="t1", project="p")["topics"]] == [
        f"t{number}" for number in (11, 13, 15, 17, 19)
    ]
    by_size = admin.get("/topics", sort="-messages", page_size=2)
    assert by_size["topics"][0]["name"] == busy
    rest = admin.get("/topics", sort="-messages", page_size=1000, page_token=by_size["next_page_token"])
    assert len(rest["topics"]) == 23
    for sort in ("messages", "bytes", "published"):
        assert admin.get("/topics", sort=sort, page_size=1000)["topics"][-1]["name"] == busy


@pytest.mark.parametrize(
    ("query", "sentence"),
    [
        ({"page_size": 1001}, "page_size must be a whole number, at most 1000"),
        ({"page_size": 10**30}, "page_size must be a whole number, at most 1000"),
        ({"page_size": 0}, "page_size must be a whole number, at least 1"),
        ({"page_size": "many"}, "page_size must be a whole number"),
        ({"page_token": "???"}, "This page_token is not one of this list"),
        ({"page_token": "WzEsMl0="}, "This page_token is not one of this list"),
        ({"colour": "red"}, "Unknown parameter: colour"),
        (
            {"sort": "colour"},
            (
                "sort must be bytes, -bytes, messages, -messages, name, -name, published, -published, rate, -rate, "
                "subscriptions or -subscriptions"
            ),
        ),
    ],
)
def test_a_wrong_query_gets_one_sentence(admin: Harness, query: dict[str, object], sentence: str) -> None:
    admin.post("/topics", {"name": "orders"})
    answer = admin.ask("GET", "/topics", **query)
    assert (answer.status, answer.sentence) == (400, sentence)


@pytest.mark.parametrize(
    ("body", "sentence"),
    [
        ({}, "The field name is missing"),
        ({"name": 5}, "name must be text"),
        ({"name": ""}, "A name in topics must be a non-empty string"),
        ({"name": "x", "colour": "red"}, "Unknown field: colour"),
        ({"name": "x", "labels": {"a": 1}}, "Each value in labels must be text"),
        ({"name": "projects/p/topics/x", "project": "q"}, "projects/p/topics/x is not in the project q"),
        ({"name": "x", "retention_seconds": -1}, "retention_seconds must be a number, at least 0"),
        ([], "The body must be an object"),
        (b"{", "The body is not JSON"),
        (b'{"name": "\xff"}', "The body is not JSON"),
    ],
)
def test_a_wrong_body_gets_one_sentence(admin: Harness, body: object, sentence: str) -> None:
    answer = admin.ask("POST", "/topics", body, headers={"Content-Type": "application/json"})
    assert (answer.status, answer.sentence) == (400, sentence)


def test_a_name_that_is_taken_is_a_conflict(admin: Harness) -> None:
    admin.post("/topics", {"name": "orders"})
    answer = admin.ask("POST", "/topics", {"name": "orders"})
    assert (answer.status, answer.sentence) == (409, "Topic already exists: projects/penstock/topics/orders")


def test_projects_are_listed_with_their_resources(admin: Harness) -> None:
    admin.post("/topics", {"name": "orders", "project": "p"})
    name, topic = "projects/p/subscriptions/s", "projects/p/topics/orders"
    admin.do(lambda: admin.queue.create_subscription(name, topic))
    admin.do(lambda: admin.queue.publish(topic, [Draft(b"x")] * 3))
    assert admin.get("/projects")["projects"] == [
        {"project": "p", "topics": 1, "subscriptions": 1, "backlog_messages": 3},
        {"project": "penstock", "topics": 0, "subscriptions": 0, "backlog_messages": 0},
    ]


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("/queues", {"name": "projects/p/topics/x"}),
        ("/subscriptions", {"name": "projects/p/subscriptions/x", "topic": "projects/q/topics/orders"}),
    ],
)
def test_a_full_name_is_in_the_project_that_the_body_says(admin: Harness, path: str, body: dict[str, str]) -> None:
    admin.post("/topics", {"name": "orders", "project": "q"})
    answer = admin.ask("POST", path, body | {"project": "q"})
    assert (answer.status, answer.sentence) == (400, f"{body['name']} is not in the project q")
    assert admin.ask("POST", path, body | {"project": "p"}).status == 201

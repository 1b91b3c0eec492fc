"""The metrics of a server with topics and subscriptions, as a scraper gets them."""

from __future__ import annotations

import asyncio
import http.client
from typing import Any

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock.broker.model import Draft
from penstock.doors.http import scrapes
from penstock.doors.http.options import HttpOptions
from tests.doors.http.harness import SECONDS, Harness

Series = dict[str, dict[tuple[tuple[str, str], ...], float]]


def scrape(admin: Harness) -> Series:
    connection = http.client.HTTPConnection("127.0.0.1", admin.port, timeout=SECONDS)
    try:
        connection.request("GET", "/metrics", headers={"Host": "localhost"})
        response = connection.getresponse()
        assert response.status == 200
        page = response.read().decode()
    finally:
        connection.close()
    found: Series = {}
    for family in text_string_to_metric_families(page):
        for sample in family.samples:
            found.setdefault(sample.name, {})[tuple(sorted(sample.labels.items()))] = sample.value
    return found


def fill(admin: Harness, number: int) -> None:
    for each in range(number):
        admin.post("/topics", {"name": f"t{each}"})
        admin.post("/subscriptions", {"name": f"s{each}", "topic": f"t{each}"})
        admin.do(lambda each=each: admin.queue.publish(f"projects/penstock/topics/t{each}", [Draft(b"12345")]))  # type: ignore[misc]


def of_kind(series: Series, name: str) -> dict[str, float]:
    return {dict(labels)["kind"]: value for labels, value in series[name].items()}


def test_series_of_resources_are_bounded_and_totals_are_not() -> None:
    with Harness(HttpOptions(metrics_resources=2)) as admin:
        fill(admin, 5)
        admin.call(admin.services.samples.take)
        series = scrape(admin)
    topics = {dict(labels)["topic"] for labels in series["penstock_messages_published_total"]}
    assert topics == {"projects/penstock/topics/t0", "projects/penstock/topics/t1"}
    assert len(series["penstock_backlog_messages"]) == 2
    assert series["penstock_server_messages_published_total"] == {(): 5}
    assert series["penstock_server_bytes_published_total"] == {(): 25}
    assert series["penstock_server_backlog_messages"] == {(): 5}
    assert series["penstock_server_messages_acked_total"] == {(): 0}
    assert of_kind(series, "penstock_resources") == {"topics": 5, "subscriptions": 5}
    assert of_kind(series, "penstock_metrics_left_out") == {"topics": 3, "subscriptions": 3}


@pytest.mark.parametrize(("most", "shown", "left_out"), [(0, 0, 3), (3, 3, 0), (5000, 3, 0)])
def test_the_setting_says_how_many_resources_have_series(most: int, shown: int, left_out: int) -> None:
    with Harness(HttpOptions(metrics_resources=most)) as admin:
        fill(admin, 3)
        series = scrape(admin)
    assert len(series.get("penstock_topic_tail_offset", {})) == shown
    assert len(series.get("penstock_in_flight_messages", {})) == shown
    assert of_kind(series, "penstock_metrics_left_out") == {"topics": left_out, "subscriptions": left_out}


def test_a_scrape_is_made_in_slices(monkeypatch: pytest.MonkeyPatch) -> None:
    """Design law: no client may hold up another. Here every chunk uses up the share."""
    monkeypatch.setattr(scrapes, "CHUNK_LINES", 1)
    turns = 0

    async def count_turns() -> None:
        nonlocal turns
        while True:
            turns += 1
            await asyncio.sleep(0)

    with Harness() as admin:
        fill(admin, 50)
        admin.context.listing._seconds = 0
        counting = asyncio.run_coroutine_threadsafe(count_turns(), admin.loop)
        before = turns
        lines = sum(map(len, scrape(admin).values()))
        counting.cancel()
    assert lines > 50 * 4 + 50 * 11
    assert turns - before > lines


def test_a_resource_deleted_during_a_scrape_is_left_out() -> None:
    """A resource that is created again is there once. Two samples of one series would make the page invalid."""
    with Harness() as admin:
        fill(admin, 3)
        find = admin.context.queue.topic_statistics

        async def find_later(names: Any) -> Any:
            await admin.queue.delete_topic("projects/penstock/topics/t1")
            await admin.queue.delete_topic("projects/penstock/topics/t2")
            await admin.queue.create_topic("projects/penstock/topics/t2")
            return await find(names)

        admin.context.queue.topic_statistics = find_later  # type: ignore[method-assign]
        series = scrape(admin)
    names = sorted(dict(labels)["topic"].rpartition("/")[2] for labels in series["penstock_topic_tail_offset"])
    assert names == ["t0", "t2"]

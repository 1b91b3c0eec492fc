"""The HTTP door for its users: health checks, metrics, the front page, and hostile web pages."""

from __future__ import annotations

import asyncio
import http.client
import json
import logging
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest
from prometheus_client.parser import text_string_to_metric_families

from penstock import errors
from penstock.broker.counts import SubscriptionCounts, TopicCounts
from penstock.doors.http.errors import STATUSES, response_to
from penstock.doors.http.options import HttpOptions
from penstock.doors.http.server import HttpDoor
from penstock.doors.port import OPEN, STARTING, Condition, join_address
from penstock.engine.statistics import BrokerStatistics, CommitMeter, SubscriptionStatistics, TopicStatistics
from penstock.wire.budget import Budget

HOSTILE = 'a"b\\c\nd{}'


class Counted:
    """Statistics of a small broker, with a name that tries to break out of its label."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.internal_errors: dict[str, int] = {}

    def statistics(self, *, resources: bool = True) -> BrokerStatistics:
        if self.error is not None:
            raise self.error
        meter = CommitMeter()
        meter.note(0.0004, facts=2, bytes_written=100)
        meter.note(0.015, facts=1, bytes_written=50)
        meter.note(60, facts=1, bytes_written=1)
        topics = [
            TopicStatistics("orders", 2, 12, TopicCounts(10, 1000), {"no_subscription": 3}),
            TopicStatistics(HOSTILE, 0, 0, TopicCounts()),
        ]
        one = SubscriptionStatistics(
            subscription="billing",
            topic="orders",
            backlog_messages=7,
            backlog_bytes=700,
            in_flight_messages=2,
            in_flight_bytes=200,
            oldest_unacked_age_seconds=1.5,
            counts=SubscriptionCounts(
                delivered=9, acked=3, returned=4, dead_lettered=1, dropped={"expired": 5, "capacity": 6}
            ),
        )
        return BrokerStatistics(topics, [one], meter.statistics(), {"capacity": 8}, self.internal_errors)


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def json(self) -> Any:
        assert self.headers["Content-Type"] == "application/json"
        return json.loads(self.body)


class Harness:
    bound = "127.0.0.1"

    def __init__(self) -> None:
        self.condition = Condition()
        self.condition.doors["http"] = OPEN
        self.counted = Counted()
        self.budget = Budget(1 << 20)

    def ask(self, path: str, method: str = "GET", host: str = "localhost", body: bytes | None = None) -> Answer:
        """Send one request to a door that exists only for this request."""
        return asyncio.run(self._ask(lambda port: exchange(port, method, path, host, body)))

    async def _ask(self, exchange: Callable[[int], Answer]) -> Answer:
        door = HttpDoor(
            host=self.bound,
            port=0,
            statistics=self.counted,
            condition=self.condition,
            log=logging.getLogger("test.http"),
            version="1.2.3",
            options=HttpOptions(allowed_hosts=("penstock.test",)),
            budget=self.budget,
        )
        await door.start()
        try:
            return await asyncio.to_thread(exchange, int(door.address.rpartition(":")[2]))
        finally:
            await door.stop(grace_seconds=0)


def exchange(port: int, method: str, path: str, host: str, body: bytes | None) -> Answer:
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=10)
    try:
        connection.request(method, path, body=body, headers={"Host": host})
        response = connection.getresponse()
        return Answer(response.status, dict(response.getheaders()), response.read())
    finally:
        connection.close()


@pytest.fixture
def harness() -> Harness:
    return Harness()


def test_health_is_good_until_the_journal_has_failed(harness: Harness) -> None:
    answer = harness.ask("/health")
    assert (answer.status, answer.json) == (200, {"status": "ok"})
    harness.condition.failed = True
    answer = harness.ask("/health")
    assert (answer.status, answer.json) == (503, {"status": "failed"})


def test_health_reports_a_bug_that_was_undone(harness: Harness) -> None:
    """Law 8: degraded, with the places and the remedy. The status is 200, because a restart would not help more."""
    harness.counted.internal_errors = {"broker/log.py:97 KeyError": 2}
    answer = harness.ask("/health")
    assert (answer.status, answer.json["status"]) == (200, "degraded")
    assert answer.json["internal_errors"] == {"broker/log.py:97 KeyError": 2}
    assert "report" in answer.json["what_to_do"]
    page = harness.ask("/metrics").body.decode()
    assert 'penstock_internal_errors_total{place="broker/log.py:97 KeyError"} 2' in page


def test_ready_means_that_every_door_answers_and_none_is_stopping(harness: Harness) -> None:
    harness.condition.doors["text"] = STARTING
    answer = harness.ask("/ready")
    assert (answer.status, answer.json) == (503, {"ready": False, "doors": {"http": "open", "text": "starting"}})
    harness.condition.doors["text"] = OPEN
    assert harness.ask("/ready").status == 200
    harness.condition.stopping = True
    assert harness.ask("/ready").status == 503


def test_a_server_without_doors_is_not_ready() -> None:
    assert not Condition().ready


def samples(answer: Answer) -> dict[tuple[str, ...], float]:
    """Return (name, label values ...) -> value, as Prometheus itself parses the page."""
    assert answer.status == 200
    assert answer.headers["Content-Type"] == "text/plain; version=0.0.4; charset=utf-8"
    families = text_string_to_metric_families(answer.body.decode())
    return {(s.name, *s.labels.values()): s.value for family in families for s in family.samples}


def test_metrics_have_the_counts_of_the_broker(harness: Harness) -> None:
    found = samples(harness.ask("/metrics"))
    expected = {
        ("penstock_build_info", "1.2.3"): 1,
        ("penstock_messages_published_total", "orders"): 10,
        ("penstock_bytes_published_total", "orders"): 1000,
        ("penstock_topic_head_offset", "orders"): 2,
        ("penstock_topic_tail_offset", "orders"): 12,
        ("penstock_topic_tail_offset", HOSTILE): 0,
        ("penstock_messages_delivered_total", "orders", "billing"): 9,
        ("penstock_messages_acked_total", "orders", "billing"): 3,
        ("penstock_messages_returned_total", "orders", "billing"): 4,
        ("penstock_messages_dead_lettered_total", "orders", "billing"): 1,
        ("penstock_backlog_messages", "orders", "billing"): 7,
        ("penstock_backlog_bytes", "orders", "billing"): 700,
        ("penstock_in_flight_messages", "orders", "billing"): 2,
        ("penstock_in_flight_bytes", "orders", "billing"): 200,
        ("penstock_oldest_unacked_age_seconds", "orders", "billing"): 1.5,
        ("penstock_messages_dropped_total", "orders", "", "no_subscription"): 3,
        ("penstock_messages_dropped_total", "orders", "billing", "expired"): 5,
        ("penstock_messages_dropped_total", "orders", "billing", "capacity"): 6,
        ("penstock_publishes_refused_total", "capacity"): 8,
        ("penstock_commits_total",): 3,
        ("penstock_facts_written_total",): 4,
        ("penstock_bytes_written_total",): 151,
    }
    assert expected.items() <= found.items()


def test_metrics_show_all_that_a_door_counts(harness: Harness) -> None:
    """Law 8: a refusal has a counter, and the counter must be visible."""
    harness.condition.counts = {"text": Counter({"too-slow": 3, HOSTILE: 1}), "azure": Counter()}
    found = samples(harness.ask("/metrics"))
    assert found[("penstock_door_events_total", "text", "too-slow")] == 3
    harness.condition.counts["azure"] = Counter({"QueueNotFound": 2})
    found = samples(harness.ask("/metrics"))
    assert found[("penstock_door_events_total", "azure", "QueueNotFound")] == 2


def test_metrics_have_the_memory_of_connections(harness: Harness) -> None:
    account = harness.budget.account(lambda: None)
    assert account.charge(1000)
    assert not account.charge(1 << 20)
    found = samples(harness.ask("/metrics"))
    assert found[("penstock_buffer_bytes",)] == 1000
    assert found[("penstock_buffer_bytes_max",)] == 1 << 20
    assert found[("penstock_buffer_refusals_total",)] == 1


def test_metrics_hold_the_commit_times_as_a_histogram(harness: Harness) -> None:
    found = samples(harness.ask("/metrics"))
    assert found["penstock_commit_seconds_bucket", "0.0005"] == 1
    assert found["penstock_commit_seconds_bucket", "0.01"] == 1
    assert found["penstock_commit_seconds_bucket", "0.02"] == 2
    assert found["penstock_commit_seconds_bucket", "5.0"] == 2
    assert found["penstock_commit_seconds_bucket", "+Inf"] == 3
    assert found["penstock_commit_seconds_count",] == 3
    assert found["penstock_commit_seconds_sum",] == pytest.approx(60.0154)


def test_metrics_have_the_resources_of_the_process(harness: Harness) -> None:
    found = samples(harness.ask("/metrics"))
    assert found["process_cpu_seconds_total",] > 0
    assert found["process_resident_memory_bytes",] > 1_000_000
    assert found["process_open_fds",] > 3
    assert found["process_start_time_seconds",] > 1_600_000_000


def test_the_front_page_lists_the_other_pages(harness: Harness) -> None:
    answer = harness.ask("/")
    assert answer.status == 200
    assert answer.headers["Content-Type"].startswith("text/plain")
    assert all(path in answer.body.decode() for path in ("Penstock 1.2.3", "/health", "/ready", "/metrics"))


@pytest.mark.parametrize("path", ["/", "/health", "/ready", "/metrics"])
def test_head_is_get_without_the_body(harness: Harness, path: str) -> None:
    answer = harness.ask(path, "HEAD")
    assert answer.status == 200
    assert int(answer.headers["Content-Length"]) > 0
    assert answer.body == b""


def test_an_unknown_path_is_a_404_in_json(harness: Harness) -> None:
    answer = harness.ask("/nothing")
    assert answer.status == 404
    assert answer.json["error"]["code"] == 404
    assert "GET /" in answer.json["error"]["message"]


def test_nothing_here_can_be_written(harness: Harness) -> None:
    answer = harness.ask("/health", "POST", body=b"{}")
    assert answer.status == 405
    assert answer.headers["Allow"] == "GET, HEAD"
    assert answer.json["error"]["code"] == 405


def test_malformed_requests_are_refused_in_json(harness: Harness) -> None:
    answer = harness.ask("/", "POST", body=b"x" * 100_000)
    assert answer.status == 413
    assert answer.json["error"] == {
        "code": 413,
        "message": "The body is too large; the admin API accepts at most 16 MiB.",
    }


def test_an_expected_error_keeps_its_sentence_and_a_bug_loses_it(harness: Harness) -> None:
    harness.counted.error = errors.UnavailableError("The broker is stopping.")
    answer = harness.ask("/metrics")
    assert (answer.status, answer.json["error"]["message"]) == (503, "The broker is stopping.")
    harness.counted.error = RuntimeError("secret")
    answer = harness.ask("/metrics")
    assert (answer.status, answer.json["error"]["message"]) == (
        500,
        "Internal server error; the log has details.",
    )


@pytest.mark.parametrize(
    ("host", "status"),
    [
        ("localhost:8090", 200),
        ("LOCALHOST.", 200),
        ("127.0.0.1", 200),
        ("127.9.9.9:1", 200),
        ("[::1]:8090", 200),
        ("penstock.test:8090", 200),
        ("evil.example", 403),
        ("evil.example:8090", 403),
        ("localhost.evil.example", 403),
        ("127.0.0.1.evil.example", 403),
        ("", 403),
    ],
)
def test_a_page_that_points_its_name_at_this_machine_gets_nothing(harness: Harness, host: str, status: int) -> None:
    assert harness.ask("/metrics", host=host).status == status


def test_a_short_form_of_loopback_is_guarded_as_well(harness: Harness) -> None:
    harness.bound = "127.1"
    assert harness.ask("/metrics", host="evil.example").status == 403
    assert harness.ask("/metrics", host="localhost").status == 200


def leaves(kind: type[errors.PenstockError]) -> Iterator[type[errors.PenstockError]]:
    for child in kind.__subclasses__():
        yield child
        yield from leaves(child)


def test_every_error_has_its_status() -> None:
    own = [kind for kind in leaves(errors.PenstockError) if kind.__module__ == errors.__name__]
    own.remove(errors.LostReplyError)  # not an answer
    own.remove(errors.OtherMessagesError)  # an InvalidArgumentError that Flight handles separately
    assert set(own) == set(STATUSES)
    for kind in own:
        assert response_to(kind("why")).status == STATUSES[kind]
    assert response_to(errors.OtherMessagesError("why")).status == 400
    assert response_to(errors.PenstockError("odd")).status == 500


def test_an_address_of_the_newer_kind_is_bracketed() -> None:
    assert join_address("::1", 80) == "[::1]:80"

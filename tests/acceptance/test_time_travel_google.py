"""A moved clock with Google's client, over weeks and without sleeping."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from google.api_core.exceptions import NotFound
from google.cloud.pubsub_v1.subscriber.exceptions import AcknowledgeError
from google.cloud.pubsub_v1.types import PublisherOptions

from penstock.testing import Project, ProjectClock, Server

SECONDS = 60.0  # only a failing test waits this long

# the flag makes a pull return without waiting
pytestmark = pytest.mark.filterwarnings("ignore:The return_immediately flag")


class Billing:
    """A topic and a subscription in the test's project."""

    def __init__(self, project: Project) -> None:
        self.project, self.clock = project, project.clock
        self.publisher, self.subscriber = project.google_publisher(), project.google_subscriber()
        self.topic, self.name = project.topic("orders"), project.subscription("billing")
        self.publisher.create_topic(name=self.topic)

    def subscribe(self, **options: Any) -> Billing:
        self.subscriber.create_subscription({"name": self.name, "topic": self.topic, **options})
        return self

    def publish(self, *texts: str, **attributes: str) -> None:
        for text in texts:
            self.publisher.publish(self.topic, text.encode(), **attributes).result(SECONDS)

    def pull(self, name: str = "", most: int = 10) -> list[Any]:
        request = {"subscription": name or self.name, "max_messages": most, "return_immediately": True}
        return list(self.subscriber.pull(request, timeout=SECONDS).received_messages)

    def texts(self, name: str = "") -> list[str]:
        return [each.message.data.decode() for each in self.pull(name)]

    @contextmanager
    def listen(self, answer: Callable[[Any], object] = lambda _: None) -> Iterator[queue.Queue[Any]]:
        received: queue.Queue[Any] = queue.Queue()

        def called(message: Any) -> None:
            answer(message)
            received.put(message)

        stream = self.subscriber.subscribe(self.name, callback=called)
        try:
            yield received
        finally:
            stream.cancel()
            stream.result(SECONDS)


@pytest.fixture
def billing(penstock_project: Project) -> Billing:
    return Billing(penstock_project)


@pytest.mark.parametrize("creator", ["Google's client", "the admin API"])
def test_a_late_ack_counts_for_every_kind_of_subscription(billing: Billing, creator: str) -> None:
    """In Google Pub/Sub an ack after the deadline may still succeed, as long as the message was not delivered again."""
    billing.clock.freeze()
    if creator == "the admin API":
        billing.project.server.admin.post("/subscriptions", {"name": billing.name, "topic": billing.topic})
    else:
        billing.subscribe()
    billing.publish("one")
    (late,) = billing.pull()
    billing.clock.advance(60)
    billing.subscriber.acknowledge(subscription=billing.name, ack_ids=[late.ack_id])
    assert billing.pull() == []


def test_a_message_is_redelivered_after_its_deadline(billing: Billing) -> None:
    billing.clock.freeze()
    billing.subscribe(ack_deadline_seconds=30).publish("one")
    assert billing.texts() == ["one"]
    billing.clock.advance(29)
    assert billing.texts() == []
    billing.clock.advance(1)
    assert billing.texts() == ["one"]


def test_an_acked_message_is_never_redelivered(billing: Billing) -> None:
    billing.subscribe(ack_deadline_seconds=10).publish("one")
    (received,) = billing.pull()
    billing.subscriber.acknowledge(subscription=billing.name, ack_ids=[received.ack_id])
    billing.clock.advance(hours=24)
    assert billing.texts() == []


def test_the_backoff_doubles_up_to_ten_minutes(billing: Billing) -> None:
    policy = {"minimum_backoff": timedelta(seconds=10), "maximum_backoff": timedelta(seconds=600)}
    billing.subscribe(retry_policy=policy)
    billing.clock.freeze()
    began, seen = billing.clock.now, list[float]()
    with billing.listen(lambda message: message.nack()) as received:
        billing.publish("poison")
        received.get(timeout=SECONDS)
        for wait in (10, 20, 40, 80, 160, 320, 600, 600):
            billing.clock.advance(wait - 1)
            assert received.empty(), wait
            seen.append((billing.clock.advance(1) - began).total_seconds())
            received.get(timeout=SECONDS)
    assert seen == [10, 30, 70, 150, 310, 630, 1230, 1830]


def test_one_advance_delivers_every_retry_on_the_way(billing: Billing) -> None:
    policy = {"minimum_backoff": timedelta(seconds=10), "maximum_backoff": timedelta(seconds=600)}
    billing.subscribe(retry_policy=policy)
    billing.clock.freeze()
    # a busy machine may be slow; the clock moves on as soon as the client has answered
    billing.clock.patience_seconds = 10
    with billing.listen(lambda message: message.nack()) as received:
        billing.publish("poison")
        received.get(timeout=SECONDS)
        billing.clock.advance(10 + 20 + 40 + 80 + 160 + 320 + 600)
        for _ in range(7):
            received.get(timeout=SECONDS)
        assert received.empty()


def test_a_message_is_dead_lettered_after_the_fifth_failure(billing: Billing) -> None:
    dead, dead_sub = billing.project.topic("dead"), billing.project.subscription("dead")
    billing.publisher.create_topic(name=dead)
    billing.subscriber.create_subscription(name=dead_sub, topic=dead)
    billing.subscribe(
        ack_deadline_seconds=10, dead_letter_policy={"dead_letter_topic": dead, "max_delivery_attempts": 5}
    )
    billing.publish("bad")
    for attempt in range(1, 6):
        (received,) = billing.pull()
        assert received.delivery_attempt == attempt
        assert billing.pull(dead_sub) == []
        billing.clock.advance(10)
    assert billing.pull() == []
    (letter,) = billing.pull(dead_sub)
    assert letter.message.attributes["CloudPubSubDeadLetterSourceDeliveryCount"] == "5"
    assert letter.message.publish_time.timestamp() == pytest.approx(billing.clock.now.timestamp(), abs=1)


def test_after_seven_days_an_unacked_message_is_gone(billing: Billing) -> None:
    billing.subscribe(message_retention_duration=timedelta(days=7)).publish("old")
    billing.clock.advance(days=6, hours=23, minutes=59)
    billing.publish("young")
    billing.clock.advance(61)
    assert billing.texts() == ["young"]


def test_a_message_expires_exactly_at_the_end_of_its_retention(billing: Billing) -> None:
    """Leases, times to live and subscriptions end at their exact time, too."""
    billing.clock.freeze()
    billing.subscribe(message_retention_duration=timedelta(days=7)).publish("old")
    billing.clock.advance(days=7)
    assert billing.texts() == []


def test_an_unused_subscription_expires_after_its_ttl(billing: Billing) -> None:
    billing.subscribe(expiration_policy={"ttl": timedelta(days=1)})
    billing.clock.advance(days=1)
    with pytest.raises(NotFound):
        billing.subscriber.get_subscription(subscription=billing.name)


def test_a_subscription_with_an_open_stream_does_not_expire(billing: Billing) -> None:
    billing.subscribe(expiration_policy={"ttl": timedelta(days=1)})
    with billing.listen(lambda message: message.ack()) as received:
        billing.publish("are you there")
        received.get(timeout=SECONDS)
        billing.clock.advance(days=3)
        billing.publish("still")
        assert received.get(timeout=SECONDS).data == b"still"


def test_leases_of_a_running_listener_are_extended_for_an_hour(billing: Billing) -> None:
    """The client's default is an hour."""
    billing.subscribe(ack_deadline_seconds=10)
    billing.clock.freeze()
    with billing.listen() as received:
        billing.publish("long work")
        first = received.get(timeout=SECONDS)
        for seconds in (30, 30, 3500):
            billing.clock.advance(seconds)
            assert received.empty()
        billing.clock.advance(40)
        again = received.get(timeout=SECONDS)
        assert (again.message_id, again.data) == (first.message_id, b"long work")
        again.ack()
        first.ack()


def test_without_extension_a_message_is_redelivered_at_its_deadline(billing: Billing) -> None:
    billing.subscribe(ack_deadline_seconds=10)
    billing.clock.freeze()
    billing.clock.extension_seconds = 0
    with billing.listen() as received:
        billing.publish("long work")
        received.get(timeout=SECONDS)
        billing.clock.advance(61)
        received.get(timeout=SECONDS).ack()


def test_exactly_once_an_ack_after_the_deadline_is_refused(billing: Billing) -> None:
    billing.subscribe(ack_deadline_seconds=60, enable_exactly_once_delivery=True)
    billing.clock.freeze()
    billing.clock.extension_seconds = 0
    with billing.listen() as received:
        billing.publish("once")
        late = received.get(timeout=SECONDS)
        billing.clock.advance(61)
        in_time = received.get(timeout=SECONDS)
        with pytest.raises(AcknowledgeError):
            late.ack_with_response().result(SECONDS)
        in_time.ack_with_response().result(SECONDS)


def test_order_is_kept_after_a_nack(billing: Billing) -> None:
    policy = {"minimum_backoff": timedelta(seconds=60), "maximum_backoff": timedelta(seconds=60)}
    billing.subscribe(enable_message_ordering=True, retry_policy=policy)
    publisher = billing.project.google_publisher(publisher_options=PublisherOptions(enable_message_ordering=True))
    billing.clock.freeze()
    # a busy machine may be slow; the clock moves on as soon as the client has answered
    billing.clock.patience_seconds = 10
    failed, seen = threading.Event(), list[bytes]()

    def answer(message: Any) -> None:
        seen.append(message.data)
        if message.data == b"1" and not failed.is_set():
            failed.set()
            message.nack()
        else:
            message.ack()

    with billing.listen(answer):
        for text in (b"0", b"1", b"2"):
            publisher.publish(billing.topic, text, ordering_key="k").result(SECONDS)
        assert failed.wait(SECONDS)
        billing.clock.advance(60)
        billing.project.settle()
    assert seen[-2:] == [b"1", b"2"], "the client may have received 2 before; 1 and 2 must come last"


def test_a_waiting_pull_is_answered_when_a_message_is_due(billing: Billing, penstock: Server) -> None:
    billing.subscribe(ack_deadline_seconds=600).publish("one")
    billing.clock.freeze()
    billing.pull()
    answers: queue.Queue[Any] = queue.Queue()

    def wait() -> None:
        request = {"subscription": billing.name, "max_messages": 1}
        answers.put(billing.subscriber.pull(request, timeout=SECONDS).received_messages)

    waiting = threading.Thread(target=wait)
    waiting.start()
    while billing.clock.show()["next_due"] is None:  # until the pull waits
        pass
    billing.clock.advance(600)
    assert [each.message.data for each in answers.get(timeout=SECONDS)] == [b"one"]
    waiting.join(SECONDS)


def test_an_automatic_clock(billing: Billing) -> None:
    policy = {"minimum_backoff": timedelta(seconds=600), "maximum_backoff": timedelta(seconds=600)}
    billing.subscribe(retry_policy=policy)
    began = billing.clock.automatic()
    attempts = list[int]()

    def answer(message: Any) -> None:
        attempts.append(1)
        message.nack() if len(attempts) < 4 else message.ack()

    with billing.listen(answer) as received:
        billing.publish("poison")
        for _ in range(4):
            received.get(timeout=SECONDS)
    assert (billing.clock.now - began).total_seconds() >= 1800


def test_projects_have_separate_clocks(penstock: Server, billing: Billing) -> None:
    other = Billing(penstock.project()).subscribe(ack_deadline_seconds=10)
    billing.subscribe(ack_deadline_seconds=10)
    for each in (billing, other):
        each.publish("one")
        assert each.texts() == ["one"]
    billing.clock.advance(days=1)
    other.clock.freeze()
    assert billing.texts() == ["one"]
    assert other.texts() == []
    other.clock.advance(10)
    assert other.texts() == ["one"]
    assert 86390 < (billing.clock.now - other.clock.now).total_seconds() < 86400
    other.project.end()


# ---------------------------------------------------------------------- push


class Endpoint(ThreadingHTTPServer):
    """A web server that refuses a given number of requests, and then accepts."""

    def __init__(self, refusals: int) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refusals, self.calls = refusals, queue.Queue[int]()

    def __enter__(self) -> Endpoint:
        threading.Thread(target=self.serve_forever, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self.server_close()


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.refusals -= 1
        status = 500 if self.server.refusals >= 0 else 204
        self.send_response(status)
        self.end_headers()
        self.server.calls.put(status)

    def log_message(self, *_: object) -> None:
        pass


def test_push_is_retried_when_time_is_moved(billing: Billing) -> None:
    policy = {"minimum_backoff": timedelta(seconds=300), "maximum_backoff": timedelta(seconds=600)}
    billing.clock.freeze()
    with Endpoint(refusals=2) as endpoint:
        place = f"http://127.0.0.1:{endpoint.server_port}/push"
        billing.subscribe(push_config={"push_endpoint": place}, retry_policy=policy)
        billing.publish("push me")
        assert endpoint.calls.get(timeout=SECONDS) == 500
        billing.clock.advance(299)
        assert endpoint.calls.empty()
        billing.clock.advance(1)
        assert endpoint.calls.get(timeout=SECONDS) == 500
        billing.clock.advance(600)
        assert endpoint.calls.get(timeout=SECONDS) == 204
        billing.clock.advance(days=1)
        assert endpoint.calls.empty()


def test_the_clock_fixture_is_the_clock_of_the_project(penstock_clock: ProjectClock, billing: Billing) -> None:
    assert penstock_clock is billing.clock
    assert penstock_clock.mode == "shared"
    penstock_clock.freeze("2100-01-01T00:00:00Z")
    assert (penstock_clock.now.year, penstock_clock.mode) == (2100, "frozen")

"""Order, filters, replay and push of Pub/Sub."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from datetime import timedelta
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest
from billing import SECONDS, Listener, Shop
from google.api_core.exceptions import NotFound
from google.cloud.pubsub_v1.types import PublisherOptions

from penstock.testing import Project, ProjectClock

MINUTE = {"minimum_backoff": timedelta(seconds=60), "maximum_backoff": timedelta(seconds=60)}


def send_in_order(project: Project, shop: Shop, key: str, *texts: str) -> None:
    publisher = project.google_publisher(publisher_options=PublisherOptions(enable_message_ordering=True))
    for text in texts:
        publisher.publish(shop.orders, text.encode(), ordering_key=key).result(SECONDS)


class Failing:
    """A callback that nacks some orders on their first delivery and acks everything else."""

    def __init__(self, *texts: bytes) -> None:
        self._left = set(texts)
        self.failed = threading.Event()

    def __call__(self, message: Any) -> None:
        if message.data in self._left:
            self._left.discard(message.data)
            message.nack()
            self.failed.set()
        else:
            message.ack()


def test_after_a_nack_the_orders_of_a_customer_are_redelivered_in_order(
    shop: Shop, listener: Listener, penstock_project: Project
) -> None:
    shop.open(enable_message_ordering=True, retry_policy=MINUTE)
    penstock_project.clock.patience_seconds = 10  # on a slow machine an answer may take long to arrive
    failing = Failing(b"1")
    listener.start(failing)
    send_in_order(penstock_project, shop, "anna", "0", "1", "2")
    assert failing.failed.wait(SECONDS)
    penstock_project.clock.advance(60)
    penstock_project.settle()
    assert listener.texts[0] == "0"
    assert listener.texts[-2:] == ["1", "2"], "later messages come after the failed one"


def test_a_failing_order_does_not_delay_other_customers(
    shop: Shop, listener: Listener, penstock_project: Project
) -> None:
    shop.open(enable_message_ordering=True, retry_policy=MINUTE)
    penstock_project.clock.patience_seconds = 10  # on a slow machine an answer may take long to arrive
    failing = Failing(b"anna 0")
    listener.start(failing)
    send_in_order(penstock_project, shop, "anna", "anna 0", "anna 1")
    assert failing.failed.wait(SECONDS)
    send_in_order(penstock_project, shop, "bert", "bert 0", "bert 1")
    while listener.next().data != b"bert 1":
        pass
    with pytest.raises(AssertionError, match="'anna 0' delivered 1 time, waits until"):
        penstock_project.settle(seconds=0)
    penstock_project.clock.advance(60)
    penstock_project.settle()


def test_a_filter_delivers_only_matching_orders(shop: Shop, penstock_project: Project) -> None:
    shop.open(filter='attributes.kind = "new"')
    shop.order("one", kind="new")
    shop.order("two", kind="old")
    (received,) = shop.pull()
    shop.ack(received)
    penstock_project.subscription("billing").settle()
    penstock_project.topic("orders").published("two", attributes={"kind": "old"}, times=1)


def test_orders_of_the_last_hour_are_billed_again_after_a_seek(shop: Shop, penstock_clock: ProjectClock) -> None:
    shop.open(retain_acked_messages=True)
    shop.order("old")
    penstock_clock.advance(hours=2)
    shop.order("young")
    shop.ack(*shop.pull())
    assert shop.pull() == []
    shop.subscriber.seek({"subscription": shop.billing, "time": penstock_clock.now - timedelta(hours=1)})
    assert shop.pull_texts() == ["young"]


def test_a_seek_to_a_snapshot_redelivers_acked_orders_and_the_snapshot_expires(
    shop: Shop, penstock_project: Project
) -> None:
    shop.open()
    shop.order("one")
    snapshot = f"projects/{penstock_project.name}/snapshots/before-release"
    shop.subscriber.create_snapshot(name=snapshot, subscription=shop.billing)
    shop.ack(*shop.pull())
    shop.subscriber.seek({"subscription": shop.billing, "snapshot": snapshot})
    assert shop.pull_texts() == ["one"]
    penstock_project.clock.advance(days=7)
    with pytest.raises(NotFound):
        shop.subscriber.seek({"subscription": shop.billing, "snapshot": snapshot})


class Endpoint(ThreadingHTTPServer):
    """A push endpoint that refuses a set number of requests."""

    daemon_threads = True

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.refusals = 0
        self.answered: queue.Queue[int] = queue.Queue()


class Handler(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["content-length"]))
        self.server.refusals -= 1
        status = 503 if self.server.refusals >= 0 else 204
        self.send_response(status)
        self.end_headers()
        self.server.answered.put(status)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as endpoint:
        serving = threading.Thread(target=endpoint.serve_forever, args=(0.01,))
        serving.start()
        yield endpoint
        endpoint.shutdown()
        serving.join(SECONDS)


def test_a_refused_push_is_retried_after_its_backoff(shop: Shop, endpoint: Endpoint, penstock_project: Project) -> None:
    clock, endpoint.refusals = penstock_project.clock, 2
    clock.patience_seconds = 10
    policy = {"minimum_backoff": timedelta(seconds=300), "maximum_backoff": timedelta(seconds=600)}
    place = f"http://127.0.0.1:{endpoint.server_port}/bill"
    shop.open(push_config={"push_endpoint": place}, retry_policy=policy)
    order = shop.order("push me")
    assert endpoint.answered.get(timeout=SECONDS) == 503
    clock.advance(299)
    assert endpoint.answered.empty()
    clock.advance(1)
    assert endpoint.answered.get(timeout=SECONDS) == 503
    clock.advance(600)
    assert endpoint.answered.get(timeout=SECONDS) == 204
    billing = penstock_project.subscription("billing")
    billing.settle()
    assert [each.outcome for each in billing.deliveries(order)] == ["returned", "returned", "acked"]

"""The program under test: it bills the orders of a shop with a publisher, a subscription and a listener."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from concurrent.futures import Future
from typing import Any

from google.cloud import pubsub_v1

SECONDS = 60.0  # only a failing test waits this long


class BankClosedError(Exception):
    """The order cannot be billed now."""


class Shop:
    """A topic of orders and a subscription for billing."""

    def __init__(
        self, publisher: pubsub_v1.PublisherClient, subscriber: pubsub_v1.SubscriberClient, project: str
    ) -> None:
        self.publisher, self.subscriber = publisher, subscriber
        self.orders = f"projects/{project}/topics/orders"
        self.billing = f"projects/{project}/subscriptions/billing"
        publisher.create_topic(name=self.orders)

    def open(self, **options: Any) -> None:
        self.subscriber.create_subscription({"name": self.billing, "topic": self.orders, **options})

    def order(self, text: str, **attributes: str) -> str:
        return str(self.publisher.publish(self.orders, text.encode(), **attributes).result(SECONDS))

    def pull(self, subscription: str = "", most: int = 10) -> list[Any]:
        """Pull the available messages, without waiting."""
        request = {"subscription": subscription or self.billing, "max_messages": most, "return_immediately": True}
        return list(self.subscriber.pull(request, timeout=SECONDS).received_messages)

    def pull_texts(self, subscription: str = "") -> list[str]:
        return [each.message.data.decode() for each in self.pull(subscription)]

    def ack(self, *received: Any) -> None:
        self.subscriber.acknowledge(subscription=self.billing, ack_ids=[each.ack_id for each in received])

    def extend(self, received: Any, seconds: int) -> None:
        self.subscriber.modify_ack_deadline(
            subscription=self.billing, ack_ids=[received.ack_id], ack_deadline_seconds=seconds
        )


class Biller:
    """A listener that bills an order once, however often it is delivered."""

    def __init__(self, bank: Callable[[str], object] = lambda order: None) -> None:
        self._bank = bank
        self._one_at_a_time = threading.Lock()  # the client calls from several threads
        self.billed: list[str] = []

    def __call__(self, message: Any) -> None:
        order = message.data.decode()
        try:
            with self._one_at_a_time:
                if order not in self.billed:
                    self._bank(order)
                    self.billed.append(order)
        except BankClosedError:
            message.nack()
        else:
            message.ack()


class Listener:
    """A streaming pull that passes messages to a callback and records them."""

    def __init__(self, shop: Shop) -> None:
        self._shop = shop
        self._stream: Future[None] | None = None
        self.texts: list[str] = []  # data of received messages, in order
        self.received: queue.Queue[Any] = queue.Queue()  # messages that the callback has handled

    def start(self, callback: Callable[[Any], object] = lambda message: None) -> None:
        def called(message: Any) -> None:
            self.texts.append(message.data.decode())
            callback(message)
            self.received.put(message)

        self._stream = self._shop.subscriber.subscribe(self._shop.billing, callback=called)

    def next(self) -> Any:
        return self.received.get(timeout=SECONDS)

    def stop(self) -> None:
        if self._stream is not None:
            self._stream.cancel()
            self._stream.result(SECONDS)

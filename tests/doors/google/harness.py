"""A Google door over a queue in memory, in a thread with its own event loop, and a client for raw calls.

Calls use a real socket and the official gRPC library, but with plain messages, so that a test
determines exactly what is on the wire.
"""

from __future__ import annotations

import asyncio
import http.client
import itertools
import json
import logging
import threading
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import grpc

from penstock.assembly import SERVER_LIMITS
from penstock.doors.google import messages as m
from penstock.doors.google.dead_letters import source_attributes
from penstock.doors.google.options import GoogleOptions
from penstock.doors.google.server import GoogleDoor
from penstock.doors.google.services import POLICIES, PUBLISHER, SCHEMAS, SUBSCRIBER, methods
from penstock.doors.port import OPEN, Condition
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal
from tests.doors.stopping import stop

SECONDS = 20  # only a failing test waits this long
NUMBERS = itertools.count(1)


class Harness:
    def __init__(self, loop: asyncio.AbstractEventLoop, options: GoogleOptions, journal: Journal | None = None) -> None:
        self.loop = loop
        self.journal = journal or MemoryJournal()
        self.options = options
        self.condition = Condition()

    async def open(self) -> None:
        limits = replace(SERVER_LIMITS, retention_seconds=86400)  # like the server
        self.queue = AsyncMessageQueue(self.journal, limits=limits, describe_source=source_attributes)
        await self.queue.start()
        log = logging.getLogger("tests.google")
        self.door = GoogleDoor(
            host="127.0.0.1", port=0, queue=self.queue, condition=self.condition, log=log, options=self.options
        )
        await self.door.start()
        self.condition.doors["pubsub"] = OPEN
        self.address = self.door.address
        self.kinds = {
            f"{method.service}/{method.name}": method for method in methods(self.door._services, lambda: True)
        }

    async def close(self) -> None:
        await stop(self.door, self.queue, 1)
        await self.queue.close()

    def run(self, work: Callable[[], Awaitable[Any]]) -> Any:
        """Run work in the event loop of the door."""

        async def done() -> Any:
            return await work()

        return asyncio.run_coroutine_threadsafe(done(), self.loop).result(SECONDS)

    def connect(self) -> Client:
        return Client(self)


class Client:
    """A client with one channel, which calls methods by their names."""

    def __init__(self, harness: Harness) -> None:
        self.harness = harness
        self.channel = grpc.insecure_channel(
            harness.address, options=[("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1)]
        )

    def __enter__(self) -> Client:
        return self

    def __exit__(self, *_: object) -> None:
        self.channel.close()

    def call(self, method_name: str, request: Any = None, /, *, timeout: float = SECONDS, **fields: Any) -> Any:
        method = self._method(method_name)
        if request is None:
            request = method.request(**fields)
        stub = self.channel.unary_unary(method.path, _encode, method.response.FromString)
        return stub(request, timeout=timeout)

    def refused(self, method_name: str, request: Any = None, /, **fields: Any) -> tuple[str, str]:
        """Return the code and the text of a call that must fail."""
        try:
            self.call(method_name, request, **fields)
        except grpc.RpcError as error:
            return error.code().name, error.details()
        raise AssertionError(f"{method_name} was accepted")

    def stream(self, name: str, requests: Iterator[Any], timeout: float = SECONDS) -> Any:
        method = self._method(name)
        return self.channel.stream_stream(method.path, _encode, method.response.FromString)(requests, timeout=timeout)

    def _method(self, name: str) -> Any:
        for service in (PUBLISHER, SUBSCRIBER, SCHEMAS, POLICIES):
            method = self.harness.kinds.get(f"{service}/{name}")
            if method is not None:
                return method
        raise KeyError(name)

    # First steps that many tests share.

    def topic(self, **fields: Any) -> str:
        name = f"projects/test/topics/topic-{next(NUMBERS)}"
        self.call("CreateTopic", name=name, **fields)
        return name

    def subscription(self, topic: str, **fields: Any) -> str:
        name = f"projects/test/subscriptions/subscription-{next(NUMBERS)}"
        self.call("CreateSubscription", name=name, topic=topic, **fields)
        return name

    def publish(self, topic: str, *bodies: bytes, **fields: Any) -> list[str]:
        messages = [m.PubsubMessage(data=body, **fields) for body in bodies]
        return list(self.call("Publish", topic=topic, messages=messages).message_ids)

    def pull(self, subscription: str, max_messages: int = 100, *, timeout: float = 1.5) -> list[Any]:
        answer = self.call("Pull", subscription=subscription, max_messages=max_messages, timeout=timeout)
        return list(answer.received_messages)

    def ack(self, subscription: str, *received: Any) -> None:
        self.call("Acknowledge", subscription=subscription, ack_ids=[each.ack_id for each in received])

    def nack(self, subscription: str, *received: Any) -> None:
        ids = [each.ack_id for each in received]
        self.call("ModifyAckDeadline", subscription=subscription, ack_ids=ids, ack_deadline_seconds=0)


def _encode(message: Any) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


class Requests:
    """The requests of a stream, sent one by one until it is closed."""

    def __init__(self, *first: Any) -> None:
        self._waiting = list(first)
        self._changed = threading.Condition()
        self._closed = False

    def send(self, request: Any) -> None:
        with self._changed:
            self._waiting.append(request)
            self._changed.notify()

    def close(self) -> None:
        with self._changed:
            self._closed = True
            self._changed.notify()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        with self._changed:
            self._changed.wait_for(lambda: self._waiting or self._closed)
            if not self._waiting:
                raise StopIteration
            return self._waiting.pop(0)


@contextmanager
def opened(options: GoogleOptions | None = None, journal: Journal | None = None) -> Iterator[Harness]:
    loop = asyncio.new_event_loop()
    thread = threading.Thread(target=loop.run_forever, name="google-door", daemon=True)
    thread.start()
    harness = Harness(loop, options or GoogleOptions(reset=True, push_allow=("127.0.0.0/8",)), journal)
    try:
        harness.run(harness.open)
        yield harness
    finally:
        harness.run(harness.close)
        loop.call_soon_threadsafe(loop.stop)
        thread.join(SECONDS)
        loop.close()


def rest(address: str, verb: str, path: str, body: Any = None, **headers: str) -> tuple[int, Any]:
    """Send one request over HTTP/1.1. Return the status, and the body, decoded if it is JSON."""
    host, _, port = address.rpartition(":")
    connection = http.client.HTTPConnection(host, int(port), timeout=SECONDS)
    try:
        content = body if isinstance(body, bytes | None) else json.dumps(body).encode()
        connection.request(verb, path, content, {name.replace("_", "-"): value for name, value in headers.items()})
        response = connection.getresponse()
        answer = response.read()
        is_json = response.headers.get("Content-Type", "").startswith("application/json")
        return response.status, json.loads(answer) if is_json else answer
    finally:
        connection.close()


def eventually(check: Callable[[], Any], seconds: float = SECONDS) -> Any:
    """Call `check` until it returns a true value, and return that. For changes without a notification."""
    until = threading.Event()
    for _ in range(int(seconds / 0.02)):
        answer = check()
        if answer:
            return answer
        until.wait(0.02)
    raise AssertionError("the expected change did not happen")

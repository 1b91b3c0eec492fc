"""Pub/Sub over gRPC and REST, for the actors of the soak."""

from __future__ import annotations

import base64
import http.client
import json
import queue
import threading
from collections.abc import Iterable
from typing import Any

import grpc

from penstock.doors.google import messages as m
from tests.soak.actors import SECONDS, Connection

PUBLISHER, SUBSCRIBER = "/google.pubsub.v1.Publisher/", "/google.pubsub.v1.Subscriber/"
PULL = m.message("google.pubsub.v1.PullRequest")
ACKNOWLEDGE = m.message("google.pubsub.v1.AcknowledgeRequest")
MODIFY = m.message("google.pubsub.v1.ModifyAckDeadlineRequest")
AT_ONCE = 10


class Grpc:
    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, options=[("grpc.use_local_subchannel_pool", 1)])

    def call(self, path: str, request: Any, answer: Any = None) -> Any:
        stub = self.channel.unary_unary(path, None, answer.FromString if answer else None)
        return stub(request.SerializeToString(), timeout=SECONDS)

    def hang_up(self) -> None:
        self.channel.close()

    def publish(self, topic: str, bodies: list[str]) -> None:
        parts = [body.split("|") for body in bodies]
        messages = [
            m.PubsubMessage(data=body.encode(), ordering_key=part[1] if len(part) == 3 else "")
            for body, part in zip(bodies, parts, strict=True)
        ]
        self.call(PUBLISHER + "Publish", m.PublishRequest(topic=topic, messages=messages))


class Pull(Connection):
    """A consumer that sends one Pull after the other."""

    def __init__(self, address: str, subscription: str) -> None:
        self._grpc = Grpc(address)
        self._subscription = subscription

    def take(self) -> Iterable[tuple[str, str]]:
        request = PULL(subscription=self._subscription, max_messages=AT_ONCE, return_immediately=True)
        answer = self._grpc.call(SUBSCRIBER + "Pull", request, m.PullResponse)
        return [(each.message.data.decode(), each.ack_id) for each in answer.received_messages]

    def ack(self, receipt: str) -> bool:
        try:
            self._grpc.call(SUBSCRIBER + "Acknowledge", ACKNOWLEDGE(subscription=self._subscription, ack_ids=[receipt]))
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT):
                raise
            return False  # too late, as an exactly-once subscription reports
        return True

    def give_back(self, receipt: str) -> None:
        request = MODIFY(subscription=self._subscription, ack_ids=[receipt], ack_deadline_seconds=0)
        try:
            self._grpc.call(SUBSCRIBER + "ModifyAckDeadline", request)
        except grpc.RpcError as error:
            if error.code() not in (grpc.StatusCode.FAILED_PRECONDITION, grpc.StatusCode.INVALID_ARGUMENT):
                raise

    def hang_up(self) -> None:
        self._grpc.channel.close()


class Streaming(Connection):
    """A StreamingPull consumer. An ack has no answer, so none is confirmed."""

    def __init__(self, address: str, subscription: str) -> None:
        self._grpc = Grpc(address)
        self._requests: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._requests.put(
            m.StreamingPullRequest(
                subscription=subscription, stream_ack_deadline_seconds=10, max_outstanding_messages=20
            )
        )
        open_stream = self._grpc.channel.stream_stream(
            SUBSCRIBER + "StreamingPull",
            lambda request: request.SerializeToString(),
            m.StreamingPullResponse.FromString,
        )
        self._stream = open_stream(iter(self._requests.get, None))
        self._arrived: queue.SimpleQueue[Any] = queue.SimpleQueue()
        self._reader = _Reader(self._stream, self._arrived)
        self._reader.start()

    def take(self) -> Iterable[tuple[str, str]]:
        try:
            response = self._arrived.get(timeout=0.2)
        except queue.Empty:
            return []
        if isinstance(response, Exception):
            raise response
        return [(each.message.data.decode(), each.ack_id) for each in response.received_messages]

    def ack(self, receipt: str) -> bool:
        self._requests.put(m.StreamingPullRequest(ack_ids=[receipt]))
        return False

    def give_back(self, receipt: str) -> None:
        self._requests.put(m.StreamingPullRequest(modify_deadline_ack_ids=[receipt], modify_deadline_seconds=[0]))

    def hang_up(self) -> None:
        self._reader.expected = True
        self._requests.put(None)
        self._stream.cancel()
        self._grpc.channel.close()
        self._reader.join(SECONDS)


class _Reader(threading.Thread):
    """A thread that passes on the responses of a stream."""

    def __init__(self, stream: Any, arrived: queue.SimpleQueue[Any]) -> None:
        super().__init__(daemon=True)
        self.expected = False  # the end of the stream
        self._stream = stream
        self._arrived = arrived

    def run(self) -> None:
        try:
            for response in self._stream:
                self._arrived.put(response)
        except grpc.RpcError as error:
            if not self.expected:
                self._arrived.put(error)


class Rest(Connection):
    def __init__(self, address: tuple[str, int], subscription: str = "") -> None:
        self._connection = http.client.HTTPConnection(*address, timeout=SECONDS)
        self._subscription = subscription

    def ask(self, path: str, **body: Any) -> Any:
        self._connection.request("POST", f"/v1/{path}", json.dumps(body), {"Content-Type": "application/json"})
        response = self._connection.getresponse()
        content = response.read()
        assert response.status == 200, (response.status, content)
        return json.loads(content)

    def publish(self, topic: str, bodies: list[str]) -> None:
        self.ask(f"{topic}:publish", messages=[{"data": base64.b64encode(body.encode()).decode()} for body in bodies])

    def take(self) -> Iterable[tuple[str, str]]:
        answer = self.ask(f"{self._subscription}:pull", maxMessages=AT_ONCE, returnImmediately=True)
        received = answer.get("receivedMessages", [])
        return [(base64.b64decode(each["message"]["data"]).decode(), each["ackId"]) for each in received]

    def ack(self, receipt: str) -> bool:
        self.ask(f"{self._subscription}:acknowledge", ackIds=[receipt])
        return True

    def give_back(self, receipt: str) -> None:
        self.ask(f"{self._subscription}:modifyAckDeadline", ackIds=[receipt], ackDeadlineSeconds=0)

    def hang_up(self) -> None:
        self._connection.close()

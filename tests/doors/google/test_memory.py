"""The memory of incomplete requests, cancelled calls and unread answers is released with them.

The cyclic garbage collector is off in these tests. Objects that need it would accumulate in a server, because the
collector runs by the number of objects, and large bodies are few objects.
"""

from __future__ import annotations

import gc
import logging
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest

from penstock.doors.google import messages as m
from penstock.doors.google.calls import Context, StreamingCall, UnaryCall
from penstock.doors.google.framing import frame_message
from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack
from penstock.doors.google.http2.body import Body
from penstock.doors.google.http2.connection import Http2Connection
from penstock.doors.google.http2.stream import Stream
from penstock.doors.google.options import GoogleOptions
from penstock.doors.google.rest_over_http2 import RestCall
from penstock.doors.google.server import NewConnection
from tests.doors.google.harness import Harness, eventually, opened, rest
from tests.doors.google.test_http2 import GET_TOPIC, connected, request

PUBLISH = "/google.pubsub.v1.Publisher/Publish"
PULL = "/google.pubsub.v1.Subscriber/Pull"
STREAMING_PULL = "/google.pubsub.v1.Subscriber/StreamingPull"
MEGABYTE = bytes((1 << 20) - 100)  # the maximum size of a frame
PARTIAL = b"\0\0\x80\0\0"  # a message of 8 MiB is announced
TOPIC, SUBSCRIPTION = "projects/memory/topics/abc", "projects/memory/subscriptions/abc"
OF_A_CALL = (Body, Http2Connection, Context, NewConnection, RestCall, Stream, StreamingCall, UnaryCall)
TOKEN = "a-good-token"


@pytest.fixture(scope="module")
def known(harness: Harness) -> Harness:
    with harness.connect() as client:
        client.call("CreateTopic", name=TOPIC)
        client.call("CreateSubscription", name=SUBSCRIPTION, topic=TOPIC)
    return harness


class Watch:
    """Return the objects that were created since the watch began and still exist."""

    def __init__(self) -> None:
        gc.collect()
        self._before = {id(each): each for each in _of_calls()}

    def left(self) -> list[str]:
        return sorted(type(each).__name__ for each in _of_calls() if id(each) not in self._before)


def _of_calls() -> list[object]:
    return [each for each in gc.get_objects() if issubclass(type(each), OF_A_CALL)]  # a proxy may be dead


@contextmanager
def without_collector() -> Iterator[Watch]:
    watch = Watch()
    gc.disable()
    try:
        yield watch
    finally:
        gc.enable()


def data(content: bytes, number: int = 1, *, end: bool = False) -> bytes:
    return h2.frame(h2.DATA, h2.END_STREAM if end else 0, number, content)


def rest_post(number: int) -> bytes:
    plain = [(":method", "POST"), (":scheme", "http"), (":path", f"/v1/{TOPIC}:publish"), (":authority", "localhost")]
    return h2.frame(h2.HEADERS, h2.END_HEADERS, number, hpack.encode(plain))


PULLING = frame_message(
    m.message("google.pubsub.v1.PullRequest")(subscription=SUBSCRIPTION, max_messages=1).SerializeToString()
)
LISTENING = frame_message(
    m.StreamingPullRequest(subscription=SUBSCRIPTION, stream_ack_deadline_seconds=10).SerializeToString()
)
PUBLISHING = frame_message(m.PublishRequest(topic=TOPIC, messages=[m.PubsubMessage(data=MEGABYTE)]).SerializeToString())
RESET = h2.rst_stream(1, 8)
ABORTED = {
    "a body without end": [request(1, PUBLISH), *[data(MEGABYTE)] * 11],
    "five of them": [part for n in (1, 3, 5, 7, 9) for part in (request(n, PUBLISH), data(MEGABYTE, n))],
    "a body that is reset": [request(1, PUBLISH), data(MEGABYTE), RESET],
    "headers alone": [request(1, PUBLISH)],
    "a publish, and gone": [request(1, PUBLISH), data(PUBLISHING, end=True)],
    "a publish, and reset": [request(1, PUBLISH), data(PUBLISHING, end=True), RESET],
    "a body that is no message": [request(1, PUBLISH), data(b"\0\0\0\0\x01\xff", end=True)],
    "a call that fails": [request(1, GET_TOPIC), data(frame_message(b"\n\x01x"), end=True)],
    "a pull that waits": [request(1, PULL), data(PULLING, end=True)],
    "a pull that is reset at once": [request(1, PULL), data(PULLING, end=True), RESET],
    "a stream": [request(1, STREAMING_PULL), data(LISTENING)],
    "a stream that is reset at once": [request(1, STREAMING_PULL), RESET],
    "half a message on a stream": [request(1, STREAMING_PULL), data(PARTIAL + MEGABYTE)],
    "half a message behind a whole one": [request(1, STREAMING_PULL), data(LISTENING + PARTIAL + MEGABYTE)],
    "REST without end": [rest_post(1), data(MEGABYTE)],
    "REST that is reset": [rest_post(1), data(MEGABYTE), RESET],
    "a broken protocol": [request(1, PUBLISH), data(MEGABYTE), h2.frame(h2.PING, 0, 1, b"12345678")],
    "a malformed body": [request(1, PUBLISH, ("content-length", "1")), data(MEGABYTE)],
    "an unknown method": [request(1, "/x/y"), data(MEGABYTE)],
}


@pytest.mark.parametrize("sent", ABORTED.values(), ids=ABORTED.keys())
def test_an_aborted_request_leaves_no_memory(
    known: Harness, sent: list[bytes], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)  # log records are kept, and must not refer to messages
    with without_collector() as watch:
        with connected(known) as peer:
            peer.greet()
            peer.send(*sent)
            peer.send(h2.frame(h2.PING, 0, 0, b"the last"))
            while (frame := peer.next()) is not None and frame[3] != b"the last":
                pass
        eventually(lambda: not watch.left())
        eventually(lambda: not known.door._calls.tasks)  # a task is removed one turn of the loop after its end
    assert known.door.budget.in_use_bytes == 0
    assert not known.door._calls.streaming


def test_input_after_the_end_of_a_call_is_not_kept(known: Harness) -> None:
    """The client of a failed stream does not read the last message or the status, and continues to send."""
    with known.connect() as client:
        client.call("Publish", topic=TOPIC, messages=[m.PubsubMessage(data=b"x")])
    with connected(known) as peer:
        peer.greet(window=0)
        peer.send(request(1, STREAMING_PULL), data(LISTENING))
        peer.until(h2.HEADERS)
        eventually(lambda: known.door.budget.in_use_bytes > 8 << 10)  # the message waits
        peer.send(data(LISTENING))  # a stream must not name its subscription twice
        eventually(lambda: not known.door._calls.tasks)
        peer.send(data(PARTIAL + MEGABYTE), h2.settings({4: 1 << 30}), h2.window_update(0, 1 << 30))
        assert peer.answer(1)["grpc-status"] == "3"
        peer.send(h2.frame(h2.PING, 0, 0, b"the last"))
        assert peer.until(h2.PING)[3] == b"the last"
        assert known.door.budget.in_use_bytes < 100_000


def test_calls_that_end_by_their_deadline_leave_no_memory(known: Harness) -> None:
    """Publishes of 9 MB with a deadline of 4 ms."""
    body = m.PublishRequest(topic=TOPIC, messages=[m.PubsubMessage(data=bytes(9_000_000))]).SerializeToString()
    with known.connect() as client:
        publish = client.channel.unary_unary(PUBLISH)
        client.call("GetTopic", topic=TOPIC)
        with without_collector() as watch:
            ended = []
            while len(ended) < 6:  # on a busy machine the client may check its clock too late
                try:
                    publish(body, timeout=0.004)
                except grpc.RpcError as error:
                    ended.append(error.code())
            assert set(ended) == {grpc.StatusCode.DEADLINE_EXCEEDED}
            eventually(lambda: known.door.budget.in_use_bytes < 1 << 20)
            eventually(lambda: not watch.left())


# ---------------------------------------------------------------------- credentials are checked first


@pytest.fixture(scope="module")
def guarded() -> Iterator[Harness]:
    with opened(GoogleOptions(tokens=(TOKEN,))) as harness:
        yield harness


@pytest.mark.parametrize("path", [PUBLISH, STREAMING_PULL, "/no/such"])
@pytest.mark.parametrize("header", [(), (("authorization", "Bearer wrong"),)], ids=["no token", "a wrong token"])
def test_a_call_without_a_token_is_refused_by_its_headers(
    guarded: Harness, path: str, header: tuple[tuple[str, str], ...]
) -> None:
    """The body is neither needed for the refusal nor stored."""
    with connected(guarded) as peer:
        peer.greet()
        peer.send(request(1, path, *header))
        assert peer.answer(1)["grpc-status"] == "16"
        peer.send(*[data(MEGABYTE)] * 11, h2.frame(h2.PING, 0, 0, b"the last"))
        while (frame := peer.next()) is not None and frame[3] != b"the last":
            assert frame[0] != h2.GOAWAY
        assert guarded.door.budget.in_use_bytes < 1 << 20


def test_a_call_with_a_token_is_served(guarded: Harness) -> None:
    with connected(guarded) as peer:
        peer.greet()
        peer.send(request(1, GET_TOPIC, ("authorization", f"Bearer {TOKEN}")), data(frame_message(b""), end=True))
        assert peer.answer(1)["grpc-status"] == "3"


def test_a_rest_request_without_a_token_is_refused_by_its_headers(guarded: Harness) -> None:
    with connected(guarded) as peer:
        peer.greet()
        peer.send(rest_post(1))
        assert peer.answer(1)[":status"] == "401"
    assert rest(guarded.address, "GET", "/") == (200, b"Ok\n")


def test_an_unknown_method_is_refused_by_its_headers(known: Harness) -> None:
    with connected(known) as peer:
        peer.greet()
        peer.send(request(1, "/no/such"))
        assert peer.answer(1)["grpc-status"] == "12"


# ---------------------------------------------------------------------- the budget


@pytest.fixture
def narrow(known: Harness) -> Iterator[Harness]:
    """A door with memory for a few requests."""
    budget = known.door.budget
    before = budget.most_bytes
    budget.most_bytes = 4 << 20
    try:
        yield known
    finally:
        budget.most_bytes = before


def test_more_bodies_than_memory_are_refused_one_by_one(narrow: Harness) -> None:
    """The request without memory is refused. The others on the same connection continue."""
    with connected(narrow) as peer:
        peer.greet()
        peer.send(request(1, PUBLISH), data(PUBLISHING[:900_000]))
        refused = {}
        for number in range(3, 13, 2):
            peer.send(request(number, PUBLISH), data(MEGABYTE, number))
        peer.send(data(PUBLISHING[900_000:], end=True))
        while "1" not in refused:
            _, flags, number, payload = peer.until(h2.HEADERS)
            fields = dict(peer.decoder.decode(payload))
            if flags & h2.END_STREAM:
                refused[str(number)] = fields["grpc-status"]
    assert refused.pop("1") == "0"
    assert set(refused.values()) == {"8"}
    eventually(lambda: narrow.door.budget.in_use_bytes == 0)


def test_an_answer_that_is_not_read_makes_room_for_others(narrow: Harness) -> None:
    """gRPC maps this reset to RESOURCE_EXHAUSTED."""
    with narrow.connect() as client:
        topic = client.topic()
        subscription = client.subscription(topic)
        client.call("Publish", topic=topic, messages=[m.PubsubMessage(data=bytes(1_000_000))] * 3)
        narrow.door.budget.most_bytes = 2 << 20
        with connected(narrow) as peer:
            peer.greet(window=0)
            peer.call(1, PULL, m.message("google.pubsub.v1.PullRequest")(subscription=subscription, max_messages=3))
            assert peer.answer(1)["grpc-status"] == "8"
        assert client.call("GetTopic", topic=TOPIC).name == TOPIC
    eventually(lambda: narrow.door.budget.in_use_bytes == 0)


def test_many_large_requests_at_a_time_never_wait_for_each_other(known: Harness) -> None:
    """Interleaved requests that exceed the window of the connection together do not wait for each other."""
    size, count = 1 << 20, 90  # 90 MiB in total
    body = frame_message(
        m.PublishRequest(topic=TOPIC, messages=[m.PubsubMessage(data=bytes(size))]).SerializeToString()
    )
    numbers = range(1, 2 * count, 2)
    with connected(known) as peer:
        peer.greet()
        window = h2.DEFAULT_WINDOW
        peer.send(*[request(number, PUBLISH) for number in numbers])
        for at in range(0, len(body), 64 << 10):
            for number in numbers:
                part = body[at : at + (64 << 10)]
                while window < len(part):
                    frame = peer.next()
                    assert frame is not None, "closed"
                    if frame[:3] == (h2.WINDOW_UPDATE, 0, 0):
                        window += h2.read_number(frame[3])
                window -= len(part)
                peer.send(data(part, number, end=at + (64 << 10) >= len(body)))
        statuses = [peer.answer(number) for number in numbers[-1:]]
    assert statuses[0]["grpc-status"] == "0"


def test_padding_never_uses_up_a_stream(known: Harness) -> None:
    """The window of padding is given back. Otherwise a long-lived stream would stop."""
    with connected(known) as peer:
        peer.greet()
        peer.send(request(1, STREAMING_PULL), data(PARTIAL))
        stream = 0
        padded = h2.frame(h2.DATA, h2.PADDED, 1, b"\xfe" + b"\0" * 255)  # one byte of each frame is content
        for _ in range(70):  # 17 MiB
            peer.send(padded * 1000)
        peer.send(h2.frame(h2.PING, 0, 0, b"the last"))
        while (frame := peer.next()) is not None and frame[3] != b"the last":
            stream += h2.read_number(frame[3]) if frame[:3] == (h2.WINDOW_UPDATE, 0, 1) else 0
    assert stream >= 16 << 20

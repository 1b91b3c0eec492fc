"""The HTTP/2 transport, byte by byte: the rules of RFC 9113, and hostile peers."""

from __future__ import annotations

import select
import socket
import ssl
import struct
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import trustme

from penstock.doors.google import messages as m
from penstock.doors.google import server
from penstock.doors.google.framing import frame_message
from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack
from penstock.doors.google.http2.limits import Http2Limits
from penstock.doors.google.options import GoogleOptions
from penstock.wire import serving
from tests.doors.google.harness import SECONDS, Client, Harness, eventually, opened, rest

HEADERS = [
    (":method", "POST"),
    (":scheme", "http"),
    (":authority", "localhost"),
    ("te", "trailers"),
    ("content-type", "application/grpc"),
]


class Peer:
    """A client that sends exactly the given bytes."""

    def __init__(self, harness: Harness) -> None:
        host, _, port = harness.address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), SECONDS)
        self.reader = h2.FrameReader(1 << 24)
        self.decoder = hpack.Decoder()
        self.frames: list[tuple[int, int, int, bytes]] = []

    def send(self, *frames: bytes) -> None:
        self.socket.sendall(b"".join(frames))

    def greet(self, **settings: int) -> None:
        values = {"window": 4, "frame": 5}
        self.send(h2.PREFACE, h2.settings({values[name]: value for name, value in settings.items()}))

    def next(self) -> tuple[int, int, int, bytes] | None:
        """Return the next frame, or None when the server has closed the connection."""
        while not self.frames:
            try:
                data = self.socket.recv(1 << 16)
            except ConnectionError:
                return None
            if not data:
                return None
            self.frames += self.reader.feed(data)
        return self.frames.pop(0)

    def until(self, kind: int) -> tuple[int, int, int, bytes]:
        while (frame := self.next()) is not None:
            if frame[0] == kind:
                return frame
        raise AssertionError(f"closed before a frame of kind {kind}")

    def goaway(self) -> int:
        """Return the code of the GOAWAY, after which the server closes the connection."""
        payload = self.until(h2.GOAWAY)[3]
        code: int = struct.unpack(">LL", payload)[1]
        while self.next() is not None:
            pass
        return code

    def call(self, number: int, path: str, message: Any, *, end: bool = True) -> None:
        self.send(
            request(number, path),
            h2.frame(h2.DATA, h2.END_STREAM if end else 0, number, frame_message(encode(message))),
        )

    def answer(self, number: int) -> dict[str, str]:
        """Return the headers and trailers of the answer on a stream."""
        headers: dict[str, str] = {}
        while True:
            frame = self.next()
            assert frame is not None, "closed"
            kind, flags, stream, payload = frame
            if kind == h2.HEADERS:
                headers |= dict(self.decoder.decode(payload))
            if stream == number and flags & h2.END_STREAM and kind in (h2.HEADERS, h2.DATA):
                return headers
            if kind == h2.RST_STREAM and stream == number:
                return {"reset": str(h2.read_number(payload))}


def encode(message: Any) -> bytes:
    return message if isinstance(message, bytes) else message.SerializeToString()


def request(number: int, path: str, *more: tuple[str, str], flags: int = h2.END_HEADERS) -> bytes:
    return h2.frame(h2.HEADERS, flags, number, hpack.encode([(":path", path), *HEADERS, *more]))


GET_TOPIC = "/google.pubsub.v1.Publisher/GetTopic"
PING = h2.frame(h2.PING, 0, 0, b"12345678")
ASKING = m.message("google.pubsub.v1.GetTopicRequest")(topic="projects/p/topics/missing")


@pytest.fixture
def peer(harness: Harness) -> Iterator[Peer]:
    with connected(harness) as peer:
        yield peer


@contextmanager
def connected(harness: Harness) -> Iterator[Peer]:
    peer = Peer(harness)
    try:
        yield peer
    finally:
        peer.socket.close()


def test_a_call_in_one_piece(peer: Peer) -> None:
    peer.greet()
    peer.call(1, GET_TOPIC, ASKING)
    answer = peer.answer(1)
    assert (answer[":status"], answer["grpc-status"]) == ("200", "5")
    assert answer["grpc-message"] == "Resource not found (resource=missing)."


def test_a_call_in_many_pieces(peer: Peer) -> None:
    block = hpack.encode([(":path", GET_TOPIC), *HEADERS, ("x-padding", "x" * 500)])
    pieces = [
        h2.PREFACE,
        h2.settings({}),
        h2.frame(h2.HEADERS, h2.PADDED | h2.WITH_PRIORITY, 1, b"\x02" + b"\0" * 5 + block[:10] + b"\0\0"),
        h2.frame(h2.CONTINUATION, 0, 1, block[10:100]),
        h2.frame(h2.CONTINUATION, h2.END_HEADERS, 1, block[100:]),
        h2.frame(h2.PRIORITY, 0, 1, b"\0" * 5),
        h2.frame(0xBE, 0, 1, b"an unknown kind"),
        h2.frame(h2.DATA, h2.PADDED, 1, b"\x03" + frame_message(encode(ASKING))[:7] + b"\0\0\0"),
        h2.frame(h2.DATA, 0, 1, frame_message(encode(ASKING))[7:]),
        h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 1, hpack.encode([("x-trailer", "1")])),
    ]
    for byte in b"".join(pieces):
        peer.socket.sendall(bytes([byte]))
    assert peer.answer(1)["grpc-status"] == "5"


def test_a_ping_is_answered_and_settings_are_acknowledged(peer: Peer) -> None:
    peer.greet()
    peer.send(h2.frame(h2.PING, 0, 0, b"12345678"))
    seen = [peer.next() for _ in range(4)]
    assert (h2.SETTINGS, h2.ACK, 0, b"") in seen
    assert (h2.PING, h2.ACK, 0, b"12345678") in seen


def test_nothing_is_sent_beyond_the_peer_s_window(harness: Harness, client: Client, peer: Peer) -> None:
    topic = client.topic()
    subscription = client.subscription(topic)
    client.publish(topic, b"x" * 200_000)
    peer.greet(window=1000)
    asking = m.message("google.pubsub.v1.PullRequest")(subscription=subscription, max_messages=1)
    peer.call(1, "/google.pubsub.v1.Subscriber/Pull", asking)
    size = len(peer.until(h2.DATA)[3])
    assert size == 1000
    peer.send(h2.window_update(1, 500))
    assert len(peer.until(h2.DATA)[3]) == 500
    peer.send(h2.window_update(1, 1 << 20), h2.window_update(0, 1 << 20))
    total = 1500
    while total < 200_000:
        frame = peer.until(h2.DATA)
        assert len(frame[3]) <= 16384
        total += len(frame[3])
    assert peer.answer(1)["grpc-status"] == "0"


def test_a_window_given_by_settings_reaches_open_streams(harness: Harness, client: Client, peer: Peer) -> None:
    topic = client.topic()
    subscription = client.subscription(topic)
    client.publish(topic, b"x" * 20_000)
    peer.greet(window=0)
    asking = m.message("google.pubsub.v1.PullRequest")(subscription=subscription, max_messages=1)
    peer.call(1, "/google.pubsub.v1.Subscriber/Pull", asking)
    peer.until(h2.HEADERS)
    peer.send(h2.settings({4: 100_000, 5: 1 << 20}))
    assert len(peer.until(h2.DATA)[3]) > 20_000


def test_a_connection_that_is_not_http_2_is_closed(harness: Harness) -> None:
    with connected(harness) as peer:
        peer.send(b"PRI * HT")
        peer.until(h2.SETTINGS)
        peer.send(b"TTP/2.0")
        assert peer.goaway() == h2.PROTOCOL_ERROR


@pytest.mark.parametrize(
    "flood",
    [
        h2.frame(h2.PING, 0, 0, b"12345678") * 60_000,
        h2.settings({}) * 60_000,
        h2.frame(h2.PRIORITY, 0, 1, b"\0" * 5) * 60_000,
        b"".join(request(number, GET_TOPIC) + h2.rst_stream(number, 8) for number in range(3, 4003, 2)),
    ],
    ids=["pings", "settings", "priorities", "rapid resets"],
)
def test_a_flood_ends_its_own_connection_only(harness: Harness, client: Client, flood: bytes) -> None:
    topic, before = client.topic(), harness.door.counts["flood"]
    with connected(harness) as peer:
        peer.greet()
        peer.socket.setblocking(False)
        _pour(peer, flood)
        while peer.next() is not None:  # closed soon after
            pass
    assert client.publish(topic, b"others go on")
    assert harness.door.counts["flood"] == before + 1


def _pour(peer: Peer, data: bytes) -> None:
    """Send until the server closes the connection."""
    sent = 0
    while sent < len(data):
        readable, writable, _ = select.select([peer.socket], [peer.socket], [], SECONDS)
        try:
            if readable and not peer.socket.recv(1 << 16):
                break
            if writable:
                sent += peer.socket.send(data[sent : sent + 65536])
        except BlockingIOError:
            continue
        except ConnectionError:
            break
    peer.socket.setblocking(True)


def test_pings_of_a_busy_client_are_no_flood(monkeypatch: pytest.MonkeyPatch) -> None:
    """The flood budget is not restored by time in this test."""
    monkeypatch.setattr(server, "Http2Limits", lambda: Http2Limits(flood_budget=1000, flood_budget_per_second=0))
    with opened() as harness, connected(harness) as peer:
        peer.greet()
        number = 1
        for _ in range(20):
            calls = []
            for _ in range(100):  # as many pings and updates as calls; without the calls they would be a flood
                body = h2.frame(h2.DATA, h2.END_STREAM, number, frame_message(encode(ASKING)))
                calls += [
                    request(number, GET_TOPIC),
                    body,
                    h2.frame(h2.PING, 0, 0, b"12345678"),
                    h2.window_update(0, 1),
                ]
                number += 2
            peer.send(*calls)
            assert peer.answer(number - 2)["grpc-status"] == "5"


def test_headers_without_end_are_cut_off(peer: Peer) -> None:
    peer.greet()
    peer.send(request(1, "/x", flags=0), *[h2.frame(h2.CONTINUATION, 0, 1, b"x" * 4000)] * 40)
    assert peer.goaway() == h2.ENHANCE_YOUR_CALM


def test_headers_that_decompress_beyond_the_limit_are_refused(peer: Peer) -> None:
    peer.greet()
    # one entry of 4 KB that is referenced a thousand times
    bomb = b"\x40\x01a\x7f\xe1\x1e" + b"x" * 4000 + b"\xbe" * 1000
    peer.send(h2.frame(h2.HEADERS, h2.END_HEADERS, 1, bomb))
    assert peer.goaway() == h2.COMPRESSION_ERROR


def test_more_streams_than_announced_are_refused(harness: Harness) -> None:
    with connected(harness) as peer:
        peer.greet()
        limit = harness.door.limits.streams_max
        path = "/google.pubsub.v1.Subscriber/StreamingPull"
        peer.send(*[request(number * 2 + 1, path) for number in range(limit + 1)])
        assert peer.answer(limit * 2 + 1) == {"reset": str(h2.REFUSED_STREAM)}


@pytest.mark.parametrize(
    "body",
    [b"", b"\0", b"\0\0\0\0\x05abc", b"\0\0\0\0\0\0", b"\x01\0\0\0\x01x"],
    ids=["nothing", "half a prefix", "too short", "too long", "compressed, it says"],
)
def test_a_body_that_is_not_one_message_is_an_invalid_argument(peer: Peer, body: bytes) -> None:
    peer.greet()
    peer.send(request(1, GET_TOPIC), h2.frame(h2.DATA, h2.END_STREAM, 1, body))
    assert peer.answer(1)["grpc-status"] in ("3", "12")


def test_an_unknown_compression_is_unimplemented(peer: Peer) -> None:
    peer.greet()
    peer.send(request(1, GET_TOPIC, ("grpc-encoding", "snappy")), h2.frame(h2.DATA, 1, 1, b"\x01\0\0\0\x01x"))
    answer = peer.answer(1)
    assert (answer["grpc-status"], answer["grpc-message"]) == ("12", "Compression is not supported: snappy")


def test_a_text_that_is_not_ascii_is_escaped(peer: Peer) -> None:
    peer.greet()
    peer.call(1, GET_TOPIC, m.message("google.pubsub.v1.GetTopicRequest")(topic="ü%\n"))
    assert "(name=%C3%BC%25%0A)" in peer.answer(1)["grpc-message"]


def test_rest_over_http_2(peer: Peer) -> None:
    peer.greet()
    plain = [(":method", "GET"), (":scheme", "http"), (":authority", "localhost"), (":path", "/")]
    peer.send(h2.frame(h2.HEADERS, h2.END_HEADERS | h2.END_STREAM, 1, hpack.encode(plain)))
    assert peer.answer(1)[":status"] == "200"


def test_a_rest_pull_whose_stream_is_reset_leases_nothing(harness: Harness, client: Client, peer: Peer) -> None:
    topic = client.topic()
    name = client.subscription(topic)
    peer.greet()
    head = [(":method", "POST"), (":scheme", "http"), (":authority", "localhost"), (":path", f"/v1/{name}:pull")]
    peer.send(h2.frame(h2.HEADERS, h2.END_HEADERS, 1, hpack.encode(head)))
    peer.send(h2.frame(h2.DATA, h2.END_STREAM, 1, b'{"maxMessages": 1}'))
    eventually(lambda: harness.queue.loop.wakeups._waiting)
    peer.send(h2.frame(h2.RST_STREAM, 0, 1, (8).to_bytes(4, "big")))
    eventually(lambda: not harness.queue.loop.wakeups._waiting)
    client.publish(topic, b"x")
    assert [each.message.data for each in client.pull(name)] == [b"x"]


def test_http_1_on_the_same_port(harness: Harness) -> None:
    assert rest(harness.address, "GET", "/") == (200, b"Ok\n")


def test_an_overdue_tls_handshake_ends_the_connection(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The limit is that of the HTTP/2 preface. The default of asyncio is a minute."""
    issued = trustme.CA().issue_cert("127.0.0.1")
    issued.private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    assert Http2Limits().preface_seconds == serving.HANDSHAKE_SECONDS
    monkeypatch.setattr(serving, "HANDSHAKE_SECONDS", 0.2)
    with opened(GoogleOptions(tls_cert=str(tmp_path / "both.pem"))) as harness, connected(harness) as silent:
        assert silent.socket.recv(1) == b""


def test_an_idle_client_over_tls_does_not_hold_up_the_stop(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """TLS ends with a message and its answer, and an inactive client does not answer."""
    authority = trustme.CA()
    authority.issue_cert("127.0.0.1").private_key_and_cert_chain_pem.write_to_path(str(tmp_path / "both.pem"))
    theirs = ssl.create_default_context()
    authority.configure_trust(theirs)
    theirs.set_alpn_protocols(["h2"])
    monkeypatch.setattr(server, "Http2Limits", lambda: Http2Limits(linger_seconds=0.1))
    with opened(GoogleOptions(tls_cert=str(tmp_path / "both.pem"))) as harness, connected(harness) as peer:
        peer.socket = theirs.wrap_socket(peer.socket, server_hostname="127.0.0.1")
        peer.greet()
        began = time.monotonic()
        harness.run(lambda: harness.door.stop(grace_seconds=2 * SECONDS))
        assert time.monotonic() - began < SECONDS

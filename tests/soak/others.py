"""The other doors for the actors of the soak: Azure, text, Flight, and peers that disconnect in the middle."""

from __future__ import annotations

import http.client
import json
import socket
from collections.abc import Iterable, Iterator
from contextlib import suppress
from itertools import islice
from urllib.parse import quote
from xml.etree import ElementTree

import pyarrow as pa
import pyarrow.flight as flight

from penstock.doors.google.http2 import frames as h2
from penstock.doors.google.http2 import hpack
from penstock.text import Client, Message
from tests.doors.azure.signing import ACCOUNT, VERSION, account_sas
from tests.soak.actors import SECONDS, Actor, Connection, Harness


class Azure(Connection):
    """A consumer of a queue. A message that is not deleted is visible again after two seconds."""

    def __init__(self, address: tuple[str, int], queue: str) -> None:
        self._connection = http.client.HTTPConnection(*address, timeout=SECONDS)
        self._queue = queue
        self._sas = account_sas()

    def ask(self, method: str, path: str, body: bytes | None = None, good: Iterable[int] = ()) -> tuple[int, bytes]:
        joint = "&" if "?" in path else "?"
        self._connection.request(method, f"/{ACCOUNT}/{path}{joint}{self._sas}", body, {"x-ms-version": VERSION})
        response = self._connection.getresponse()
        content = response.read()
        assert response.status in (200, 201, 204, *good), (response.status, content)
        return response.status, content

    def create(self) -> None:
        self.ask("PUT", self._queue)

    def publish(self, bodies: list[str]) -> None:
        for body in bodies:
            text = f"<QueueMessage><MessageText>{body}</MessageText></QueueMessage>"
            self.ask("POST", f"{self._queue}/messages", text.encode())

    def take(self) -> Iterable[tuple[str, str]]:
        _, content = self.ask("GET", f"{self._queue}/messages?numofmessages=8&visibilitytimeout=2")
        for each in ElementTree.fromstring(content).iter("QueueMessage"):
            found = {child.tag: child.text or "" for child in each}
            yield found["MessageText"], f"{found['MessageId']}?popreceipt={quote(found['PopReceipt'], safe='')}"

    def ack(self, receipt: str) -> bool:
        status, _ = self.ask("DELETE", f"{self._queue}/messages/{receipt}", good=(400, 404))
        return status == 204

    def give_back(self, receipt: str) -> None:
        with suppress(AssertionError):  # too late: another consumer has it
            self.ask("PUT", f"{self._queue}/messages/{receipt}&visibilitytimeout=0")

    def hang_up(self) -> None:
        self._connection.close()


class Text(Connection):
    def __init__(self, address: str, queue: str) -> None:
        self._client = Client(address, timeout_seconds=SECONDS)
        self._queue = queue
        self._held: dict[str, Message] = {}

    def publish(self, bodies: list[str]) -> None:
        self._client.send_many(self._queue, [body.encode() for body in bodies])

    def take(self) -> Iterator[tuple[str, str]]:
        for forgotten in self._held.values():
            forgotten.give_back()  # a message of this door has no deadline
        self._held.clear()
        for message in islice(self._client.consume(self._queue, window=20, wait_seconds=0.2), 20):
            self._held[message.id] = message
            yield message.content.decode(), message.id

    def ack(self, receipt: str) -> bool:
        self._held.pop(receipt).ack()
        return False  # this ack has no answer

    def give_back(self, receipt: str) -> None:
        self._held.pop(receipt).give_back()

    def hang_up(self) -> None:
        self._client.close()


class FlightUpload:
    def __init__(self, address: str, topic: str) -> None:
        self._client = flight.connect(f"grpc://{address}")
        self._descriptor = flight.FlightDescriptor.for_command(json.dumps({"topic": topic}).encode())

    def publish(self, bodies: list[str]) -> None:
        batch = pa.record_batch({"data": pa.array([body.encode() for body in bodies], pa.binary())})
        options = flight.FlightCallOptions(timeout=SECONDS)
        writer, reader = self._client.do_put(self._descriptor, batch.schema, options)
        writer.write_batch(batch)
        assert b"published" in reader.read().to_pybytes()
        writer.done_writing()
        writer.close()

    def hang_up(self) -> None:
        self._client.close()


class FlightReader(Actor):
    """An actor that reads a topic from its first message to its last, with a cursor that keeps unread messages."""

    def __init__(self, harness: Harness, name: str, topic: str) -> None:
        super().__init__(harness, name, pause_seconds=0.5)
        self._topic = topic
        self._at = 0

    def open(self) -> None:
        self._client = flight.connect(f"grpc://{self.harness.addresses['flight']}")
        self._act("cursor.open", name=self.name, offsets={self._topic: 0})

    def act(self) -> None:
        tail = next(iter(self._act("bounds", topics=[self._topic])["topics"].values()))["tail"]
        if tail == self._at:
            return
        ticket = {"topic": self._topic, "first": self._at, "until": tail, "columns": ["offset", "data"]}
        options = flight.FlightCallOptions(timeout=SECONDS)
        table = self._client.do_get(flight.Ticket(json.dumps(ticket).encode()), options).read_all()
        assert table.column("offset").to_pylist() == list(range(self._at, tail))
        self.harness.history.deliver(self.name, *(data.decode() for data in table.column("data").to_pylist()))
        self._at = tail
        self._act("cursor.advance", name=self.name, offsets={self._topic: tail})

    def _act(self, kind: str, **body: object) -> dict[str, dict[str, dict[str, int]]]:
        options = flight.FlightCallOptions(timeout=SECONDS)
        (result,) = self._client.do_action(flight.Action(kind, json.dumps(body).encode()), options)
        answer: dict[str, dict[str, dict[str, int]]] = json.loads(result.body.to_pybytes())
        return answer

    def close(self) -> None:
        self._client.close()


class HalfWay(Actor):
    """An actor that starts requests on every door and disconnects before they are complete."""

    def over(self) -> bool:
        return self.harness.calm.is_set() or self.harness.stop.is_set()

    def act(self) -> None:
        begun = bytes(self.random.randint(0, 50_000))
        door, data = self.random.choice(
            [
                ("pubsub", _half_of_a_call(begun)),
                ("pubsub", _half_of_a_body("/v1/projects/p/topics/plain:publish") + begun),
                ("azure", _half_of_a_body(f"/{ACCOUNT}/orders/messages", 80_000) + begun),
                ("text", b"H0200102P01" + b"%033d" % 5 + b"notesP02" + b"%033d" % 5_000_000 + begun),
                ("http", _half_of_a_body("/health", 60_000) + begun),
            ]
        )
        with socket.create_connection(self.harness.address(door), SECONDS) as connection, suppress(ConnectionError):
            connection.sendall(data)


def _half_of_a_body(path: str, size: int = 5_000_000) -> bytes:
    return f"POST {path} HTTP/1.1\r\nHost: localhost\r\nContent-Length: {size}\r\n\r\n".encode()


def _half_of_a_call(begun: bytes) -> bytes:
    headers = [(":method", "POST"), (":scheme", "http"), (":path", "/google.pubsub.v1.Publisher/Publish")]
    headers += [(":authority", "localhost"), ("content-type", "application/grpc"), ("te", "trailers")]
    start = h2.PREFACE + h2.settings({}) + h2.frame(h2.HEADERS, h2.END_HEADERS, 1, hpack.encode(headers))
    start += h2.frame(h2.DATA, 0, 1, b"\0" + (5_000_000).to_bytes(4, "big"))
    return start + b"".join(h2.frame(h2.DATA, 0, 1, begun[at : at + 16_000]) for at in range(0, len(begun), 16_000))

"""A client of the broker's Flight port: actions, reads of topic ranges, publishing.

Each process has one connection per broker. It is made on first use, and made again when it breaks, for as long as
`retryTimeoutSeconds` allows. Every request may be sent twice.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from pyspark_penstock.errors import DataLossError, PenstockError, UnreachableError
from pyspark_penstock.options import Access

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import flight

log = logging.getLogger("pyspark_penstock")

ANSWER_SECONDS = 120.0  # timeout of an action
PAUSE_SECONDS = 0.1

# Reasons by a part of gRPC's error text; the first match wins.
REASONS = {
    "connection refused": "connection refused",
    "domain name not found": "unknown host",
    "errors resolving": "unknown host",
    "certificate verify failed": "its certificate was not issued by one of tlsRootCertificates",
    "not in peer certificate": "its certificate is for another host name",
    "empty address list": "tlsRootCertificates has no certificate that can be read",
    "wrong version number": "it does not speak TLS, and the option tls is true",
    "handshake failed": "the TLS handshake failed",
    "certificate": "its certificate is not trusted",
    "http1.x server": "that is a port for HTTP and not the Flight port",
    "settings frame": "no answer of gRPC: is that the Flight port, and does it want the option tls?",
    "timed out": "it does not answer",
    "deadline": "it does not answer",
    "reset by peer": "the connection broke",
    "socket closed": "it closed the connection: is that the Flight port, and does it want the option tls?",
    "unreachable": "no route to it",
}


class Connections:
    """The connections of this process, by broker. Pickling leaves them out."""

    def __init__(self) -> None:
        self._clients: dict[Access, flight.FlightClient] = {}
        self._lock = threading.Lock()

    def __reduce__(self) -> tuple[type[Connections], tuple[()]]:
        return Connections, ()

    def get(self, access: Access) -> flight.FlightClient:
        with self._lock:
            if access not in self._clients:
                self._clients[access] = _connect(access)
            return self._clients[access]

    def drop(self, access: Access) -> None:
        # The connection is not closed: another thread may be using it.
        with self._lock:
            self._clients.pop(access, None)


def _connect(access: Access) -> flight.FlightClient:
    from pyarrow import flight

    settings = [
        ("grpc.use_local_subchannel_pool", 1),  # a new connection does not inherit the backoff of a broken one
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.min_reconnect_backoff_ms", 3000),  # timeout of one attempt
        ("grpc.keepalive_time_ms", 330_000),  # notices a host that vanished; servers refuse more frequent pings
        ("grpc.keepalive_timeout_ms", 20_000),
    ]
    url = f"{'grpc+tls' if access.tls else 'grpc'}://{access.endpoint}"
    return flight.FlightClient(url, tls_root_certs=access.tls_roots, generic_options=settings)


_connections = Connections()


class Retries:
    """The retries of one operation: up to `retry_seconds` since the first failure or the last progress."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._until: float | None = None

    def reset(self) -> None:
        self._until = None

    def wait_or_raise(self, error: Exception) -> None:
        """Wait before the next attempt, or raise the error if a retry cannot help or the time is over."""
        import pyarrow as pa

        if isinstance(error, pa.ArrowNotImplementedError):
            raise PenstockError(
                f"{self._access.endpoint} speaks gRPC, but not Flight: that is the Pub/Sub port. The option endpoint "
                "is the address of the broker's Flight port (--flight-port, 8815 by default)",
                "unimplemented",
            ) from None
        if not is_transient(error):
            raise translate(error) from None
        self.wait(error)

    def wait(self, error: Exception) -> None:
        """Drop the connection and wait briefly. Raise UnreachableError when the time is over."""
        _connections.drop(self._access)
        now = time.monotonic()
        self._until = self._until or now + self._access.retry_seconds
        if now >= self._until:
            text = str(error).lower()
            reason = next((reason for part, reason in REASONS.items() if part in text), "it does not answer")
            raise UnreachableError(
                f"cannot reach the broker at {self._access.endpoint} ({reason}); "
                "is it running, and is --flight-port open?"
            ) from None
        threading.Event().wait(min(PAUSE_SECONDS, self._until - now))


class Span(NamedTuple):
    """A range of offsets of one topic."""

    topic: str
    first: int
    until: int  # exclusive
    identity: str = ""  # the topic's identity; empty: unknown


class Bound(NamedTuple):
    head: int  # earliest offset that is still stored
    tail: int  # offset of the next message
    identity: str = ""  # empty: unknown


class BrokerClient:
    """The client that the driver and the tasks of a query use for one broker."""

    def __init__(self, access: Access) -> None:
        self.access = access

    def ask(self, action: str, *, seconds: float = ANSWER_SECONDS, **body: Any) -> dict[str, Any]:
        """Run an action and return its answer. `seconds` is its timeout."""
        import pyarrow as pa
        from pyarrow import flight

        request = flight.Action(action, json.dumps(body).encode())
        retries = Retries(self.access)
        while True:
            try:
                client = _connections.get(self.access)
                answers = list(client.do_action(request, self._call_options(seconds)))
                return dict(json.loads(answers[0].body.to_pybytes()))
            except pa.ArrowException as error:
                retries.wait_or_raise(error)

    def bounds(self, **selection: Any) -> dict[str, Bound]:
        """Return the bounds of the selected topics, by full name."""
        topics = sorted(self.ask("bounds", **selection)["topics"].items())
        return {name: Bound(bound["head"], bound["tail"], bound["identity"]) for name, bound in topics}

    def find(self, times: Mapping[str, int]) -> dict[str, int]:
        """Return, by topic, the first offset published at or after a time in microseconds since 1970."""
        return dict(self.ask("find", times=dict(times))["offsets"]) if times else {}

    def read(self, spans: Sequence[Span], columns: Sequence[str], lossy: bool) -> Iterator[pa.RecordBatch]:
        """Yield the rows of the ranges in batches. After a broken connection, reading continues where it stopped.

        A lossy read skips removed messages and logs them. Its columns must include the topic and the offset.
        """
        import pyarrow as pa

        retries = Retries(self.access)
        remaining = [span for span in spans if span.first < span.until]
        while remaining:
            before = remaining
            try:
                for batch in self._stream(remaining, columns, lossy):
                    remaining = (remaining_after_lossy if lossy else remaining_after)(remaining, batch)
                    retries.reset()
                    yield batch
            except pa.ArrowException as error:
                retries.wait_or_raise(error)
                continue
            if lossy:
                return  # the remaining messages were removed
            if remaining == before:
                topic, first, until, _ = remaining[0]
                raise PenstockError(f"the broker sent no message of {topic} from offset {first} to {until}", "internal")

    def _stream(self, spans: Sequence[Span], columns: Sequence[str], lossy: bool) -> Iterator[pa.RecordBatch]:
        from pyarrow import flight

        request = {"ranges": [span._asdict() for span in spans], "columns": list(columns), "lossy": lossy}
        ticket = flight.Ticket(json.dumps(request).encode())
        stream = _connections.get(self.access).do_get(ticket, self._call_options())
        try:
            for chunk in stream:
                if chunk.data is not None and chunk.data.num_rows:
                    yield chunk.data
        finally:
            stream.cancel()  # tells the broker when Spark stops reading early

    def put(
        self, command: dict[str, Any], schema: pa.Schema
    ) -> tuple[flight.FlightStreamWriter, flight.FlightMetadataReader]:
        from pyarrow import flight

        descriptor = flight.FlightDescriptor.for_command(json.dumps(command).encode())
        return tuple(_connections.get(self.access).do_put(descriptor, schema, self._call_options()))

    def _call_options(self, seconds: float | None = None) -> flight.FlightCallOptions:
        from pyarrow import flight

        token = self.access.token
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        return flight.FlightCallOptions(timeout=seconds, headers=headers)


def remaining_after(spans: Sequence[Span], batch: pa.RecordBatch) -> list[Span]:
    """Return the ranges without the rows of this batch."""
    remaining, rows = list(spans), int(batch.num_rows)
    while rows:
        taken = min(rows, remaining[0].until - remaining[0].first)
        rows -= taken
        remaining[0] = remaining[0]._replace(first=remaining[0].first + taken)
        if remaining[0].first == remaining[0].until:
            del remaining[0]
    return remaining


def remaining_after_lossy(spans: Sequence[Span], batch: pa.RecordBatch) -> list[Span]:
    """Return the ranges without the rows of this batch and without removed messages before them, which are logged."""
    import pyarrow.compute as pc

    remaining, start = list(spans), 0
    for end in pc.run_end_encode(batch.column("topic")).run_ends.to_pylist():
        topic = batch.column("topic")[start].as_py()
        first, last = (batch.column("offset")[row].as_py() for row in (start, end - 1))
        wanted = next(span.first for span in remaining if span.topic == topic)
        if first > wanted:
            warn_removed(topic, wanted, first)
        while not (remaining[0].topic == topic and remaining[0].first <= last < remaining[0].until):
            del remaining[0]
        remaining[0] = remaining[0]._replace(first=last + 1)
        start = end
    return remaining if remaining[0].first < remaining[0].until else remaining[1:]


def is_transient(error: Exception) -> bool:
    """Tell whether a retry may help: the broker is unreachable or stopping."""
    from pyarrow import flight

    return isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError | flight.FlightCancelledError)


def translate(error: Exception) -> Exception:
    """Return a broker error as a PenstockError. Other errors are returned unchanged."""
    import pyarrow as pa

    if isinstance(error, PenstockError) or not isinstance(error, pa.ArrowException):
        return error
    sentence = re.split(r"\. Detail: |\. gRPC client debug context:", str(error))[0].strip()
    try:
        facts = json.loads(getattr(error, "extra_info", b"") or b"{}")
    except (ValueError, RecursionError):
        facts = {}
    return error_from({"message": sentence} | (facts if isinstance(facts, dict) else {}))


def error_from(facts: dict[str, Any]) -> PenstockError:
    """Return the error that the broker describes."""
    facts = dict(facts)
    code, sentence = str(facts.pop("code", "internal")), str(facts.pop("message", "the broker refused"))
    if sentence.split(" ")[0].istitle():  # the text follows "penstock: "; names keep their case
        sentence = sentence[:1].lower() + sentence[1:]
    if code == "unavailable":
        return UnreachableError(sentence)
    if code == "out_of_range":
        if {"topic", "wanted", "earliest"} <= facts.keys():
            sentence = loss_message(facts["topic"], facts["wanted"], facts["earliest"])
        return DataLossError(sentence, **facts)
    if code == "other_messages":
        sentence = (
            "a request of this batch was published before with different rows, so the query's plan is not repeatable "
            f"({sentence}); set transactional=true and restart the query with the same "
            "checkpoint. It continues with this batch; rows of the batch that were already published stay"
        )
    if code == "unauthenticated":
        sentence = f"{sentence}; set the option token"
    return PenstockError(sentence, code, **facts)


def warn_removed(topic: str, wanted: int, earliest: int) -> None:
    log.warning("penstock: messages %d to %d of %s were removed before they were read", wanted, earliest - 1, topic)


def loss_message(topic: str, wanted: int, earliest: int) -> str:
    return (
        f"messages of {topic} from offset {wanted} on were removed before they were read; the earliest offset now is "
        f"{earliest}. Set failOnDataLoss to false to continue from there"
    )

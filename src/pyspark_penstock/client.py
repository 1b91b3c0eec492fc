"""The client of the broker's Flight door: actions, ranges of a topic, publishing.

There is one connection for each process and broker, made when it is needed and again when it broke, for as long as
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

ANSWER_SECONDS = 120.0  # how long an action may take
PAUSE_SECONDS = 0.1

# The reason, from the words of gRPC.
REASONS = {
    "connection refused": "connection refused",
    "domain name not found": "unknown host",
    "errors resolving": "unknown host",
    "handshake failed": "the TLS handshake failed",
    "certificate": "its certificate is not trusted",
    "timed out": "it does not answer",
    "deadline": "it does not answer",
    "reset by peer": "the connection broke",
    "socket closed": "the connection broke",
    "unreachable": "no route to it",
}


class Connections:
    """The connections of this process, by broker; pickled, there are none."""

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
        # Not closed: another thread may be using it.
        with self._lock:
            self._clients.pop(access, None)


def _connect(access: Access) -> flight.FlightClient:
    from pyarrow import flight

    settings = [
        ("grpc.use_local_subchannel_pool", 1),  # a new connection does not inherit the backoff of a broken one
        ("grpc.initial_reconnect_backoff_ms", 100),
        ("grpc.max_reconnect_backoff_ms", 1000),
        ("grpc.min_reconnect_backoff_ms", 3000),  # which is how long one attempt may take
        ("grpc.keepalive_time_ms", 330_000),  # a host that vanished is noticed; servers forbid asking more often
        ("grpc.keepalive_timeout_ms", 20_000),
    ]
    url = f"{'grpc+tls' if access.tls else 'grpc'}://{access.endpoint}"
    return flight.FlightClient(url, tls_root_certs=access.tls_roots, generic_options=settings)


_connections = Connections()


class Retries:
    """How long a broker that cannot be reached is tried; after progress the time begins again."""

    def __init__(self, access: Access) -> None:
        self._access = access
        self._until: float | None = None

    def reset(self) -> None:
        self._until = None

    def after(self, error: Exception) -> None:
        """Wait before another attempt, or raise what cannot be tried again."""
        if not is_passing(error):
            raise translated(error) from None
        self.wait(error)

    def wait(self, error: Exception) -> None:
        """Drop the connection and wait a moment; UnreachableError when the time is over."""
        _connections.drop(self._access)
        now = time.monotonic()
        self._until = self._until or now + self._access.retry_seconds
        if now >= self._until:
            words = str(error).lower()
            reason = next((reason for key, reason in REASONS.items() if key in words), "it does not answer")
            raise UnreachableError(
                f"cannot reach the broker at {self._access.endpoint} ({reason}); "
                "is it running, and is --flight-port open?"
            ) from None
        threading.Event().wait(min(PAUSE_SECONDS, self._until - now))


class Span(NamedTuple):
    """A range of one topic."""

    topic: str
    first: int
    until: int
    identity: str = ""  # of the topic that is meant


class Bound(NamedTuple):
    """The offsets a topic has: from the earliest kept to the next to be given."""

    head: int
    tail: int
    identity: str = ""  # empty: not known


class BrokerClient:
    """One broker, for the tasks and the driver of a query."""

    def __init__(self, access: Access) -> None:
        self.access = access

    def ask(self, action: str, *, seconds: float = ANSWER_SECONDS, **body: Any) -> dict[str, Any]:
        """The answer to an action, which may take so many seconds."""
        import pyarrow as pa
        from pyarrow import flight

        request = flight.Action(action, json.dumps(body).encode())
        retries = Retries(self.access)
        while True:
            try:
                client = _connections.get(self.access)
                answers = list(client.do_action(request, self.calling(seconds)))
                return dict(json.loads(answers[0].body.to_pybytes()))
            except pa.ArrowException as error:
                retries.after(error)

    def bounds(self, **asked: Any) -> dict[str, Bound]:
        """Of topics, by full name."""
        topics = sorted(self.ask("bounds", **asked)["topics"].items())
        return {name: Bound(each["head"], each["tail"], each["identity"]) for name, each in topics}

    def find(self, times: Mapping[str, int]) -> dict[str, int]:
        """The first offset published then or later, by topic."""
        return dict(self.ask("find", times=dict(times))["offsets"]) if times else {}

    def read(self, spans: Sequence[Span], columns: Sequence[str], lossy: bool) -> Iterator[pa.RecordBatch]:
        """Ranges in batches. A connection that breaks is made again, and reading goes on where it was.

        A lossy read leaves out what was removed, and logs it; its columns have the topic and the offset.
        """
        import pyarrow as pa

        retries = Retries(self.access)
        left = [span for span in spans if span.first < span.until]
        while left:
            before = left
            try:
                for batch in self._stream(left, columns, lossy):
                    left = (after_lossy if lossy else after)(left, batch)
                    retries.reset()
                    yield batch
            except pa.ArrowException as error:
                retries.after(error)
                continue
            if lossy:
                return  # whatever is left has been removed
            if left == before:
                topic, at, until, _ = left[0]
                raise PenstockError(f"the broker sent nothing of {topic} from offset {at} to {until}", "internal")

    def _stream(self, spans: Sequence[Span], columns: Sequence[str], lossy: bool) -> Iterator[pa.RecordBatch]:
        from pyarrow import flight

        wanted = {"ranges": [span._asdict() for span in spans], "columns": list(columns), "lossy": lossy}
        stream = _connections.get(self.access).do_get(flight.Ticket(json.dumps(wanted).encode()), self.calling())
        try:
            for chunk in stream:
                if chunk.data is not None and chunk.data.num_rows:
                    yield chunk.data
        finally:
            stream.cancel()  # Spark may want no more, and the broker should know

    def put(
        self, command: dict[str, Any], schema: pa.Schema
    ) -> tuple[flight.FlightStreamWriter, flight.FlightMetadataReader]:
        from pyarrow import flight

        descriptor = flight.FlightDescriptor.for_command(json.dumps(command).encode())
        return tuple(_connections.get(self.access).do_put(descriptor, schema, self.calling()))

    def calling(self, seconds: float | None = None) -> flight.FlightCallOptions:
        from pyarrow import flight

        token = self.access.token
        headers = [(b"authorization", f"Bearer {token}".encode())] if token else []
        return flight.FlightCallOptions(timeout=seconds, headers=headers)


def after(spans: Sequence[Span], batch: pa.RecordBatch) -> list[Span]:
    """What is left of ranges after a batch."""
    left, rows = list(spans), int(batch.num_rows)
    while rows:
        taken = min(rows, left[0].until - left[0].first)
        rows -= taken
        left[0] = left[0]._replace(first=left[0].first + taken)
        if left[0].first == left[0].until:
            del left[0]
    return left


def after_lossy(spans: Sequence[Span], batch: pa.RecordBatch) -> list[Span]:
    """The same where messages may be missing; those before the rows of a topic are logged."""
    import pyarrow.compute as pc

    left, start = list(spans), 0
    for end in pc.run_end_encode(batch.column("topic")).run_ends.to_pylist():
        topic = batch.column("topic")[start].as_py()
        first, last = (batch.column("offset")[row].as_py() for row in (start, end - 1))
        wanted = next(span.first for span in left if span.topic == topic)
        if first > wanted:
            warn_removed(topic, wanted, first)
        while not (left[0].topic == topic and left[0].first <= last < left[0].until):
            del left[0]
        left[0] = left[0]._replace(first=last + 1)
        start = end
    return left if left[0].first < left[0].until else left[1:]


def is_passing(error: Exception) -> bool:
    """Whether trying again may help: the broker cannot be reached, or is stopping."""
    from pyarrow import flight

    return isinstance(error, flight.FlightUnavailableError | flight.FlightTimedOutError | flight.FlightCancelledError)


def translated(error: Exception) -> Exception:
    """An error of the broker as one of ours; any other stays what it is."""
    import pyarrow as pa

    if isinstance(error, PenstockError) or not isinstance(error, pa.ArrowException):
        return error
    sentence = re.split(r"\. Detail: |\. gRPC client debug context:", str(error))[0].strip()
    try:
        facts = json.loads(getattr(error, "extra_info", b"") or b"{}")
    except ValueError:
        facts = {}
    return refusal({"message": sentence} | (facts if isinstance(facts, dict) else {}))


def refusal(facts: dict[str, Any]) -> PenstockError:
    """The error that the broker describes."""
    facts = dict(facts)
    code, sentence = str(facts.pop("code", "internal")), str(facts.pop("message", "the broker refused"))
    if sentence.split(" ")[0].istitle():  # it goes on after "penstock: "; names keep their first letter
        sentence = sentence[:1].lower() + sentence[1:]
    if code == "unavailable":
        return UnreachableError(sentence)
    if code == "out_of_range":
        if {"topic", "wanted", "earliest"} <= facts.keys():
            sentence = lost(facts["topic"], facts["wanted"], facts["earliest"])
        return DataLossError(sentence, **facts)
    if code == "unauthenticated":
        sentence = f"{sentence}; give the option token"
    return PenstockError(sentence, code, **facts)


def warn_removed(topic: str, wanted: int, earliest: int) -> None:
    log.warning("penstock: messages %d to %d of %s were removed before they were read", wanted, earliest - 1, topic)


def lost(topic: str, wanted: int, earliest: int) -> str:
    return (
        f"messages of {topic} from offset {wanted} on were removed before they were read, the earliest now is "
        f"{earliest}; set failOnDataLoss to false to go on from there"
    )

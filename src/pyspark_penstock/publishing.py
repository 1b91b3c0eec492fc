"""The upload of one task's rows. A request is repeated under the same sequence number until it is answered."""

from __future__ import annotations

import json
from collections import Counter, deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark_penstock.client import BrokerClient, Retries, error_from, is_transient, translate
from pyspark_penstock.errors import PenstockError

if TYPE_CHECKING:
    import pyarrow as pa

IN_FLIGHT = 4  # unanswered requests, so that neither side waits for the other


class Upload:
    """The publish requests of one task. `published` holds the broker's answers, in order."""

    def __init__(self, broker: BrokerClient, command: dict[str, Any]) -> None:
        self.published: list[dict[str, Any]] = []
        self._broker = broker
        self._command = command
        self._once = command["once"]
        self._retries = Retries(broker.access)
        self._unanswered: deque[tuple[int, pa.RecordBatch]] = deque()
        self._sent = 0  # number of unanswered requests sent on the open stream
        self._sequence = 0
        self._has_topics = command["topic"] is None  # whether the rows name topics
        self._stream: Any = None

    def send(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Publish the batches, and return when all of them are durable."""
        import pyarrow as pa

        for batch in batches:
            self._has_topics |= "topic" in batch.schema.names
            self._unanswered.append((self._sequence, batch))
            self._sequence += 1
            self._advance(IN_FLIGHT - 1)
        self._advance(0)
        try:
            if self._stream is not None:
                self._stream[0].close()
        except pa.ArrowException as error:
            if not is_transient(error):  # a transient error is harmless: all rows are durable
                raise translate(error) from None
        if self._once is not None:
            self._check_requests(self._once)

    def _check_requests(self, once: dict[str, Any]) -> None:
        """Raise PenstockError if an earlier run of this task stored more requests than this one has."""
        topic = None if self._has_topics else self._command["topic"]
        requests = Counter(answer["topic"] for answer in self.published)
        if topic and not requests:
            requests[topic] = 0
        try:
            self._broker.ask("publish.end", topic=topic, requests=requests, **once)
        except PenstockError as error:
            if error.code != "not_found":  # the broker's release has no such action
                raise

    def _advance(self, unanswered_max: int) -> None:
        """Send the pending requests, and read answers until at most `unanswered_max` requests are unanswered."""
        import pyarrow as pa

        while self._unanswered:
            try:
                for sequence, batch in islice(self._unanswered, self._sent, None):
                    if self._stream is None:
                        self._stream = self._broker.put(self._command, batch.schema)
                    self._stream[0].write_with_metadata(batch, json.dumps({"sequence": sequence}).encode())
                    self._sent += 1
                while len(self._unanswered) > unanswered_max:
                    self._read_answer()
                return
            except pa.ArrowException as error:
                self._abandon()
                self._retries.wait_or_raise(error)

    def _read_answer(self) -> None:
        from pyarrow import flight

        body = self._stream[1].read()
        if body is None:
            self._stream[0].close()  # raises the reason, if there is one
            raise flight.FlightUnavailableError("the socket closed")
        answer = json.loads(body.to_pybytes())
        if "error" in answer:  # the stream ends with the same error, but may break first
            self._abandon()
            raise error_from(answer["error"])
        self.published += answer["published"]
        self._unanswered.popleft()
        self._sent -= 1
        self._retries.reset()

    def _abandon(self) -> None:
        """Close a broken stream. The next stream sends the unanswered requests again."""
        import pyarrow as pa

        stream, self._stream, self._sent = self._stream, None, 0
        with suppress(pa.ArrowException):
            if stream is not None:
                stream[0].close()  # otherwise Arrow prints a warning

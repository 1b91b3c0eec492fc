"""Publishing the rows of one task: a request is sent again, under the same number, until it is answered."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from itertools import islice
from typing import TYPE_CHECKING, Any

from pyspark_penstock.client import BrokerClient, Retries, is_passing, refusal, translated

if TYPE_CHECKING:
    import pyarrow as pa

IN_FLIGHT = 4  # requests, so that neither side waits for the other


class Upload:
    """Requests to the broker, and in `published` its answers, in order."""

    def __init__(self, broker: BrokerClient, command: dict[str, Any]) -> None:
        self.published: list[dict[str, Any]] = []
        self._broker = broker
        self._command = command
        self._retries = Retries(broker.access)
        self._unanswered: deque[tuple[int, pa.RecordBatch]] = deque()
        self._sent = 0  # how many of those on the stream that is open
        self._number = 0
        self._stream: Any = None

    def send(self, batches: Iterable[pa.RecordBatch]) -> None:
        """Publish all of these; returns when the last is durable."""
        import pyarrow as pa

        for batch in batches:
            self._unanswered.append((self._number, batch))
            self._number += 1
            self._go_on(IN_FLIGHT - 1)
        self._go_on(0)
        try:
            if self._stream is not None:
                self._stream[0].close()
        except pa.ArrowException as error:
            if not is_passing(error):  # otherwise it has done its work: all is durable
                raise translated(error) from None

    def _go_on(self, unanswered_max: int) -> None:
        """Send what is not sent yet, and read answers until no more than so many requests have no answer."""
        import pyarrow as pa

        while self._unanswered:
            try:
                for number, batch in islice(self._unanswered, self._sent, None):
                    if self._stream is None:
                        self._stream = self._broker.put(self._command, batch.schema)
                    self._stream[0].write_with_metadata(batch, json.dumps({"sequence": number}).encode())
                    self._sent += 1
                while len(self._unanswered) > unanswered_max:
                    self._read_answer()
                return
            except pa.ArrowException as error:
                self._abandon()
                self._retries.after(error)

    def _read_answer(self) -> None:
        from pyarrow import flight

        body = self._stream[1].read()
        if body is None:
            self._stream[0].close()  # raises the reason, if there is one
            raise flight.FlightUnavailableError("the socket closed")
        answer = json.loads(body.to_pybytes())
        if "error" in answer:  # the stream ends with the same error, but may break before
            self._abandon()
            raise refusal(answer["error"])
        self.published += answer["published"]
        self._unanswered.popleft()
        self._sent -= 1
        self._retries.reset()

    def _abandon(self) -> None:
        """Close a stream that broke; what is unanswered goes on the next one."""
        import pyarrow as pa

        stream, self._stream, self._sent = self._stream, None, 0
        with suppress(pa.ArrowException):
            if stream is not None:
                stream[0].close()  # or Arrow prints a warning

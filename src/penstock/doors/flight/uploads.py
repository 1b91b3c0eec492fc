"""DoPut: record batches are published, each whole, and answered in order once they are durable.

A few batches are in flight at a time, and a client may wait for each answer before it sends the next batch: answers
are written by a thread of their own. A failure that comes while the client is being read goes into an answer, and ends
the upload with the same error.
"""

from __future__ import annotations

import logging
import queue
import threading
from concurrent.futures import Future
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.flight as flight

from penstock.broker.limits import Limits
from penstock.doors.flight import codec, drafts
from penstock.doors.flight.errors import describe
from penstock.doors.flight.ipc import Row, Rows
from penstock.doors.flight.publisher import Publisher, result
from penstock.doors.flight.staging import TARGET, Staging
from penstock.doors.flight.topic_log import TopicLog
from penstock.errors import InternalError, InvalidArgumentError, PenstockError, UnavailableError, where

log = logging.getLogger("penstock.doors.flight")

IN_FLIGHT = 4


class Sent(NamedTuple):
    """A batch in flight: its answers by topic."""

    sequence: int
    answers: list[tuple[dict[str, Any], Future[bytes]]]


class Upload:
    def __init__(
        self,
        topics: TopicLog,
        publisher: Publisher,
        names: codec.Names,
        staging: Staging,
        limits: Limits,
        command: codec.UploadCommand,
    ) -> None:
        self._topics = topics
        self._publisher = publisher
        self._names = names
        self._staging = staging
        self._limits = limits
        self._once = command.once
        self._stage = command.stage
        self._topic = names.topic(command.topic) if command.topic is not None else None
        self._known: set[str] = set()  # topics that are there
        self.batches = self.rows = 0
        if self._stage and self._once is not None:
            raise InvalidArgumentError("Staged rows have no publish-once key: the decision has it")
        if self._once is not None and not self._once.producer:
            raise InvalidArgumentError("A publish-once key needs a producer")

    def run(self, reader: Any, writer: Any) -> None:
        drafts.check_schema(reader.schema)
        if self._topic is not None:
            self._require([self._topic])
        answers = Answers(writer)
        try:
            while (chunk := _next_chunk(reader)) is not None and not answers.failed:
                if chunk.data is not None:
                    sent = self._send(chunk.data, self._sequence(chunk.app_metadata))
                    if self.batches == 1:
                        # A wrong epoch shows here, while the client is not being read and an error can be raised.
                        for _, answer in sent.answers:
                            result(answer)
                    answers.put(sent)
        finally:
            error = answers.close()
        if error is not None:
            raise error

    def _sequence(self, metadata: pa.Buffer | None) -> int:
        self.batches += 1
        if self._once is None:
            return self.batches - 1
        if metadata is None:
            raise InvalidArgumentError('With a publish-once key each batch comes with metadata {"sequence": number}')
        return codec.read(metadata.to_pybytes(), codec.BatchKey, "the metadata of a batch").sequence

    def _send(self, batch: pa.RecordBatch, sequence: int) -> Sent:
        self.rows += batch.num_rows
        uploaded = drafts.read_batch(batch, self._limits, len(TARGET) + 1024 if self._stage else 0)
        rows = drafts.by_topic(uploaded, self._topic, self._names.topic)
        self._require([topic for topic in rows if topic not in self._known])
        if self._stage:
            return Sent(sequence, [self._staged(rows)])
        key = (self._once.producer, self._once.epoch, sequence) if self._once is not None else ()
        return Sent(
            sequence,
            [
                ({"topic": topic}, self._publisher.publish(topic, drafts.pieces(each), *key))
                for topic, each in rows.items()
            ],
        )

    def _staged(self, rows: dict[str, Rows[Row]]) -> tuple[dict[str, Any], Future[bytes]]:
        """All rows of a batch wait together, each with its target."""
        together: Rows[Row] = Rows([], [])
        for topic, each in rows.items():
            extra = len(TARGET) + len(topic.encode())
            together.drafts.extend((data, {**attributes, TARGET: topic}, key) for data, attributes, key in each.drafts)
            together.sizes.extend(size + extra for size in each.sizes)
        target = next(iter(rows)) if len(rows) == 1 else None
        topic = self._staging.topic()
        return {"topic": topic, "target": target}, self._publisher.publish(topic, drafts.pieces(together))

    def _require(self, topics: list[str]) -> None:
        """NotFoundError for a topic that is not there."""
        if topics:
            self._topics.bounds(topics)
            self._known.update(topics)


class Answers:
    """Writes answers in the order of the batches, as they become durable."""

    def __init__(self, writer: Any) -> None:
        self._writer = writer
        self._sent: queue.Queue[Sent | None] = queue.Queue()
        self._in_flight = threading.Semaphore(IN_FLIGHT)
        self._error: PenstockError | None = None
        self._thread = threading.Thread(target=self._write, name="penstock-answers", daemon=True)
        self._thread.start()

    @property
    def failed(self) -> bool:
        return self._error is not None

    def put(self, sent: Sent) -> None:
        """Waits while too many batches are in flight."""
        self._sent.put(sent)
        self._in_flight.acquire()

    def close(self) -> PenstockError | None:
        """After the last answer; the first error, if there was one."""
        self._sent.put(None)
        self._thread.join()
        return self._error

    def _write(self) -> None:
        while (sent := self._sent.get()) is not None:
            try:
                published = []
                for topic, answer in sent.answers:
                    done = result(answer)
                    published.append({**topic, "first": done.first, "rows": done.rows, "repeated": done.repeated})
                if self._error is None:
                    self._send({"sequence": sent.sequence, "published": published})
            except PenstockError as error:
                self._fail(sent.sequence, error)
            except Exception as error:  # noqa: BLE001 - a bug; without this thread the client would wait for ever
                log.error("answering an upload failed: %s", where(error))
                self._fail(sent.sequence, InternalError("The server failed to do this; its log says more"))
            self._in_flight.release()

    def _fail(self, sequence: int, error: PenstockError) -> None:
        if self._error is None:
            self._error = error
            self._send({"sequence": sequence, "error": describe(error)})

    def _send(self, answer: dict[str, Any]) -> None:
        try:
            self._writer.write(codec.write(answer))
        except (pa.ArrowException, flight.FlightError, OSError):
            self._error = self._error or UnavailableError("The client went away")


def _next_chunk(reader: Any) -> Any:
    """None at the end."""
    try:
        return reader.read_chunk()
    except StopIteration:
        return None
    except flight.FlightError:
        raise
    except pa.ArrowException:
        raise InvalidArgumentError("What was sent is not a stream of record batches") from None

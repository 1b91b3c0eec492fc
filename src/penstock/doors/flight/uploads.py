"""DoPut: each record batch is published as a whole. Answers are sent in order once the batches are durable.

A few batches are in flight at a time. A separate thread writes the answers, so that a client may wait for each answer
before it sends the next batch. A failure while the client is being read goes into an answer, and ends the upload with
the same error.
"""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.flight as flight

from penstock.broker.limits import Limits
from penstock.doors.flight import codec, drafts
from penstock.doors.flight.downloads import HOLD_SECONDS, disconnect
from penstock.doors.flight.errors import describe
from penstock.doors.flight.ipc import Row, Rows
from penstock.doors.flight.publisher import Publisher, result
from penstock.doors.flight.staging import TARGET, Staging
from penstock.doors.flight.topic_log import TopicLog
from penstock.errors import InternalError, InvalidArgumentError, PenstockError, UnavailableError, where

log = logging.getLogger("penstock.doors.flight")

IN_FLIGHT = 4
UPLOADS_MAX = 256  # at a time; each holds a batch or two of its client
SILENT_SECONDS = 60.0  # after this time without a batch, an upload is ended if there are too many
BUSY = "The server is busy: try again later"


class Slot:
    def __init__(self, peer: str, clock: Callable[[], float]) -> None:
        self.peer = peer
        self._clock = clock
        self.heard()

    def heard(self) -> None:
        """Note that a batch came."""
        self.heard_at = self._clock()


class Uploads:
    """Uploads in progress. If there are too many, the one that was silent for the longest time is ended."""

    def __init__(
        self, *, clock: Callable[[], float] = time.monotonic, hang_up: Callable[[str], None] = disconnect
    ) -> None:
        self._clock = clock
        self._hang_up = hang_up
        self._changed = threading.Condition()
        self._slots: list[Slot] = []

    @contextmanager
    def slot(self, peer: str) -> Iterator[Slot]:
        """Hold a slot for one upload. Raise UnavailableError if there is none."""
        slot = Slot(peer, self._clock)
        with self._changed:
            self._make_room()
            self._slots.append(slot)
        try:
            yield slot
        finally:
            with self._changed:
                self._slots.remove(slot)
                self._changed.notify_all()

    def _make_room(self) -> None:
        if len(self._slots) < UPLOADS_MAX:
            return
        silent = min(self._slots, key=lambda slot: slot.heard_at)
        if self._clock() - silent.heard_at >= SILENT_SECONDS:
            log.warning("an upload was ended: its client %s sent nothing, and another one needs its slot", silent.peer)
            self._hang_up(silent.peer)
            self._changed.wait_for(lambda: len(self._slots) < UPLOADS_MAX, HOLD_SECONDS)
        if len(self._slots) >= UPLOADS_MAX:
            raise UnavailableError(BUSY)


class Sent(NamedTuple):
    """A batch in flight, with the answers for its topics."""

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
        self._known: set[str] = set()  # topics that exist
        self.batches = self.rows = 0
        if self._stage and self._once is not None:
            raise InvalidArgumentError("Staged rows have no publish-once key: the decision has it")
        if self._once is not None and not self._once.producer:
            raise InvalidArgumentError("A publish-once key needs a producer")

    def run(self, reader: Any, writer: Any, heard: Callable[[], None]) -> None:
        """Publish all batches of the reader, and call `heard` for each."""
        drafts.check_schema(reader.schema)
        if self._topic is not None:
            self._require([self._topic])
        answers = Answers(writer)
        try:
            while (chunk := _next_chunk(reader)) is not None and not answers.failed:
                heard()
                if chunk.data is not None:
                    sent = self._send(chunk.data, self._sequence(chunk.app_metadata))
                    if self.batches == 1:
                        # The first answer shows a wrong epoch while the client is not being read, so it can be raised.
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
            return Sent(sequence, [self._stage_rows(rows)])
        key = (self._once.producer, self._once.epoch, sequence) if self._once is not None else ()
        return Sent(
            sequence,
            [
                ({"topic": topic}, self._publisher.publish(topic, drafts.split(group), *key))
                for topic, group in rows.items()
            ],
        )

    def _stage_rows(self, rows: dict[str, Rows[Row]]) -> tuple[dict[str, Any], Future[bytes]]:
        """Publish all rows of a batch to the staging topic, each with its target as an attribute."""
        staged: Rows[Row] = Rows([], [])
        for topic, group in rows.items():
            extra = len(TARGET) + len(topic.encode())
            staged.drafts.extend((data, {**attributes, TARGET: topic}, key) for data, attributes, key in group.drafts)
            staged.sizes.extend(size + extra for size in group.sizes)
        target = next(iter(rows)) if len(rows) == 1 else None
        topic = self._staging.topic()
        return {"topic": topic, "target": target}, self._publisher.publish(topic, drafts.split(staged))

    def _require(self, topics: list[str]) -> None:
        """Raise NotFoundError if a topic does not exist."""
        if topics:
            self._topics.bounds(topics)
            self._known.update(topics)


class Answers:
    """A thread that writes answers in the order of the batches, as the batches become durable."""

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
        """Add a batch. Block while too many batches are in flight."""
        self._sent.put(sent)
        self._in_flight.acquire()

    def close(self) -> PenstockError | None:
        """Wait for the last answer. Return the first error, if there was one."""
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
            except Exception as error:  # noqa: BLE001 - a bug: without this thread the client would wait without end
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
        except Exception:  # noqa: BLE001 - whatever it is, the thread must go on to release the batches in flight
            self._error = self._error or UnavailableError("The client went away")


def _next_chunk(reader: Any) -> Any:
    """Return the next chunk, or None at the end."""
    try:
        return reader.read_chunk()
    except StopIteration:
        return None
    except flight.FlightError:
        raise
    except pa.ArrowException:
        raise InvalidArgumentError("The upload is not a stream of record batches") from None

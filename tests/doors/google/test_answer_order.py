"""The order of the answer to a publish and the delivery of the message: the answer is sent first."""

from __future__ import annotations

import asyncio
from pathlib import Path
from statistics import median

import pytest

from penstock.doors.google import messages as m
from penstock.doors.google.http2.sending import Sender
from penstock.doors.google.streaming import ANSWER_LEAD_SECONDS
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal
from penstock.journal.sqlite.journal import SqliteJournal
from tests.doors.google.harness import Requests, opened

COUNT = 20
# The answer is sent one turn of the loop after its commit, and the lead is measured from there.
LEAST_LEAD_SECONDS = ANSWER_LEAD_SECONDS / 2


@pytest.fixture(params=["memory", "sqlite"])
def journal(request: pytest.FixtureRequest, tmp_path: Path) -> Journal:
    return MemoryJournal() if request.param == "memory" else SqliteJournal(tmp_path / "store")


def test_the_answer_to_a_publish_is_written_before_the_message_is_delivered(
    journal: Journal, monkeypatch: pytest.MonkeyPatch
) -> None:
    written: list[tuple[float, bytes]] = []  # every write to a socket, with its time
    flush = Sender.flush

    def recorded(sender: Sender) -> None:
        written.append((asyncio.get_running_loop().time(), b"".join(sender._unsent)))
        flush(sender)

    monkeypatch.setattr(Sender, "flush", recorded)

    def moment(text: bytes) -> float:
        return next(at for at, data in written if text in data)

    with opened(journal=journal) as harness, harness.connect() as publisher, harness.connect() as subscriber:
        topic = publisher.topic()
        subscription = publisher.subscription(topic)
        requests = Requests(m.StreamingPullRequest(subscription=subscription, stream_ack_deadline_seconds=60))
        stream = subscriber.stream("StreamingPull", requests)
        leads = []
        for number in range(COUNT):
            body = f"the body of message {number};".encode()
            (message_id,) = publisher.publish(topic, body)
            (received,) = next(stream).received_messages
            assert received.message.message_id == message_id
            leads.append(moment(body) - moment(message_id.encode()))
        stream.cancel()
    assert min(leads) > 0, f"seconds from answer to delivery: {sorted(leads)}"
    # The median is used because a machine that stops the server for a moment between the two writes shortens some
    # leads.
    assert median(leads) >= LEAST_LEAD_SECONDS, f"seconds from answer to delivery: {sorted(leads)}"

"""Publishes of the reader process: the bytes in flight, and the memory charged for them in the server."""

from __future__ import annotations

import socket
import threading

import pytest

from penstock.broker.model import Draft
from penstock.doors.flight.ipc import Row, Rows
from penstock.doors.flight.link import ReaderEnd
from penstock.doors.flight.partial_publishes import PartialPublishes
from penstock.doors.flight.publisher import IN_FLIGHT_BYTES, ByteLimit, Publisher, rows_digest
from penstock.errors import UnavailableError
from penstock.wire.budget import Budget

SECONDS = 10  # only a failing test waits this long


def digest(*requests: list[Row]) -> int:
    return rows_digest([Rows(rows, [1] * len(rows)) for rows in requests])


def test_a_digest_depends_on_the_rows_and_not_on_their_order() -> None:
    first: Row = (b"a", {"k": "v"}, "key")
    second: Row = (b"b", {}, "")
    assert digest([first, second]) == digest([second, first]) == digest([second], [first]) > 0
    others: list[list[Row]] = [
        [first],
        [first, first],
        [first, second, second],
        [(b"a", {"k": "w"}, "key"), second],
        [(b"a", {"k": "v"}, ""), second],
        [(b"c", {"k": "v"}, "key"), second],
    ]
    assert len({digest([first, second]), *map(digest, others)}) == 1 + len(others)
    assert digest([]) == 1, "0 means that the digest is not known"


def test_similar_rows_have_another_digest() -> None:
    """The sums of the rows' CRCs are equal: two rows exchange their keys, and rows that count up change in one byte."""
    assert digest([(b"0", {}, "10"), (b"7", {}, "45")]) != digest([(b"0", {}, "45"), (b"7", {}, "10")])
    counted = [digest([(bytes([number]) + tail, {}, "") for number in range(256)]) for tail in (b"a", b"b")]
    assert counted[0] != counted[1]
    assert max(counted) < 1 << 63, "the journal stores 64 bits with a sign"


def test_rows_are_charged_until_their_publish_is_answered() -> None:
    budget = Budget(100)
    partial = PartialPublishes(budget)
    first: Rows[Draft] = Rows([], [])
    second: Rows[Draft] = Rows([], [])
    partial.add(1, first, 30)
    partial.add(1, second, 20)
    with partial.complete(1, 10) as earlier:
        assert earlier == [first, second]
        assert budget.in_use_bytes == 60
    assert budget.in_use_bytes == 0


def test_a_publish_without_memory_is_refused_as_a_whole_and_others_pass() -> None:
    budget = Budget(100)
    partial = PartialPublishes(budget)
    for _ in range(4):
        partial.add(1, Rows([], []), 40)
    assert budget.in_use_bytes == 0
    with partial.complete(2, 90):
        assert budget.in_use_bytes == 90
    with pytest.raises(UnavailableError, match="busy"), partial.complete(1, 10):
        raise AssertionError("it is not carried out")
    assert budget.in_use_bytes == 0
    with partial.complete(1, 10):
        assert budget.in_use_bytes == 10


def test_a_publish_whose_rows_could_not_be_kept_is_refused_whole() -> None:
    budget = Budget(100)
    partial = PartialPublishes(budget)
    partial.add(1, Rows([], []), 40)
    partial.refuse(1)
    partial.add(1, Rows([], []), 40)
    assert budget.in_use_bytes == 0
    with pytest.raises(UnavailableError), partial.complete(1, 10):
        raise AssertionError("it is not carried out")


def test_rows_give_way_to_an_older_request_of_another_door() -> None:
    budget = Budget(100)
    partial, older = PartialPublishes(budget), budget.account(lambda: None)
    assert older.charge(40)
    partial.add(1, Rows([], []), 50)
    assert older.charge(40)
    with pytest.raises(UnavailableError), partial.complete(1, 10):
        raise AssertionError("it is not carried out")
    assert budget.in_use_bytes == 80


def test_incomplete_publishes_of_a_lost_process_are_released() -> None:
    budget = Budget(100)
    partial = PartialPublishes(budget)
    partial.add(1, Rows([], []), 40)
    partial.add(2, Rows([], []), 40)
    partial.clear()
    assert budget.in_use_bytes == 0


def test_a_publish_waits_for_room_and_one_that_is_too_large_runs_alone() -> None:
    limit = ByteLimit(100)
    small = limit.take(30)
    got: list[int] = []
    waiting = threading.Thread(target=lambda: got.append(limit.take(1000)))
    waiting.start()
    assert not got
    limit.give_back(small)
    waiting.join(SECONDS)
    assert got == [100]
    limit.give_back(got[0])
    assert limit.take(100) == 100


def test_a_publish_that_could_not_be_sent_keeps_no_bytes() -> None:
    own, server = socket.socketpair()
    with own, server:
        ended = threading.Event()
        publisher = Publisher(ReaderEnd(own, on_notice=lambda frame: None, on_end=ended.set))
        rows: Rows[Row] = Rows([(b"", {}, "")], [IN_FLIGHT_BYTES])
        with pytest.raises(OverflowError):
            publisher.publish("t", [rows], "p", epoch=1 << 64)
        sent = threading.Thread(target=publisher.publish, args=("t", [rows]), daemon=True)
        sent.start()
        sent.join(SECONDS)
        assert not sent.is_alive(), "the publish waits for the bytes of the one before it"
        server.close()
        assert ended.wait(SECONDS)

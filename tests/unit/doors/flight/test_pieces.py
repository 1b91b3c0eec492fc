"""Publishes of the reader process: how much of them is on its way, and what is charged for them."""

from __future__ import annotations

import threading

import pytest

from penstock.doors.flight.letters import Drafts
from penstock.doors.flight.pieces import Pieces
from penstock.doors.flight.room import Room
from penstock.errors import UnavailableError
from penstock.wire.budget import Budget

SECONDS = 10  # only a failing test waits so long


def test_pieces_are_charged_until_their_publish_is_answered() -> None:
    budget = Budget(100)
    pieces = Pieces(budget)
    first, second = Drafts([], []), Drafts([], [])
    pieces.add(1, first, 30)
    pieces.add(1, second, 20)
    with pieces.taken(1, 10) as earlier:
        assert earlier == [first, second]
        assert budget.in_use_bytes == 60
    assert budget.in_use_bytes == 0


def test_a_publish_there_is_no_memory_for_is_refused_whole_and_others_pass() -> None:
    budget = Budget(100)
    pieces = Pieces(budget)
    for _ in range(4):
        pieces.add(1, Drafts([], []), 40)
    assert budget.in_use_bytes == 0
    with pieces.taken(2, 90):
        assert budget.in_use_bytes == 90
    with pytest.raises(UnavailableError, match="busy"), pieces.taken(1, 10):
        raise AssertionError("it is not carried out")
    assert budget.in_use_bytes == 0
    with pieces.taken(1, 10):
        assert budget.in_use_bytes == 10


def test_pieces_give_way_to_an_older_request_of_another_door() -> None:
    budget = Budget(100)
    pieces, older = Pieces(budget), budget.account(lambda: None)
    assert older.charge(40)
    pieces.add(1, Drafts([], []), 50)
    assert older.charge(40)
    with pytest.raises(UnavailableError), pieces.taken(1, 10):
        raise AssertionError("it is not carried out")
    assert budget.in_use_bytes == 80


def test_what_a_lost_process_left_half_said_is_released() -> None:
    budget = Budget(100)
    pieces = Pieces(budget)
    pieces.add(1, Drafts([], []), 40)
    pieces.add(2, Drafts([], []), 40)
    pieces.close()
    assert budget.in_use_bytes == 0


def test_a_publish_waits_for_room_and_one_that_is_too_large_goes_alone() -> None:
    room = Room(100)
    small = room.take(30)
    got: list[int] = []
    waiting = threading.Thread(target=lambda: got.append(room.take(1000)))
    waiting.start()
    assert not got
    room.give_back(small)
    waiting.join(SECONDS)
    assert got == [100]
    room.give_back(got[0])
    assert room.take(100) == 100

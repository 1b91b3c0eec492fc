"""The agenda: appointments come in their order, are kept by whoever is left, and cost nothing once nobody waits."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.leases import Agenda, Appointment
from penstock.broker.model import FOREVER


def taken(agenda: Agenda, now: int) -> list[int]:
    dues = []
    while (appointment := agenda.take_due(now)) is not None:
        dues.append(appointment.due)
    return dues


def test_appointments_come_when_they_are_due_and_the_earliest_first() -> None:
    agenda = Agenda()
    for due in (30, 10, 20):
        agenda.make(due, [due])
    assert (agenda.next_due(), len(agenda)) == (10, 3)
    assert taken(agenda, 9) == []
    assert taken(agenda, 20) == [10, 20]
    assert (agenda.next_due(), len(agenda)) == (30, 1)


def test_nothing_is_due_in_an_empty_agenda() -> None:
    agenda = Agenda()
    assert (agenda.next_due(), agenda.take_due(FOREVER), len(agenda)) == (FOREVER, None, 0)


def test_what_lasts_for_ever_needs_no_appointment() -> None:
    agenda = Agenda()
    assert agenda.make(FOREVER, [1]) is None
    agenda.leave(None)
    assert len(agenda) == 0


def test_an_appointment_is_kept_until_the_last_has_left() -> None:
    agenda = Agenda()
    appointment = agenda.make(10, [1, 2])
    agenda.leave(appointment)
    assert agenda.next_due() == 10
    agenda.leave(appointment)
    assert agenda.next_due() == FOREVER
    assert taken(agenda, 100) == []


def test_appointments_of_the_same_moment_come_in_the_order_of_making() -> None:
    agenda = Agenda()
    for number in range(100):
        agenda.make(5, [number])
    offsets = []
    while (appointment := agenda.take_due(5)) is not None:
        offsets += appointment.offsets
    assert offsets == list(range(100))


def test_an_appointment_put_back_comes_again() -> None:
    agenda = Agenda()
    agenda.make(5, [1])
    appointment = agenda.take_due(5)
    assert appointment is not None
    assert agenda.take_due(5) is None
    agenda.put_back(appointment)
    assert agenda.take_due(5) is appointment


def test_abandoned_appointments_are_swept() -> None:
    agenda = Agenda()
    for number in range(100_000):
        agenda.leave(agenda.make(10**9 + number, [number]))
    assert len(agenda) == 0
    assert len(agenda._heap) < 200


@given(st.lists(st.tuples(st.sampled_from(["make", "leave", "take", "again"]), st.integers(0, 50)), max_size=200))
def test_an_agenda_agrees_with_a_list(steps: list[tuple[str, int]]) -> None:
    agenda, kept, out = Agenda(), [], []
    for action, number in steps:
        if action == "make":
            made = agenda.make(number, [number])
            assert made is not None
            kept.append(made)
        elif action == "leave" and kept:
            agenda.leave(kept.pop(number % len(kept)))
        elif action == "again" and out:
            back: Appointment = out.pop()
            agenda.put_back(back)
            kept.append(back)
        elif action == "take":
            found = agenda.take_due(number)
            due = [each for each in kept if each.due <= number]
            assert (found is None) == (not due)
            if found is not None:
                assert found.due == min(each.due for each in due)
                kept.remove(found)
                out.append(found)
        assert len(agenda) == len(kept)
        assert agenda.next_due() == min((each.due for each in kept), default=FOREVER)

"""A durable journal returns the last snapshot and every later fact, in order, after each restart (law 1, law 3)."""

from __future__ import annotations

from penstock.journal.port import Commit, Journal, Recovered
from tests.conformance.journal.conftest import Open
from tests.conformance.journal.samples import batch, dump, fact, messages, publish, settle


def test_a_new_journal_has_nothing_to_recover(journal: Journal) -> None:
    assert journal.recover() == Recovered(None, [])
    assert not journal.snapshot_due
    assert not journal.full


def test_facts_come_back_in_the_order_of_their_commits(reopen: Open) -> None:
    journal = reopen()
    journal.recover()
    journal.commit(Commit([fact(1), fact(2)], []))
    journal.commit(Commit([], []))
    journal.commit(Commit([fact(3)], [batch(1, 0, 2)]))
    for _ in range(2):
        journal = reopen()
        assert journal.recover() == Recovered(None, [fact(1), fact(2), fact(3)])
        assert journal.read(1, 0, 2) == messages(0, 2)


def test_commits_continue_after_a_restart(reopen: Open) -> None:
    for number in range(1, 6):
        journal = reopen()
        assert journal.recover() == Recovered(None, [fact(n) for n in range(1, number)])
        journal.commit(Commit([fact(number)], [batch(1, number, number + 1)]))
    assert reopen().read(1, 1, 6) == messages(1, 6)


def test_a_snapshot_stands_for_every_fact_up_to_and_with_its_own_commit(reopen: Open) -> None:
    journal = reopen()
    journal.recover()
    journal.commit(Commit([fact(1)], []))
    journal.commit(Commit([fact(2)], [], dump(2)))
    assert reopen().recover() == Recovered(dump(2), [])
    journal = reopen()
    journal.recover()
    journal.commit(Commit([fact(3)], []))
    assert reopen().recover() == Recovered(dump(2), [fact(3)])


def test_the_newest_snapshot_counts(reopen: Open) -> None:
    journal = reopen()
    journal.recover()
    for number in range(1, 8):
        journal.commit(Commit([fact(number)], [], dump(number) if number % 2 else None))
        settle(journal)
    assert reopen().recover() == Recovered(dump(7), [])


def test_a_snapshot_is_due_when_the_facts_outweigh_it(reopen: Open) -> None:
    journal = reopen()
    journal.recover()
    mebibyte = 1 << 20
    for number in range(1, 5):
        assert not journal.snapshot_due
        journal.commit(Commit([fact(number, mebibyte)], []))
    assert journal.snapshot_due
    journal.commit(Commit([fact(5)], [], dump(5, 2 * mebibyte)))
    for number in range(6, 14):  # four times two mebibytes, and a little more
        assert not journal.snapshot_due
        journal.commit(Commit([fact(number, mebibyte)], []))
    assert journal.snapshot_due
    journal = reopen()
    journal.recover()
    assert journal.snapshot_due, "a restart does not reset the count"


def test_sweep_deletes_rows_that_a_crash_left(reopen: Open) -> None:
    journal = reopen()
    journal.recover()
    publish(journal, 1, 0, 5, 10)
    journal.forget(1, 10)  # recorded, but no slice of it is done
    journal = reopen()
    journal.recover()
    assert journal.read(1, 0, 10) == messages(0, 10)
    journal.sweep({1: 5})
    settle(journal)
    assert journal.read(1, 0, 10) == messages(5, 10)
    assert reopen().find(1, 0) == 5


def test_a_journal_may_be_asked_again_for_its_state(reopen: Open) -> None:
    """After a refused commit, the broker reloads its state from the journal."""
    journal = reopen()
    journal.recover()
    journal.commit(Commit([fact(1)], [], dump(1)))
    journal.commit(Commit([fact(2, 3 << 20)], []))
    for _ in range(3):
        assert journal.recover() == Recovered(dump(1), [fact(2, 3 << 20)])
    assert not journal.snapshot_due, "recover() does not count facts twice"
    journal.commit(Commit([fact(3)], []))
    assert journal.recover().facts == [fact(2, 3 << 20), fact(3)]

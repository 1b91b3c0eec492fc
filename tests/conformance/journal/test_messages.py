"""Messages by offset and by time: every journal returns them complete and in order, or raises an error.

Law 4: a topic is a log with offsets, and a message is stored once. A gap raises DamagedStoreError, and forgotten
messages are left out.
"""

from __future__ import annotations

import pytest

from penstock.broker.model import Batch
from penstock.broker.names import MAX_OFFSET, MAX_TOPIC
from penstock.errors import DamagedStoreError
from penstock.journal.floors import GONE
from penstock.journal.port import Commit, Journal
from tests.conformance.journal.samples import START, batch, message, messages, publish, settle


def test_a_batch_is_read_back_as_it_was_written(journal: Journal) -> None:
    publish(journal, 1, 0, 5)
    assert journal.read(1, 0, 5) == messages(0, 5)


@pytest.mark.parametrize(
    ("first", "until"), [(0, 12), (1, 2), (2, 9), (3, 4), (4, 12), (11, 12), (0, 3), (5, 5), (7, 3)]
)
def test_a_range_may_begin_and_end_inside_batches(journal: Journal, first: int, until: int) -> None:
    publish(journal, 1, 0, 3, 4, 9, 12)
    assert journal.read(1, first, until) == messages(first, until)


def test_topics_do_not_see_each_other(journal: Journal) -> None:
    for topic in (0, 1, 2, 3000, MAX_TOPIC):
        journal.commit(Commit([], [batch(topic, 0, topic % 7 + 1)]))
    for topic in (0, 1, 2, 3000, MAX_TOPIC):
        assert journal.read(topic, 0, topic % 7 + 1) == messages(0, topic % 7 + 1)
        with pytest.raises(DamagedStoreError):
            journal.read(topic, 0, topic % 7 + 2)


def test_one_commit_may_carry_batches_of_many_topics(journal: Journal) -> None:
    journal.commit(Commit([], [batch(topic, 10, 13) for topic in range(1, 40)]))
    for topic in range(1, 40):
        assert journal.read(topic, 10, 13) == messages(10, 13)


def test_the_highest_offset_has_a_place(journal: Journal) -> None:
    last = Batch(1, MAX_OFFSET, [message(MAX_OFFSET)])
    journal.commit(Commit([], [last, batch(2, 0, 1)]))
    assert journal.read(1, MAX_OFFSET, MAX_OFFSET + 1) == last.messages
    assert journal.find(1, 0) == MAX_OFFSET


def test_a_missing_message_is_damage_and_not_an_empty_answer(journal: Journal) -> None:
    publish(journal, 1, 0, 3)
    publish(journal, 1, 5, 8)
    for first, until in ((0, 8), (3, 5), (2, 4), (4, 6), (7, 9), (8, 9)):
        with pytest.raises(DamagedStoreError, match="opic 1 lacks messages"):
            journal.read(1, first, until)
    with pytest.raises(DamagedStoreError):
        journal.read(2, 0, 1)


def test_an_empty_batch_leaves_no_trace(journal: Journal) -> None:
    journal.commit(Commit([], [Batch(1, 0, [])]))
    publish(journal, 1, 0, 2)
    assert journal.read(1, 0, 2) == messages(0, 2)


def test_find_gives_the_first_message_at_or_after_a_time(journal: Journal) -> None:
    publish(journal, 2, 0, 40)
    publish(journal, 3, 0, 3, 4, 9, 20)
    publish(journal, 4, 0, 40)
    for offset in range(20):
        assert journal.find(3, START + 10 * offset) == offset
        assert journal.find(3, START + 10 * offset - 9) == offset
    assert journal.find(3, 0) == 0
    assert journal.find(3, START + 10 * 19 + 1) is None
    assert journal.find(9, 0) is None


def test_find_gives_the_first_of_messages_published_at_the_same_time(journal: Journal) -> None:
    same = [entry._replace(publish_time=START) for entry in messages(0, 12)]
    for first in (0, 3, 4, 9):
        journal.commit(Commit([], [Batch(1, first, same[first : {0: 3, 3: 4, 4: 9, 9: 12}[first]])]))
    assert journal.find(1, START) == 0


def test_forgotten_messages_are_left_out_of_every_answer(journal: Journal) -> None:
    """Messages below the floor may still be on the disk in part of a batch. A reader must not see them."""
    publish(journal, 1, 0, 5, 10)
    journal.forget(1, 7)
    for _ in range(2):
        assert journal.read(1, 0, 10) == messages(7, 10)
        assert journal.read(1, 0, 7) == []
        assert journal.find(1, 0) == 7
        settle(journal)


def test_find_after_everything_was_forgotten_gives_nothing(journal: Journal) -> None:
    publish(journal, 1, 0, 5, 10)
    journal.forget(1, 10)
    assert journal.find(1, 0) is None
    publish(journal, 1, 10, 12)
    assert journal.find(1, 0) == 10
    settle(journal)
    assert journal.find(1, 0) == 10


def test_forgetting_never_goes_back(journal: Journal) -> None:
    publish(journal, 1, 0, 10)
    journal.forget(1, 6)
    journal.forget(1, 3)
    settle(journal)
    assert journal.read(1, 0, 10) == messages(6, 10)


def test_forgetting_a_topic_leaves_its_neighbours(journal: Journal) -> None:
    for topic in (1, 2, 3):
        publish(journal, topic, 0, 5, 10)
    journal.forget(2, GONE)
    settle(journal)
    assert journal.read(1, 0, 10) == journal.read(3, 0, 10) == messages(0, 10)
    assert journal.read(2, 0, 10) == []
    assert journal.find(2, 0) is None


def test_sweep_forgets_below_the_heads_and_topics_without_one(journal: Journal) -> None:
    for topic in (1, 2, 3, 4):
        publish(journal, topic, 0, 5, 10)
    journal.sweep({1: 0, 3: 7, 9: 4})
    settle(journal)
    assert journal.read(1, 0, 10) == messages(0, 10)
    assert journal.read(2, 0, 10) == journal.read(4, 0, 10) == []
    assert journal.read(3, 0, 10) == messages(7, 10)
    publish(journal, 9, 4, 6)
    assert journal.read(9, 4, 6) == messages(4, 6)


def test_messages_are_added_while_old_ones_are_forgotten(journal: Journal) -> None:
    """A queue stays short for a long time. The stored messages are always those above the floor."""
    for step in range(200):
        publish(journal, 1, step * 3, step * 3 + 3)
        journal.forget(1, max(0, step * 3 - 4))
        journal.maintain()
        assert journal.read(1, 0, step * 3 + 3) == messages(max(0, step * 3 - 4), step * 3 + 3)


def test_a_journal_reports_its_size(journal: Journal) -> None:
    """A journal that keeps all messages has grown by their size. The remaining space is known, too."""
    before = journal.sizes()
    publish(journal, 1, 0, 500)
    after = journal.sizes()
    if journal.durable:
        assert after.bytes > before.bytes > 0
        assert after.wal_bytes <= after.bytes
        assert after.free_bytes is not None
        assert after.free_bytes > 0
    else:
        assert after == (0, 0, None)


@pytest.mark.parametrize("whole", [False, True])
def test_an_answer_bounded_in_bytes_is_the_beginning_of_the_whole_one(journal: Journal, whole: bool) -> None:
    publish(journal, 1, 0, 3, 4, 9, 12)
    for first in range(12):
        for max_bytes in (1, 40, 100, 10_000):
            found = journal.read(1, first, 12, whole, max_bytes)
            assert found, "a stored message is never missing"
            assert found == messages(first, first + len(found))
    assert journal.read(1, 2, 12, False, 10_000) == messages(2, 12)


def test_a_bounded_answer_hides_no_gap(journal: Journal) -> None:
    publish(journal, 1, 0, 3)
    publish(journal, 1, 5, 8)
    with pytest.raises(DamagedStoreError, match="opic 1 lacks messages"):
        journal.read(1, 0, 8, False, 10_000)
    with pytest.raises(DamagedStoreError, match="opic 1 lacks messages"):
        journal.read(1, 3, 8, False, 1)

"""The way from a decision to its commit: commits keep the order of decisions, and refused decisions never count as
durable.
"""

from __future__ import annotations

import pytest

from penstock.broker.facts import Touched
from penstock.engine.commits import Commits
from penstock.errors import ResourceExhaustedError
from penstock.journal.port import JournalFailedError, JournalFullError
from tests.unit.engine.journals import ToldJournal


@pytest.fixture
def journal() -> ToldJournal:
    return ToldJournal()


@pytest.fixture
def pipeline(journal: ToldJournal) -> Commits:
    return Commits(journal)


def decide(pipeline: Commits, number: int) -> int:
    return pipeline.add([Touched(number, 0)], [])


def test_the_first_waiting_thread_commits_for_all(pipeline: Commits, journal: ToldJournal) -> None:
    numbers = [decide(pipeline, number) for number in range(5)]
    pipeline.wait(numbers[0])
    pipeline.wait(numbers[4])
    assert [len(commit.facts) for commit in journal.commits] == [5]


def test_a_refused_decision_is_lost_for_all_callers_of_its_commit(pipeline: Commits, journal: ToldJournal) -> None:
    """This includes a caller that asks only after later decisions were committed."""
    journal.refusals = [JournalFullError()]
    first, second = decide(pipeline, 1), decide(pipeline, 2)
    with pytest.raises(JournalFullError):
        pipeline.wait(first)
    pipeline.resume()
    third = decide(pipeline, 3)
    pipeline.wait(third)
    with pytest.raises(JournalFullError):
        pipeline.wait(second)
    assert [fact.subscription for commit in journal.commits for fact in commit.facts] == [3]


def test_after_a_refusal_there_is_nothing_left_to_wait_for(pipeline: Commits, journal: ToldJournal) -> None:
    """A command without decisions waits for the latest decision, which must not be a lost one."""
    pipeline.wait(decide(pipeline, 1))
    journal.refusals = [JournalFullError()]
    with pytest.raises(ResourceExhaustedError):
        pipeline.wait(decide(pipeline, 2))
    pipeline.resume()
    pipeline.wait(pipeline.submitted)


def test_losses_of_several_refusals_are_kept_apart(pipeline: Commits, journal: ToldJournal) -> None:
    kept, lost = [], []
    for turn in range(10):
        if turn % 3 == 1:
            journal.refusals = [JournalFullError()]
            lost.append(decide(pipeline, turn))
            pipeline.flush()
            pipeline.resume()
        else:
            kept.append(decide(pipeline, turn))
            pipeline.flush()
    for number in kept:
        pipeline.wait(number)
    for number in lost:
        with pytest.raises(JournalFullError):
            pipeline.wait(number)


def test_decisions_after_a_refusal_are_not_committed(pipeline: Commits, journal: ToldJournal) -> None:
    """Such a decision was made on a state that was rolled back."""
    journal.refusals = [JournalFullError()]
    decide(pipeline, 1)
    pipeline.flush()
    late = decide(pipeline, 2)
    pipeline.flush()
    pipeline.resume()
    pipeline.flush()
    assert journal.commits == []
    with pytest.raises(JournalFullError):
        pipeline.wait(late)


def test_a_failed_journal_cannot_be_resumed(pipeline: Commits, journal: ToldJournal) -> None:
    journal.refusals = [JournalFailedError()]
    number = decide(pipeline, 1)
    for _ in range(2):
        with pytest.raises(JournalFailedError):
            pipeline.wait(number)
        pipeline.resume()
    assert isinstance(pipeline.stalled, JournalFailedError)


@pytest.mark.parametrize("error", [JournalFailedError(), OSError("a bug"), ValueError("a bug")])
def test_a_journal_that_fails_at_its_chores_stops_the_pipeline(
    pipeline: Commits, journal: ToldJournal, error: Exception
) -> None:
    """With another error the thread that commits ended, and every later command waited for ever."""

    def fail() -> bool:
        raise error

    journal.maintain = fail  # type: ignore[method-assign]
    assert pipeline.maintain() is False
    with pytest.raises(JournalFailedError):
        pipeline.wait(decide(pipeline, 1))
    assert journal.commits == []


def test_a_released_journal_is_not_maintained(pipeline: Commits, journal: ToldJournal) -> None:
    """The maintaining thread may belong to another queue over the same engine, and be late."""
    chores: list[str] = []

    def maintain() -> bool:
        chores.append("done")
        return True

    journal.maintain = maintain  # type: ignore[method-assign]
    assert pipeline.maintain()
    pipeline.close()
    assert not pipeline.maintain()
    assert chores == ["done"]

"""The checker of the soak finds every broken promise, and nothing else."""

from __future__ import annotations

import pytest

from tests.soak.history import Expected, History, problems

KINDS = ["lost", "unexpected", "came again", "out of order", "repeated"]
ALL = Expected("all", "topic", exactly_once=True, ordered=True)
LOG = Expected("log", "topic", log=True)
TRIED = Expected("tried", "topic", dead_letters="dead")


def good() -> History:
    history = History()
    for body in ("p|a|1", "p|a|2", "p|b|1", "in doubt"):
        history.attempt("topic", body)
        if body != "in doubt":
            history.accept("topic", body)
    for body in ("p|a|1", "p|b|1", "p|a|1", "p|a|2"):  # the first one came twice before its ack
        history.deliver("all", body)
    history.confirm_ack("all", "p|a|1")
    history.deliver("log", "p|a|1", "p|a|2", "p|b|1", "in doubt")
    history.deliver("tried", "p|a|1", "p|a|2")
    history.deliver("dead", "p|b|1")
    return history


def test_a_good_history_has_no_problems() -> None:
    assert problems(good(), [ALL, LOG, TRIED]) == []


def lose(history: History) -> None:
    history.attempt("topic", "new")
    history.accept("topic", "new")
    history.deliver("log", "new")
    history.deliver("dead", "new")


def invent(history: History) -> None:
    history.deliver("all", "never published")


def bring_again(history: History) -> None:
    history.deliver("all", "p|a|1")


def turn_round(history: History) -> None:
    for body in ("p|c|1", "p|c|2"):
        history.attempt("topic", body)
        history.accept("topic", body)
        history.deliver("log", body)
        history.deliver("tried", body)
    history.deliver("all", "p|c|2", "p|c|1")


def repeat(history: History) -> None:
    history.deliver("log", "p|a|2")


@pytest.mark.parametrize(
    ("fault", "kind"), list(zip([lose, invent, bring_again, turn_round, repeat], KINDS, strict=True)), ids=KINDS
)
def test_each_fault_is_found_and_named(fault: object, kind: str) -> None:
    history = good()
    fault(history)  # type: ignore[operator]
    found = problems(history, [ALL, LOG, TRIED])
    assert len(found) == 1, found
    assert f": {kind}: 1 messages" in found[0]

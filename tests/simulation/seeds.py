"""State machines that run the histories of one seed."""

from __future__ import annotations

from typing import TypeVar

from hypothesis import seed
from hypothesis.stateful import RuleBasedStateMachine

M = TypeVar("M", bound=RuleBasedStateMachine)


def seeded(machine: type[M], number: int) -> type[M]:
    """Return the same machine with the histories of one seed."""
    return seed(number)(type(machine.__name__, (machine,), {}))

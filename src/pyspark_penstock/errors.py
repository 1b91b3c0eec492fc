"""What goes wrong, in one sentence a user can act on.

The rule kept here: whoever reads the error reads the sentence first. Spark prints the trace of a Python worker before
the message; for an error of ours the trace says nothing, so the worker is told to leave it out.
"""

from __future__ import annotations

import os
from typing import Any

IN_WORKER = "SPARK_PYTHON_RUNTIME"
HIDE_TRACE = "SPARK_HIDE_TRACEBACK"


class PenstockError(Exception):
    """Something the user, or the operator of the broker, can put right."""

    def __init__(self, sentence: str, code: str = "invalid_argument", **facts: Any) -> None:
        super().__init__(f"penstock: {sentence}")
        self.sentence = sentence
        self.code = code
        self.facts = facts  # what the broker said beside the sentence
        if os.environ.get(IN_WORKER) == "PYTHON_WORKER":  # a process that ends with this error
            os.environ[HIDE_TRACE] = "1"


class UnreachableError(PenstockError):
    """No broker answered in the time it was given."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, "unavailable")


class DataLossError(PenstockError):
    """Messages that should have been read are not there any more."""

    def __init__(self, sentence: str, **facts: Any) -> None:
        super().__init__(sentence, "out_of_range", **facts)

"""What goes wrong, in one sentence a user can act on."""

from __future__ import annotations

import os
from typing import Any


class PenstockError(Exception):
    """Something the user, or the operator of the broker, can put right."""

    def __init__(self, sentence: str, code: str = "invalid_argument", **facts: Any) -> None:
        super().__init__(f"penstock: {sentence}")
        self.sentence = sentence
        self.code = code
        self.facts = facts  # what the broker sent beside the sentence
        # Spark prints the trace of a Python worker before the message. The worker ends with this error, and the trace
        # says nothing a user can act on.
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"


class UnreachableError(PenstockError):
    """No broker answered in the time it was given."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, "unavailable")


class DataLossError(PenstockError):
    """Messages that should have been read are not there any more."""

    def __init__(self, sentence: str, **facts: Any) -> None:
        super().__init__(sentence, "out_of_range", **facts)

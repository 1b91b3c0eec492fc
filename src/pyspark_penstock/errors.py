"""The errors of the data source. Each message is one sentence a user can act on."""

from __future__ import annotations

import os
from typing import Any


class PenstockError(Exception):
    """An error that the user, or the operator of the broker, can fix."""

    def __init__(self, sentence: str, code: str = "invalid_argument", **facts: Any) -> None:
        super().__init__(f"penstock: {sentence}")
        self.sentence = sentence
        self.code = code
        self.facts = facts  # details that the broker sent with the sentence
        # Spark prints the traceback of a Python worker before the message. It does not help the user, so hide it; the
        # worker ends with this error anyway.
        if os.environ.get("SPARK_PYTHON_RUNTIME") == "PYTHON_WORKER":
            os.environ["SPARK_HIDE_TRACEBACK"] = "1"


class UnreachableError(PenstockError):
    """The broker did not answer within `retryTimeoutSeconds`."""

    def __init__(self, sentence: str) -> None:
        super().__init__(sentence, "unavailable")


class DataLossError(PenstockError):
    """Messages were removed before they were read."""

    def __init__(self, sentence: str, **facts: Any) -> None:
        super().__init__(sentence, "out_of_range", **facts)

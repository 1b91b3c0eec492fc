"""Error texts of Flight: every error has a code, a class and one sentence."""

from __future__ import annotations

import json
import logging

import pyarrow.flight as flight
import pytest

from penstock import errors
from penstock.doors.flight.errors import CODES, OutOfRangeError, flight_error, flight_errors
from penstock.doors.flight.link import ERRORS, error_word
from penstock.errors import LostReplyError, PenstockError
from penstock.journal.port import JournalFullError

LEAVES = [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, PenstockError)]


@pytest.mark.parametrize("kind", [kind for kind in LEAVES if kind not in (PenstockError, LostReplyError)])
def test_every_class_of_the_tree_has_a_row_and_crosses_the_link(kind: type[PenstockError]) -> None:
    assert kind in CODES
    assert ERRORS[error_word(kind("why"))] is kind
    error = flight_error(kind("why"))
    assert isinstance(error, flight.FlightError)
    assert json.loads(error.extra_info) == {"code": CODES[kind], "message": "why"}


def test_a_sentence_that_quotes_a_large_schema_is_cut() -> None:
    error = flight_error(errors.InvalidArgumentError(f"Column a ({'ü' * 100_000}) is not known"))
    sentence = json.loads(error.extra_info)["message"]  # type: ignore[attr-defined]
    assert len(sentence) < 500
    assert sentence.startswith("Column a (ü")
    assert sentence.endswith("ü) is not known")
    assert sentence in str(error)


def test_a_full_disk_has_the_code_of_its_base() -> None:
    assert error_word(JournalFullError()) == "ResourceExhaustedError"
    assert json.loads(flight_error(JournalFullError()).extra_info)["code"] == "resource_exhausted"  # type: ignore[attr-defined]


def test_a_lost_answer_has_the_code_of_its_base() -> None:
    assert isinstance(flight_error(LostReplyError()), flight.FlightUnavailableError)


def test_messages_that_are_gone_are_named() -> None:
    details = json.loads(flight_error(OutOfRangeError("t", 5, 9)).extra_info)  # type: ignore[attr-defined]
    assert details == {
        "code": "out_of_range",
        "message": "Topic t no longer has offset 5: the earliest kept is 9",
        "topic": "t",
        "wanted": 5,
        "earliest": 9,
    }


def test_a_bug_is_answered_without_details(caplog: pytest.LogCaptureFixture) -> None:
    with pytest.raises(flight.FlightInternalError) as caught, flight_errors(logging.getLogger("t"), "a call"):
        raise ValueError("secret")
    assert "secret" not in str(caught.value)
    assert "secret" not in caplog.text
    assert "a call failed: ValueError" in caplog.text

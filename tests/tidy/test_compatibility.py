"""The rules for docs/compatibility.md, and proof that they can fail."""

from __future__ import annotations

from pathlib import Path

from penstock.doors.azure.errors import CODES as AZURE_CODES
from penstock.doors.azure.operations import Operation
from penstock.doors.google.errors import Code
from penstock.doors.google.routes import ROUTES
from tests.compatibility.azure import IN_THE_SDK
from tests.compatibility.page import AZURE, EMULATORS, PUBSUB, compatibility_page, every_row
from tests.compatibility.pubsub import WALK
from tests.compatibility.rows import NEVER, Row
from tests.tidy.compatibility import (
    azure_codes,
    azure_operations,
    google_codes,
    google_methods,
    mention_faults,
    missing,
    never_faults,
    proof_faults,
    shape_faults,
)
from tests.tidy.sources import ROOT, build

METHODS = [row for title in ("Publisher", "Subscriber", "SchemaService", "IAMPolicy") for row in PUBSUB[title][1]]
OPERATIONS = AZURE["Operations"][1]
GOOGLE_ERRORS = PUBSUB["Error codes"][1]
AZURE_ERRORS = [row for subject, rows in AZURE.values() if subject == "code" for row in rows]


def test_the_page_is_written_from_the_rows() -> None:
    assert (ROOT / "docs" / "compatibility.md").read_text(encoding="utf-8") == compatibility_page(), "run make docs"


def test_every_test_that_is_named_is_there() -> None:
    assert proof_faults(every_row()) == []


def test_every_row_says_something() -> None:
    tables = [rows for _, tables in EMULATORS.values() for _, rows in tables.values()]
    assert [fault for rows in tables for fault in shape_faults(rows)] == []


def test_every_method_of_google_has_a_row() -> None:
    assert len(google_methods()) == 38
    assert missing(google_methods(), METHODS) == []
    assert missing((route.path.rpartition("/")[2] for route in ROUTES.values()), METHODS) == []


def test_every_operation_of_azure_has_a_row() -> None:
    assert azure_operations() == IN_THE_SDK.keys()
    assert missing(IN_THE_SDK.values(), OPERATIONS) == []
    assert missing((each.name for each in Operation), _in_capitals(OPERATIONS)) == []


def test_every_error_has_a_row() -> None:
    assert len(azure_codes()) == 52
    assert missing(azure_codes() | AZURE_CODES.keys(), AZURE_ERRORS) == []
    assert missing((code.name for code in Code if code is not Code.OK), GOOGLE_ERRORS) == []


def test_what_is_shown_is_mentioned_by_what_shows_it() -> None:
    assert mention_faults(row for row in AZURE_ERRORS if row.ours != NEVER) == []
    assert mention_faults(GOOGLE_ERRORS) == []
    assert mention_faults(METHODS, WALK) == []


def test_what_is_never_sent_is_in_no_table() -> None:
    assert never_faults(AZURE_ERRORS, AZURE_CODES) == []
    assert never_faults(GOOGLE_ERRORS, google_codes()) == []


def _in_capitals(rows: tuple[Row, ...]) -> list[Row]:
    return [row._replace(subject=row.subject.upper().replace(" ", "_")) for row in rows]


def test_faults_are_found(tmp_path: Path) -> None:
    build(tmp_path, {"test_a.py": "def test_one():\n    pass\nasync def test_two(): ...\n"})
    good, gone = ("test_a.py::test_one", "test_a.py::test_two"), ("test_a.py::test_on", "test_b.py::test_one")
    assert proof_faults([Row("A", "", "", "", "", good)], tmp_path) == []
    assert len(proof_faults([Row("A", "", "", "", "", gone)], tmp_path)) == 2
    assert missing({"A", "B"}, [Row("A", "", "", "", "")]) == ["B"]
    row = Row("GetTopic", "", "", "", NEVER, good)
    assert mention_faults([row], (), tmp_path) == ["no test of GetTopic mentions it"]
    assert mention_faults([row], good, tmp_path) == []
    assert never_faults([row], {"GetTopic"}) == ["GetTopic is sent by the door"]
    assert len(shape_faults([Row("A", "", "", "", ""), Row("A", "a|b", "x", "x", "x")])) == 2
    assert len(shape_faults([Row("A", "", "x", "x", "x")] * 2)) == 2

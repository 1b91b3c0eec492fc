"""The error tables of the text protocol, of its client, and of its document."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from penstock import errors
from penstock.doors.text.errors import CLOSING, CODES, FORGIVEN, fault_of
from penstock.text.errors import CLASSES, error_of

REPOSITORY = Path(__file__).resolve().parents[4]
DOCUMENT = REPOSITORY / "docs" / "text-protocol.md"
SOURCES = (*(REPOSITORY / "src/penstock/doors/text").glob("*.py"), REPOSITORY / "src/penstock/wire/text_frames.py")
ROWS = dict(re.findall(r"^\| `([a-z-]+)` \|.*\| (closes|goes on) \|$", DOCUMENT.read_text(), re.MULTILINE))

PLACES = re.compile(r'(?:(?:Fault|FrameError)\([^"\n]*|protocol_code = )"([a-z-]+)"')
SENT = {code for path in SOURCES for code in PLACES.findall(path.read_text())}


def leaves(kind: type[errors.PenstockError]) -> list[type[errors.PenstockError]]:
    """Return the classes of the public tree. Journals and doors define subclasses of them."""
    return [each for each in kind.__subclasses__() if each.__module__ == "penstock.errors"]


def test_every_class_of_the_tree_has_a_code() -> None:
    assert set(CODES) == set(leaves(errors.PenstockError))


def test_every_code_is_documented_and_every_documented_code_exists() -> None:
    """T-050, T-051, T-052, T-053."""
    assert {code for code, end in ROWS.items() if end == "closes"} == CLOSING
    assert {code for code, end in ROWS.items() if end == "goes on"} == (SENT | set(CODES.values())) - CLOSING
    assert CLOSING <= SENT
    assert sorted(FORGIVEN) == ["not-held"]


def test_the_client_knows_every_code() -> None:
    assert set(CLASSES) == SENT | set(CODES.values())
    error = error_of("brand-new", "What is this?")
    assert type(error) is errors.PenstockError
    assert error.message == "What is this? (brand-new)"


def test_an_error_keeps_its_sentence_and_a_bug_does_not() -> None:
    class Odd(errors.ResourceExhaustedError):
        """Very full."""

    assert fault_of(Odd(), 2, 1, b"q").sentence == "Very full."
    assert fault_of(Odd(), 2, 1, b"q").code == "full"
    bug = fault_of(KeyError("secret"), 2, 1)
    assert (bug.code, "secret" in bug.sentence) == ("internal", False)


@pytest.mark.parametrize("code", sorted(CLASSES))
def test_every_code_is_an_exception_of_the_tree(code: str) -> None:
    assert isinstance(error_of(code, "x"), errors.PenstockError)

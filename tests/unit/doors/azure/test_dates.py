"""Date formats: the accepted forms, and no others."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.model import SECOND
from penstock.doors.azure.dates import NEVER, expiry, iso, parse_iso, parse_rfc1123, rfc1123

INSTANTS = st.integers(0, 253402300798).map(lambda seconds: seconds * SECOND)


@given(INSTANTS)
def test_instants_come_back(instant: int) -> None:
    assert parse_iso(iso(instant)) == instant
    assert parse_rfc1123(rfc1123(instant)) == instant


def test_never_is_the_end_of_the_year_9999() -> None:
    assert expiry(0) == NEVER
    assert rfc1123(10**18 * SECOND) == NEVER


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("1970-01-02", 86400),
        ("1970-01-01T00:01Z", 60),
        ("1970-01-01T00:00:05Z", 5),
        ("1970-01-01T00:00:05.1234567Z", 5),
        ("1970-01-01T00:00:05+00:00", 5),
    ],
)
def test_the_forms_of_iso_8601(text: str, seconds: int) -> None:
    assert parse_iso(text) == seconds * SECOND


@pytest.mark.parametrize(
    "text", ["", "now", "1970-13-01", "1970-01-01T25:00Z", "1970-01-01T00:00", "1970-01-01T00:00+01:00", "１９70-01-01"]
)
def test_texts_that_are_not_iso_8601(text: str) -> None:
    assert parse_iso(text) is None


@pytest.mark.parametrize("text", ["", "x", "1970-01-01", "Thu, 01 Jan 1970 00:00:00", "Thu, 99 Jan 1970 00:00:00 GMT"])
def test_texts_that_are_not_rfc_1123(text: str) -> None:
    assert parse_rfc1123(text) is None

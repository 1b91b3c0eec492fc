"""Durations, sizes, times and start positions as people type them."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.value_parsers import Window, parse_duration, parse_size, parse_time, parse_window, rfc3339

NOW = datetime(2026, 11, 15, 10, 0, tzinfo=UTC)
LAST_TEN = Window(first=-10)


@pytest.mark.parametrize(
    ("text", "value"),
    [("90", 90), ("1.5", 1.5), ("10s", 10), ("500ms", 0.5), ("1.5m", 90), ("1h30m", 5400), ("2d", 172800), ("0", 0)],
)
def test_a_duration(text: str, value: float) -> None:
    assert parse_duration(text) == pytest.approx(value)


@pytest.mark.parametrize("text", ["", "m", "10x", "-5s", "1h 30m", "1e3", "ten", "10s!", "١s", "9" * 400])
def test_a_wrong_duration_is_a_sentence(text: str) -> None:
    with pytest.raises(WrongUsageError, match="such as 10s or 1h30m"):
        parse_duration(text)


@pytest.mark.parametrize(
    ("text", "value"), [("512", 512), ("10k", 10_000), ("1MiB", 1 << 20), ("1.5 GiB", 3 << 29), ("2MB", 2_000_000)]
)
def test_a_size(text: str, value: int) -> None:
    assert parse_size(text) == value


@pytest.mark.parametrize("text", ["", "k", "10q", "-1", "1e6", "9" * 400])
def test_a_wrong_size_is_a_sentence(text: str) -> None:
    with pytest.raises(WrongUsageError, match="number of bytes"):
        parse_size(text)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("now", NOW),
        ("-10m", NOW - timedelta(minutes=10)),
        ("2026-11-15", NOW.replace(hour=0)),
        ("2026-11-15T10:00Z", NOW),
        ("2026-11-15T11:00+01:00", NOW),
        ("2026-11-15T10:00:00.25", NOW + timedelta(milliseconds=250)),
        ("1794736800", NOW),
        ("1794736800000", NOW),
    ],
)
def test_an_instant(text: str, value: datetime) -> None:
    assert parse_time(text, NOW) == value


@pytest.mark.parametrize(
    "text",
    ["", "yesterday", "-", "-10", "10:00", "2026-13-01", "-10y", "9" * 30, "-999999999w", "0001-01-01T00:00+14:00"],
)
def test_a_wrong_instant_is_a_sentence_or_a_number_of_seconds(text: str) -> None:
    if text == "-10":
        assert parse_time(text, NOW) == NOW - timedelta(seconds=10)
        return
    with pytest.raises(WrongUsageError, match="A time must be now"):
        parse_time(text, NOW)


@pytest.mark.parametrize(
    ("starts", "expected"),
    [
        ([], LAST_TEN),
        (["beginning"], Window(first=0)),
        (["end"], Window(at_end=True)),
        (["100"], Window(first=100)),
        (["-100"], Window(first=-100)),
        (["@-10m"], Window(since="2026-11-15T09:50:00.000000Z")),
        (["@2026-11-15T10:00Z"], Window(since="2026-11-15T10:00:00.000000Z")),
        (["s@-10m", "e@-5m"], Window(since="2026-11-15T09:50:00.000000Z", until_time="2026-11-15T09:55:00.000000Z")),
        (["e@now"], Window(first=0, until_time=rfc3339(NOW))),
        (["5", "e@now"], Window(first=5, until_time=rfc3339(NOW))),
    ],
)
def test_a_window(starts: list[str], expected: Window) -> None:
    assert parse_window(starts, NOW, LAST_TEN) == expected


@pytest.mark.parametrize("starts", [["first"], ["1", "2"], ["@"], ["s@x"], ["--5"], ["1.5"], [""]])
def test_a_wrong_start_is_a_sentence(starts: list[str]) -> None:
    with pytest.raises(WrongUsageError):
        parse_window(starts, NOW, LAST_TEN)


def test_the_end_of_a_topic_is_its_next_offset() -> None:
    assert Window(at_end=True).query(7) == {"from": 7}
    assert Window(first=-5, until_time="x").query(7) == {"from": -5, "until_time": "x"}

"""Rings of samples: their contents, and the minutes that summarize their seconds."""

from __future__ import annotations

from penstock.services.series import LAST, MOST, SECONDS_KEPT, Field, Ring, Series

FIELDS = (Field("rate"), Field("level", LAST), Field("worst", MOST))


def test_a_ring_keeps_the_last_rows_in_order() -> None:
    ring = Ring(2, 3)
    assert ring.last(10) == []
    for number in range(5):
        ring.append((number, -number))
        assert ring.last(1) == [[number, -number]]
    assert ring.last(10) == [[2, -2], [3, -3], [4, -4]]
    assert ring.last(2) == [[3, -3], [4, -4]]


def test_a_minute_is_the_mean_the_last_or_the_most_of_its_seconds() -> None:
    series = Series(FIELDS, 600)
    for second in range(601, 721):
        series.add(second, (second, second, -second))
    minutes = series.rows(60, 10)
    assert minutes.start == 660
    assert minutes.rows == [[630.5, 660, -601], [690.5, 720, -661]]
    assert series.rows(1, 2) == (719, [[719, 719, -719], [720, 720, -720]])


def test_a_late_row_covers_the_seconds_of_its_delay() -> None:
    series = Series(FIELDS, 100)
    series.add(103, (1, 2, 3))
    assert series.rows(1, 10) == (101, [[1, 2, 3]] * 3)


def test_unrecorded_time_is_left_out() -> None:
    series = Series(FIELDS, 100)
    series.add(100 + SECONDS_KEPT * 5, (1, 2, 3))
    assert series.rows(1, 10) == (100 + SECONDS_KEPT * 5, [[1, 2, 3]])

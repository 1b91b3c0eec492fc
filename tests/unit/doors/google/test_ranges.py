"""Durations within the range of Pub/Sub, whatever protocol set them."""

from __future__ import annotations

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.json_format import MessageToDict

from penstock.doors.google.ranges import seconds, set_duration


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (0.0, "0s"),
        (1.5, "1.500s"),
        (600.9999999999, "601s"),
        (315_576_000_000.0, "315576000000s"),
        (seconds(Duration(seconds=315_576_000_000, nanos=999_999_999)), "315576000000s"),
        (9e18, "315576000000s"),
    ],
)
def test_every_duration_can_be_shown(value: float, shown: str) -> None:
    """One expiration that was rounded up made every list of subscriptions fail over REST."""
    duration = Duration()
    set_duration(duration, value)
    assert MessageToDict(duration) == shown

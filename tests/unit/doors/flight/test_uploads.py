"""The slots of uploads, on a clock that is moved by hand."""

from __future__ import annotations

from contextlib import ExitStack

import pytest

from penstock.doors.flight import uploads
from penstock.doors.flight.uploads import SILENT_SECONDS, Uploads
from penstock.errors import UnavailableError


def test_the_upload_that_was_idle_longest_makes_way_when_there_are_too_many(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(uploads, "UPLOADS_MAX", 2)
    now = 100.0
    held = {peer: ExitStack() for peer in ("first", "second", "third")}
    ended: list[str] = []

    def hang_up(peer: str) -> None:
        ended.append(peer)
        held[peer].close()

    slots = Uploads(clock=lambda: now, hang_up=hang_up)
    first = held["first"].enter_context(slots.slot("first"))
    held["second"].enter_context(slots.slot("second"))
    now += SILENT_SECONDS - 1
    with pytest.raises(UnavailableError, match=r"^The server is busy: try again later$"):
        held["third"].enter_context(slots.slot("third"))
    first.heard()
    now += 1
    held["third"].enter_context(slots.slot("third"))
    assert ended == ["second"]
    with pytest.raises(UnavailableError, match="busy"), slots.slot("fourth"):
        pass
    held["first"].close()
    with slots.slot("fourth"):
        assert ended == ["second"]

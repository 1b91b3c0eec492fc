"""The settings of this door, from the environment and from a file."""

from __future__ import annotations

import pytest

from penstock.doors.google.calls import timeout_seconds
from penstock.doors.google.paging import page
from penstock.doors.google.pulling import wait_seconds
from penstock.errors import InvalidArgumentError
from penstock.settings import load_settings


def test_lists_may_be_text_or_lists() -> None:
    variables = {"PENSTOCK_PUSH_ALLOW": "127.0.0.0/8, 10.1.2.3/8", "PENSTOCK_PUBSUB_TOKENS": "a,b"}
    settings = load_settings(flags={}, environment=variables, config={"pubsub_cors_origins": ["https://ui.example"]})
    assert settings.pubsub.push_allow == ("127.0.0.0/8", "10.0.0.0/8")
    assert settings.pubsub.tokens == ("a", "b")
    assert settings.pubsub.cors_origins == ("https://ui.example",)


def test_an_invalid_network_is_refused() -> None:
    with pytest.raises(InvalidArgumentError, match=r"PENSTOCK_PUSH_ALLOW: expected a list of networks"):
        load_settings(flags={}, environment={"PENSTOCK_PUSH_ALLOW": "everywhere"})


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("", None), ("5S", 5.0), ("100m", 0.1), ("2H", 7200.0), ("1M", 60.0), ("7u", 7e-6), ("9n", 9e-9)],
)
def test_a_timeout_is_read(text: str, seconds: float | None) -> None:
    assert timeout_seconds(text) == (None if seconds is None else pytest.approx(seconds))


@pytest.mark.parametrize("text", ["S", "5", "-5S", "5X", "999999999S", "٣S"])
def test_an_invalid_timeout_is_ignored(text: str) -> None:
    assert timeout_seconds(text) is None


def test_a_pull_answers_before_its_caller_gives_up() -> None:
    assert wait_seconds(60) == 59
    assert wait_seconds(1) == 0.5
    assert wait_seconds(0) == 0
    assert wait_seconds(None) == 30


def test_pages_continue_after_the_last_item_even_if_items_were_deleted() -> None:
    names = [f"n{number}" for number in range(5)]
    first, token = page(names, 2, "")
    assert first == ["n0", "n1"]
    assert page([name for name in names if name != "n1"], 2, token)[0] == ["n2", "n3"]
    assert page(names, 5, "") == (names, "")

"""The rule for new names, and the vendors' rules inside it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.azure.names import is_queue_name
from penstock.errors import InvalidArgumentError
from penstock.names import TOPICS, check_new_name, check_pubsub_name, is_new_id, is_pubsub_id, is_pubsub_project

PREFIX = "projects/p/topics/"
LETTERS = st.text(alphabet="aZ0-._~+%go :!/\u00a0\u200d\u202eé\n", max_size=300)


@pytest.mark.parametrize("name", ["a", "no good!", "goog-x", "é", "日本", "50%", "a,b", "x" * 256, "..."])
def test_a_new_name_can_be_seen(name: str) -> None:
    assert is_new_id(name)
    assert check_new_name(PREFIX + name, TOPICS) == PREFIX + name


@pytest.mark.parametrize(
    "name",
    [
        *["", " a", "a ", ".", "..", "a\u00a0b", "a\u200db", "a\u202eb", "a\nb", "\ud800", "x" * 257, "é" * 129],
        *["\u3164", "a\ufe0f", "a\u034fb", "\u2800", "a\U000e0100"],  # Python calls them printable
    ],
)
def test_a_name_that_cannot_be_seen_or_carried_is_refused(name: str) -> None:
    assert not is_new_id(name)
    with pytest.raises(
        InvalidArgumentError, match=r"^A new name has 1 to 256 bytes of printable characters"
    ) as refused:
        check_new_name(PREFIX + name, TOPICS)
    assert refused.value.message.isascii()


def test_the_project_counts_as_well() -> None:
    with pytest.raises(InvalidArgumentError):
        check_new_name("projects/a\u200db/topics/orders", TOPICS)
    with pytest.raises(InvalidArgumentError):
        check_pubsub_name("projects/no good!/topics/orders", TOPICS)
    assert check_pubsub_name("projects/example.com:p/topics/orders", TOPICS)


@pytest.mark.parametrize("name", ["ab", "1abc", "goog-x", "no good!", "é-é", "x" * 256, "a\u200dbc"])
def test_names_from_data_follow_the_rule_of_pubsub(name: str) -> None:
    with pytest.raises(InvalidArgumentError, match=r"^A name that Pub/Sub clients can use has 3 to 255 letters"):
        check_pubsub_name(PREFIX + name, TOPICS)


@given(LETTERS)
def test_the_rules_of_vendors_are_inside_the_common_rule(text: str) -> None:
    if is_pubsub_id(text) or (is_pubsub_project(text) and text not in (".", "..")) or is_queue_name(text):
        assert is_new_id(text)

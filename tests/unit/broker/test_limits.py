"""The check of a draft: its size in bytes, or a sentence about the limit that it exceeds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.broker.limits import Limits, check_draft
from penstock.broker.model import Draft
from penstock.errors import InvalidArgumentError

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=20)


def size(key_or_value: str) -> int:
    return len(key_or_value.encode())


@given(st.binary(max_size=50), st.dictionaries(TEXT.filter(bool), TEXT), TEXT)
def test_the_size_is_counted_in_bytes(data: bytes, attributes: dict[str, str], ordering_key: str) -> None:
    expected = len(data) + sum(size(key) + size(value) for key, value in attributes.items()) + size(ordering_key)
    draft = Draft(data, attributes, ordering_key)
    assert check_draft(draft, Limits(message_max_bytes=expected or 1)) == expected
    if expected > 1:
        with pytest.raises(InvalidArgumentError, match=f"Message size exceeds maximum of {expected - 1} bytes"):
            check_draft(draft, Limits(message_max_bytes=expected - 1))


TIMES = "Message delay and time to live must be 0 to 10000000000 seconds"


@pytest.mark.parametrize(
    ("draft", "text"),
    [
        (Draft(bytearray(b"x")), "Message data must be bytes, not bytearray"),  # type: ignore[arg-type]
        (Draft(b"", [("a", "b")]), "Message attributes must be a dictionary of strings"),  # type: ignore[arg-type]
        (Draft(b"", {}, 7), "Ordering key must be a string"),  # type: ignore[arg-type]
        (Draft(b"", {}, "k" * 1025), "Ordering key exceeds maximum of 1024 bytes"),
        (Draft(b"", {}, "\udfff"), "Text must be valid Unicode, without lone surrogates"),
        (Draft(b"", {"\ud800": "v"}), "Text must be valid Unicode, without lone surrogates"),
        (Draft(b"", delay_seconds=-0.1), TIMES),
        (Draft(b"", ttl_seconds=-0.1), TIMES),
        (Draft(b"", delay_seconds=1e11), TIMES),
        (Draft(b"", ttl_seconds=10**30), TIMES),
        (Draft(b"", ttl_seconds=float("nan")), TIMES),
    ],
)
def test_a_refusal_names_the_limit(draft: Draft, text: str) -> None:
    with pytest.raises(InvalidArgumentError) as error:
        check_draft(draft, Limits())
    assert error.value.message == text


@pytest.mark.parametrize(("limit", "words"), [(10 << 20, "10MB"), (1 << 20, "1MB"), (64 << 10, "65536 bytes")])
def test_a_limit_has_a_readable_unit(limit: int, words: str) -> None:
    with pytest.raises(InvalidArgumentError, match=f"^Message size exceeds maximum of {words}$"):
        check_draft(Draft(bytes(limit + 1)), Limits(message_max_bytes=limit))


def test_the_old_names_of_the_limits_of_a_queue_are_accepted() -> None:
    limits = Limits(queue_max_messages=3, queue_max_bytes=5)  # type: ignore[call-arg]
    assert (limits.queue_messages_max, limits.queue_bytes_max) == (3, 5)
    changed = replace(limits, queue_messages_max=4)
    assert (changed.queue_max_messages, changed.queue_max_bytes) == (4, 5)

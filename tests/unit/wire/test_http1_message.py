"""The encoding of responses."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.wire.http1_message import Response, encode, plain_refusal

DATE = "Thu, 01 Jan 1970 00:00:00 GMT"


def test_a_response_carries_date_and_length() -> None:
    encoded = encode(Response(200, [("Content-Type", "text/plain")], b"hi"), date=DATE)
    assert encoded == (
        f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nDate: {DATE}\r\nContent-Length: 2\r\n\r\nhi".encode()
    )


def test_the_answer_to_head_keeps_the_length_and_leaves_the_body_out() -> None:
    encoded = encode(Response(200, [], b"hi"), date=DATE, head_only=True)
    assert b"Content-Length: 2" in encoded
    assert encoded.endswith(b"\r\n\r\n")


def test_no_content_has_neither_length_nor_body() -> None:
    encoded = encode(Response(204, [], b"lost"), date=DATE)
    assert b"Content-Length" not in encoded
    assert b"lost" not in encoded


def test_a_refusal_has_the_reason_phrase_only() -> None:
    assert plain_refusal(413).body == b"Request Entity Too Large\n"
    assert plain_refusal(599).body == b"Unknown\n"


@given(st.text(), st.text())
def test_no_header_adds_a_line(name: str, value: str) -> None:
    try:
        encoded = encode(Response(200, [(name, value)]), date=DATE)
    except ValueError:
        return
    assert encoded.count(b"\r\n") == 5
    assert encoded.count(b"\n") == encoded.count(b"\r") == 5


@pytest.mark.parametrize("value", ["a\r\nSet-Cookie: x", "a\nb", "a\rb", "a\0b", "€"])
def test_an_invalid_header_is_refused(value: str) -> None:
    with pytest.raises(ValueError):
        encode(Response(200, [("X-Echo", value)]), date=DATE)

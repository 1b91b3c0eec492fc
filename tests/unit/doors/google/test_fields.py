"""The cache of repeated header blocks, which is limited and ends when the table changes."""

from __future__ import annotations

from penstock.doors.google.http2.fields import BLOCKS_BYTES_MAX, Heads
from penstock.doors.google.http2.hpack import encode

REQUEST = [(":method", "POST"), (":scheme", "http"), (":path", "/x")]


def test_a_block_that_does_not_change_the_table_is_cached() -> None:
    heads, block = Heads(), encode(REQUEST)
    assert heads.request(block) is heads.request(block)


def test_the_cache_is_cleared_when_the_table_changes() -> None:
    heads = Heads()
    heads.request(b"\x40\x01a\x01b")
    assert heads.request(b"\xbe").fields == {"a": "b"}
    heads.request(b"\x40\x01c\x01d")
    assert heads.request(b"\xbe").fields == {"c": "d"}
    heads.trailers(b"\x40\x01e\x01f")
    assert heads.request(b"\xbe").fields == {"e": "f"}


def test_the_cache_of_blocks_has_a_limit() -> None:
    heads = Heads()
    for number in range(5000):
        heads.request(encode([*REQUEST, ("n", str(number)), ("x", "y" * 1000)]))
    assert 0 < heads.held_bytes <= 2 * BLOCKS_BYTES_MAX


def test_a_table_that_is_full_is_counted() -> None:
    heads = Heads()
    for number in range(500):
        heads.request(encode(REQUEST) + b"\x40\x05" + f"{number:05}".encode() + b"\x00")
    assert heads.held_bytes > 4096

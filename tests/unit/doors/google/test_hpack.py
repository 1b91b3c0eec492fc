"""Header compression: the examples of RFC 7541, round trips, limits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.google.http2 import huffman
from penstock.doors.google.http2.hpack import LIST_BYTES_MAX, STATIC, Decoder, HeaderError, encode


def test_the_static_table_is_complete() -> None:
    assert len(STATIC) == 61
    assert (STATIC[0], STATIC[7], STATIC[60]) == ((":authority", ""), (":status", "200"), ("www-authenticate", ""))


def test_the_requests_of_appendix_c_4() -> None:
    """The examples are Huffman coded. They share a connection, so the table grows."""
    decoder = Decoder()
    first = bytes.fromhex("828684418cf1e3c2e5f23a6ba0ab90f4ff")
    second = bytes.fromhex("828684be5886a8eb10649cbf")
    third = bytes.fromhex("828785bf408825a849e95ba97d7f8925a849e95bb8e8b4bf")
    start = [(":method", "GET"), (":scheme", "http"), (":path", "/"), (":authority", "www.example.com")]
    assert decoder.decode(first) == start
    assert decoder.decode(second) == [*start, ("cache-control", "no-cache")]
    assert decoder.decode(third) == [
        (":method", "GET"),
        (":scheme", "https"),
        (":path", "/index.html"),
        (":authority", "www.example.com"),
        ("custom-key", "custom-value"),
    ]


def test_the_responses_of_appendix_c_6_evict() -> None:
    decoder = Decoder()
    decoder.decode(bytes.fromhex("3fe101") + b"")  # the peer allows a table of 256 bytes
    block = bytes.fromhex(
        "488264025885aec3771a4b6196d07abe941054d444a8200595040b8166e082a62d1bff6e919d29ad171863c78f0b97c8e9ae82ae43d3"
    )
    assert decoder.decode(block)[0] == (":status", "302")
    assert decoder.decode(bytes.fromhex("4883640effc1c0bf"))[0] == (":status", "307")


names = st.text(st.characters(min_codepoint=33, max_codepoint=255), min_size=1, max_size=40)
values = st.text(st.characters(min_codepoint=0, max_codepoint=255), max_size=300)


@given(st.lists(st.tuples(names, values), max_size=20))
def test_an_encoded_block_decodes_to_the_same_headers(headers: list[tuple[str, str]]) -> None:
    assert Decoder().decode(encode(headers)) == headers


@given(st.binary(max_size=300))
def test_any_block_is_decoded_or_refused(block: bytes) -> None:
    try:
        headers = Decoder().decode(block)
    except HeaderError:
        return
    assert sum(len(name) + len(value) for name, value in headers) <= LIST_BYTES_MAX


@given(st.binary(max_size=100))
def test_huffman_decoding_accepts_only_the_encoding_of_the_result(data: bytes) -> None:
    try:
        text = huffman.decode(data)
    except ValueError:
        return
    assert spelled(text) == data


@pytest.mark.parametrize(
    "block",
    [
        b"\x80",  # entry 0
        b"\xbe",  # a missing entry
        b"\x00",  # a missing name
        b"\x00\x05ab",  # shorter than announced
        b"\x82\x20",  # a table size after a header
        b"\x3f\xe2\x1f",  # a table larger than allowed
        b"\x7f\xff\xff\xff\xff\xff\xff\xff\x0f",  # an integer that is too large
        b"\x00\x81\xff\x00",  # padding of more than 7 bits
    ],
)
def test_an_invalid_block_is_refused(block: bytes) -> None:
    with pytest.raises(HeaderError):
        Decoder().decode(block)


def test_headers_beyond_the_limit() -> None:
    with pytest.raises(HeaderError):
        Decoder().decode(encode([("x", "y" * 1000)] * 70))


def spelled(text: bytes) -> bytes:
    """Return the code of a text, padded with ones (RFC 7541, 5.2)."""
    codes = {symbol: (length, code) for (length, code), symbol in huffman._codes().items()}
    bits = "".join(f"{codes[byte][1]:0{codes[byte][0]}b}" for byte in text)
    bits += "1" * (-len(bits) % 8)
    return int(bits, 2).to_bytes(len(bits) // 8, "big") if bits else b""


@given(st.binary(max_size=60))
def test_huffman_code_is_prefix_free(data: bytes) -> None:
    """Every byte has a code, and a text of all bytes decodes to itself."""
    assert huffman.decode(spelled(data)) == data

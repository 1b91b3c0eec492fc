"""Frames are read from bytes in any chunks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from penstock.doors.google.http2.frames import FrameReader, Http2Error, frame

frames = st.lists(
    st.tuples(st.integers(0, 255), st.integers(0, 255), st.integers(0, 2**31 - 1), st.binary(max_size=300)), max_size=6
)


@given(frames, st.lists(st.integers(1, 200), min_size=1))
def test_any_chunks_give_the_same_frames(sent: list[tuple[int, int, int, bytes]], sizes: list[int]) -> None:
    data = b"".join(frame(*each) for each in sent)
    reader, got, at, turn = FrameReader(1000), [], 0, 0
    while at < len(data):
        size = sizes[turn % len(sizes)]
        got += list(reader.feed(data[at : at + size]))
        at, turn = at + size, turn + 1
    assert got == sent


def test_a_frame_is_refused_before_it_is_collected() -> None:
    with pytest.raises(Http2Error):
        list(FrameReader(100).feed(frame(0, 0, 1, b"x" * 101)[:9]))


def test_a_frame_that_arrives_byte_by_byte_takes_no_more_memory() -> None:
    """A frame is joined once. Otherwise a megabyte in single bytes would be copied half a million times."""
    reader, data = FrameReader(1 << 20), frame(0, 0, 1, b"x" * 200_000)
    got = [each for byte in data for each in reader.feed(bytes([byte]))]
    assert [len(payload) for _, _, _, payload in got] == [200_000]

"""A program that runs the codec under atheris, guided by coverage.

`python -m tests.simulation.text.fuzz_codec [libFuzzer flags]`. It is a separate program because the fuzzer ends its
process.
"""

from __future__ import annotations

import resource
import sys

import atheris

with atheris.instrument_imports():
    from penstock.doors.text.codec import Decoder
    from penstock.doors.text.requests import Acknowledge, Fault, Send, maxima
    from tests.simulation.text.reference import sends

MOST = 500
MEMORY_MAX = 512 << 20


def target(data: bytes) -> None:
    """Check that the result does not depend on how the bytes are cut, and is that of the reference."""
    whole, pieces = Decoder(maxima(MOST)), Decoder(maxima(MOST))
    events = whole.feed(data)
    for place in range(0, len(data), 7):
        if not pieces.broken:
            pieces.feed(data[place : place + 7])
    assert pieces.broken == whole.broken
    heard = []
    for event in events:
        if isinstance(event, Fault) and event.version == 1:
            break  # here the door would close the connection
        if isinstance(event, Send):
            heard += [(event.queue, content) for content in event.contents]
        assert not isinstance(event, Acknowledge) or all(len(each) == 32 for each in event.ids)
    assert heard == sends(data, MOST)


if __name__ == "__main__":
    # The fuzzer's own limit is not used, because it counts the peak memory that the process inherited from its parent.
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY_MAX, MEMORY_MAX))
    atheris.Setup(sys.argv, target)
    atheris.Fuzz()

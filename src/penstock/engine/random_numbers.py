"""Unpredictable random numbers for receipts and identities."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

DRAWN_AT_ONCE = 256


def random_numbers() -> Iterator[int]:
    """Yield unpredictable numbers from 1 to 2^63 - 1. They are read from the system in batches. Not thread-safe."""
    while True:
        for (number,) in struct.iter_unpack("Q", os.urandom(8 * DRAWN_AT_ONCE)):
            yield number >> 1 or 1

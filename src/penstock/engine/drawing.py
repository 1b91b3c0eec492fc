"""Numbers that nobody can guess, for receipts and identities."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

DRAWN_AT_ONCE = 256


def drawn_numbers() -> Iterator[int]:
    """Numbers from 1 to 2^63 - 1 that nobody can guess, read from the system many at a time. For one thread at once."""
    while True:
        for (number,) in struct.iter_unpack("Q", os.urandom(8 * DRAWN_AT_ONCE)):
            yield number >> 1 or 1

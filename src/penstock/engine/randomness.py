"""Where numbers come from that nobody can guess."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator

AT_ONCE = 256


def drawn_numbers() -> Iterator[int]:
    """Numbers from 1 to 2^63 - 1, read from the system many at a time: every delivery takes one. For one thread."""
    while True:
        for (number,) in struct.iter_unpack("Q", os.urandom(8 * AT_ONCE)):
            yield number >> 1 or 1

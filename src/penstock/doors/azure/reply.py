"""What an operation answers, before the headers that every answer has.

The rule kept here: an operation knows its status, its body and its own headers, and nothing of the connection.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.doors.azure.errors import Pairs


class Reply(NamedTuple):
    status: int
    body: bytes = b""  # XML, if there is one
    headers: Pairs = ()

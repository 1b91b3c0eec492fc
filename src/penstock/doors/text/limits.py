"""What a client of the text door may use: sizes, deadlines, numbers of connections.

The rule kept here: every limit is a number someone can change, has its unit in its name, and ends a connection,
never the server.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    content_bytes_max: int = 10 << 20  # of a message (T-060)
    window_max: int = 10_000  # messages of a queue outstanding on a connection (T-029)
    connections_max: int = 16_384  # T-063
    connections_per_address_max: int = 12_288
    frame_seconds: float = 30  # from the first byte of a message to its last (T-061)
    idle_seconds: float = 600  # without a byte from a client that consumes nothing (T-062); 0: for ever
    write_seconds: float = 30  # in which a client read nothing of what waits for it (T-064)
    linger_seconds: float = 2  # after a fault: how long input is thrown away, so that our last word arrives
    pending_bytes_max: int = 4 << 20  # of a connection's sends that are not durable yet (T-065)
    pending_messages_max: int = 10_000
    write_buffer_bytes: int = 256 << 10  # beyond this a client counts as not reading
    dispatch_bytes: int = 1 << 20  # taken from a queue at a time, but never less than one message
    dispatch_messages: int = 1000
    sweep_seconds: float = 1  # how often deadlines are looked at: one timer for the whole door

"""What a peer of an HTTP server may use: sizes, deadlines and numbers of connections.

The rule kept here: every limit is a number someone can change, has its unit in its name, and ends a connection,
never the server.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Limits:
    body_bytes_max: int = 1 << 20
    head_bytes_max: int = 64 << 10  # also the most that chunk extensions or trailers may take without progress
    headers_max: int = 256
    connections_max: int = 4096
    connections_per_address_max: int = 1024
    pipeline_max: int = 16  # requests of one connection that wait while one is answered
    pipeline_bytes_max: int = 256 << 10  # and the bytes of their bodies before reading pauses
    head_seconds: float = 10  # absolute, from the first byte (or from the connect) to the end of the headers
    body_seconds: float = 30  # absolute, from the end of the headers to the end of the body
    idle_seconds: float = 60  # between requests
    write_seconds: float = 30  # how long a peer may leave what we send unread
    linger_seconds: float = 2  # after a refusal: how long unread input is thrown away, so that the refusal arrives
    sweep_seconds: float = 1  # how often deadlines are looked at: one timer per server

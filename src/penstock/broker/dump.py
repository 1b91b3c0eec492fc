"""The whole state of the broker as plain records, for snapshots and recovery.

A dump is canonical: two brokers in the same state give equal dumps, in the same order, so that states can be compared
byte for byte. Derived state (heaps, lanes, counts) is left out.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.broker.facts import SnapshotTaken
from penstock.broker.model import Producer, SubscriptionOptions, TopicOptions

SnapshotDump = SnapshotTaken  # a snapshot is kept as the fact that made it


class TopicDump(NamedTuple):
    number: int
    name: str
    created_at: int
    options: TopicOptions
    head: int
    head_position: int
    tail: int
    position: int
    last_publish_at: int
    producers: dict[str, Producer]
    first_id: int = 0


class EntryDump(NamedTuple):
    """One outstanding message of a subscription."""

    offset: int
    leased: bool
    stamp: int
    attempts: int
    due: int
    size: int
    key: str
    expires_at: int
    body: bytes | None
    extensions: int = 0


class SubscriptionDump(NamedTuple):
    number: int
    name: str
    topic: int
    topic_name: str
    created_at: int
    used_at: int
    detached: bool
    options: SubscriptionOptions
    cursor: int
    settled: int
    settled_bytes: int
    stamp: int
    skips: list[tuple[int, int]]
    outstanding: list[EntryDump]  # by offset
    held: dict[str, list[tuple[int, int]]]  # ordering key -> (offset, size), keys sorted
    start: int = 0  # its first cursor: the tail of its topic at that time, for a queue the head
    compared: int = 0
    ahead: int = 0
    ahead_bytes: int = 0


class StateDump(NamedTuple):
    next_number: int  # topics and subscriptions are numbered once and never again
    topics: list[TopicDump]
    subscriptions: list[SubscriptionDump]
    snapshots: list[SnapshotDump]
    documents: dict[str, dict[str, bytes]]  # kind -> name -> body
    identity: str = ""  # empty: written by a release without identities
    secret: bytes = b""
    at: int = 0  # time of the dump; 0: not recorded by old releases

"""Small messages, batches and dumps for the journal tests."""

from __future__ import annotations

from itertools import pairwise

from penstock.broker.dump import StateDump
from penstock.broker.facts import DocumentPut
from penstock.broker.model import Batch, Message
from penstock.journal.port import Commit, Journal

START = 10**18  # publish time of offset 0; every later message is 10 ns younger


def message(offset: int, data: bytes = b"") -> Message:
    body = data or f"body {offset}".encode()
    return Message(body, {"n": str(offset)}, "", START + 10 * offset, offset, 0, len(body), 0, 0)


def messages(first: int, until: int) -> list[Message]:
    return [message(offset) for offset in range(first, until)]


def batch(topic: int, first: int, until: int) -> Batch:
    return Batch(topic, first, messages(first, until))


def fact(number: int, size: int = 0) -> DocumentPut:
    return DocumentPut("commit", str(number), bytes(size))


def dump(number: int, size: int = 0) -> StateDump:
    return StateDump(number, [], [], [], {"kind": {"name": bytes(size)}})


def publish(journal: Journal, topic: int, *bounds: int) -> None:
    """Publish one commit for each pair of neighbouring bounds."""
    for first, until in pairwise(bounds):
        journal.commit(Commit([], [batch(topic, first, until)]))


def settle(journal: Journal) -> int:
    """Do all idle-time work, and return the number of slices."""
    slices = 0
    while journal.maintain():
        slices += 1
        assert slices < 10_000, "maintain() never finishes"
    return slices

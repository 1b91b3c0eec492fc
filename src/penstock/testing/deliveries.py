"""The deliveries and acks of messages, from the stories that the server keeps.

If the server no longer has the start of a story, UnavailableError is raised.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, NamedTuple

from penstock.admin.client import Client, path_of
from penstock.errors import UnavailableError
from penstock.testing.messages import stamp

__tracebackhide__ = True  # a failing test shows its own line, not this module

PAGE = 1000
_ENDS = {"acked", "returned", "lapsed", "dead-letter", "expired", "retention", "skipped", "sought"}


class Delivery(NamedTuple):
    """One delivery of a message to a consumer.

    `outcome` is "open" until the delivery ends. Then it is "acked", "returned" (by the consumer), "lapsed" (the
    deadline passed), "dead-letter", "expired" or "retention" (the message was given up), "skipped" (a purge) or
    "sought" (a seek).
    """

    at: datetime
    door: str | None  # pubsub, azure, text or http; None: unknown
    outcome: str = "open"
    ended_at: datetime | None = None


class History(NamedTuple):
    """The history of one message on one subscription."""

    offset: int
    deliveries: Sequence[Delivery]
    acks: Sequence[datetime]
    sentences: Sequence[str]


def history_of(admin: Client, topic: str, subscription: str, number: int) -> History:
    """Return the history of the message with the id `number`."""
    page = admin.get(path_of("topics", topic, "stories"), max=1)
    first_id = int(page["stories"][0]["id"]) if page["stories"] else number + 1
    if number >= first_id:
        for history in histories(admin, topic, subscription, number - first_id, 1):
            return history
    raise AssertionError(f"No message with the id {number} was published to {topic.rpartition('/')[2]}")


def histories(admin: Client, topic: str, subscription: str, first: int = 0, most: int = 0) -> Iterator[History]:
    """Yield the histories of at most `most` messages from an offset on. 0: all messages."""
    offset, complete, left = first, False, most
    while not complete and (left or not most):
        page = admin.get(path_of("topics", topic, "stories"), **{"from": offset, "max": min(left, PAGE) or PAGE})
        for story in page["stories"]:
            yield _history(topic, subscription, story)
        offset, complete, left = page["next_offset"], page["complete"], left - len(page["stories"])


def _history(topic: str, subscription: str, story: Mapping[str, Any]) -> History:
    if not story["complete"]:
        where = f"message {story['offset']} of {topic.rpartition('/')[2]}"
        raise UnavailableError(f"The server no longer knows the whole history of {where}")
    events = [event for event in story["events"] if event["subscription"] == subscription]
    acks = [_instant(event["at"]) for event in events if event["kind"] == "acked"]
    sentences = [f"{stamp(event['at'])} {event['sentence']}" for event in events]
    return History(story["offset"], _deliveries(events), acks, sentences)


def _deliveries(events: Sequence[Mapping[str, Any]]) -> list[Delivery]:
    deliveries: list[Delivery] = []
    for event in events:
        kind, at = event["kind"], _instant(event["at"])
        if kind == "delivered":
            deliveries.append(Delivery(at, event["door"]))
        elif kind == "unseen":
            deliveries.pop()  # it was returned before a program saw it
        elif kind in _ENDS and deliveries and deliveries[-1].outcome in ("open", "lapsed"):  # a late ack may count
            deliveries[-1] = deliveries[-1]._replace(outcome=kind, ended_at=at)
    return deliveries


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)

"""What happened to messages on a subscription: deliveries and acks, from the stories that the server keeps of them.

A story whose beginning the server has forgotten answers nothing: an UnavailableError says so.
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
    """A message given to a consumer. `outcome`: how that ended, "open" if it did not yet.

    acked; returned (by the consumer); lapsed (its deadline came); dead-letter, expired, retention (given up meanwhile);
    skipped, sought (the subscription was purged, or set to another place).
    """

    at: datetime
    door: str | None
    outcome: str = "open"
    ended_at: datetime | None = None


class History(NamedTuple):
    """Of one message on one subscription."""

    offset: int
    deliveries: Sequence[Delivery]
    acks: Sequence[datetime]
    sentences: Sequence[str]


def history_of(admin: Client, topic: str, subscription: str, number: int) -> History:
    """Of the message with an id."""
    page = admin.get(path_of("topics", topic, "stories"), max=1)
    first_id = int(page["stories"][0]["id"]) if page["stories"] else number + 1
    if number >= first_id:
        for found in histories(admin, topic, subscription, number - first_id, 1):
            return found
    raise AssertionError(f"No message with the id {number} was published to {topic.rpartition('/')[2]}")


def histories(admin: Client, topic: str, subscription: str, first: int = 0, most: int = 0) -> Iterator[History]:
    """Of the messages from an offset on; `most`: so many, 0: all of them."""
    place, complete, left = first, False, most
    while not complete and (left or not most):
        page = admin.get(path_of("topics", topic, "stories"), **{"from": place, "max": min(left, PAGE) or PAGE})
        for story in page["stories"]:
            yield _history(topic, subscription, story)
        place, complete, left = page["next_offset"], page["complete"], left - len(page["stories"])


def _history(topic: str, subscription: str, story: Mapping[str, Any]) -> History:
    if not story["complete"]:
        where = f"message {story['offset']} of {topic.rpartition('/')[2]}"
        raise UnavailableError(f"The server has forgotten the beginning of what happened to {where}: nobody can tell")
    events = [each for each in story["events"] if each["subscription"] == subscription]
    acks = [_instant(each["at"]) for each in events if each["kind"] == "acked"]
    sentences = [f"{stamp(each['at'])} {each['sentence']}" for each in events]
    return History(story["offset"], _deliveries(events), acks, sentences)


def _deliveries(events: Sequence[Mapping[str, Any]]) -> list[Delivery]:
    found: list[Delivery] = []
    for event in events:
        kind, at = event["kind"], _instant(event["at"])
        if kind == "delivered":
            found.append(Delivery(at, event["door"]))
        elif kind == "unseen":
            found.pop()  # it went back before a program had it
        elif kind in _ENDS and found and found[-1].outcome in ("open", "lapsed"):  # a late ack may still count
            found[-1] = found[-1]._replace(outcome=kind, ended_at=at)
    return found


def _instant(text: str) -> datetime:
    return datetime.fromisoformat(text)

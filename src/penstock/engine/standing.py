"""How a subscription stands: a value that differs whenever a pull might answer differently.

The rule kept here: who found nothing waits only if nothing happened since it began to look. Between the look and the
wait lies a commit, and a message that came meanwhile would call nobody.
"""

from __future__ import annotations

from typing import NamedTuple

from penstock.broker.model import SubscriptionOptions
from penstock.broker.state import State


class Standing(NamedTuple):
    tail: int  # a publish moves it
    settled: int  # an ack moves it
    in_flight: int  # a nack or the end of a lease moves it
    cursor: int  # a seek moves it
    detached: bool
    options: SubscriptionOptions


def standing(state: State, name: str) -> Standing:
    subscription = state.subscription(name)
    topic = state.read_topic(subscription)
    return Standing(
        topic.tail if topic is not None else 0,
        subscription.settled,
        subscription.in_flight,
        subscription.cursor,
        subscription.detached,
        subscription.options,
    )

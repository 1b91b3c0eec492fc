"""Who is told that a subscription is full: the log, once, when it begins.

The rule kept here: one line when a subscription first goes without a message, and no more until a publish was taken
by it whole, so that a queue nobody reads cannot fill the log as well.
"""

from __future__ import annotations

import logging

from penstock.broker.facts import Published
from penstock.broker.state import State

log = logging.getLogger("penstock")


class CapacityWatch:
    def __init__(self) -> None:
        self._full: dict[int, int] = {}  # subscription -> its topic

    def note(self, fact: Published, state: State) -> None:
        if fact.discards or self._full:
            self._look(fact, state)

    def _look(self, fact: Published, state: State) -> None:
        without = {number for number, _, _ in fact.discards}
        for number, topic in list(self._full.items()):
            if topic == fact.topic and number not in without:
                del self._full[number]
        for number, _, _ in fact.discards:
            if number not in self._full and number in state.subscriptions:
                self._full[number] = fact.topic
                name = state.subscriptions[number].name
                log.warning("Subscription %s is full: messages are discarded until it has room", name)

"""The ledger that every command uses: the state, the cached log, the limits, and decided facts not yet stored.

`emit` applies a fact and records it, in one step. After a command, all its facts go to the journal together.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import TypeAlias

from penstock.broker.dump import StateDump
from penstock.broker.facts import Fact, StoreNamed
from penstock.broker.limits import Limits
from penstock.broker.log import LogCache, Need, Sizes
from penstock.broker.model import Batch, Message
from penstock.broker.retry import SourceAttributes, source_attributes
from penstock.broker.state import State
from penstock.broker.topic import Topic

Draw: TypeAlias = Callable[[], int]  # returns a number from 1 to 2^63 - 1 that cannot be guessed
TimeAt: TypeAlias = Callable[[str, int], int]  # the time of a topic, when it is `now` for the command


def same_time(_: str, now: int) -> int:
    return now


class Ledger:
    def __init__(
        self,
        limits: Limits | None = None,
        *,
        draw: Draw,
        sizes: Sizes | None = None,
        describe_source: SourceAttributes = source_attributes,
        time_at: TimeAt = same_time,
    ) -> None:
        self.limits = limits or Limits()
        self.draw = draw
        self.state = State()
        self.cache = LogCache(sizes or Sizes())
        self.describe_source = describe_source
        self.time_at = time_at
        self.facts: list[Fact] = []
        self.batches: list[Batch] = []
        self.recovered_at = self.dumped_at = 0
        self.refused: dict[str, int] = {}  # publishes refused since the start, by reason

    def emit(self, fact: Fact) -> None:
        self.state.apply(fact)
        self.facts.append(fact)

    def take(self) -> tuple[list[Fact], list[Batch]]:
        """Return the facts and messages decided since the last call, for the journal."""
        facts, batches = self.facts, self.batches
        self.facts, self.batches = [], []
        return facts, batches

    def recover(self, dump: StateDump | None, facts: Iterable[Fact]) -> None:
        """Replace the state. `recovered_at` becomes the latest instant in it."""
        self.state = State.load(dump) if dump is not None else State()
        at = self.dumped_at = dump.at if dump is not None else 0
        for fact in facts:
            self.state.apply(fact)
            at = max(at, getattr(fact, "at", 0))
        self.state.topic_index.sort()
        self.state.subscription_index.sort()
        self.recovered_at = max([at, *(subscription.used_at for subscription in self.state.subscriptions.values())])
        if not self.state.identity:
            self.emit(named_store(self.draw))

    def latest(self, includes: Callable[[str], bool]) -> int:
        """Return the latest publish or use, in the time of topics chosen by name."""
        state = self.state
        published = [topic.last_publish_at for topic in state.topics.values() if includes(topic.name)]
        used = [reader.used_at for reader in state.subscriptions.values() if includes(reader.topic_name)]
        return max([0, *published, *used])

    def count_on_from(self, former: Ledger) -> None:
        """Take over the counters of the ledger that this one replaces, because counters only grow."""
        self.refused = former.refused
        for number, topic in self.state.topics.items():
            if number in former.state.topics:
                topic.counts = former.state.topics[number].counts
        for number, subscription in self.state.subscriptions.items():
            if number in former.state.subscriptions:
                subscription.counts = former.state.subscriptions[number].counts

    def load(self, topic: int, messages: list[Message]) -> None:
        """Cache messages that a command asked for with a Need."""
        if messages and topic in self.state.topics:
            self.cache.load(topic, messages)

    def retention_seconds(self, topic: Topic) -> float:
        """Return how long a topic keeps acked messages."""
        return max(topic.options.retention_seconds, self.limits.retention_seconds)

    def retention_bytes(self, topic: Topic) -> int:
        return topic.options.retention_bytes or self.limits.retention_bytes

    def refuse(self, reason: str) -> None:
        self.refused[reason] = self.refused.get(reason, 0) + 1

    def look_up(self, topic: Topic, offset: int) -> Message | Need:
        message = self.cache.get(topic.number, offset)
        if message is None:
            return self.cache.need(topic.number, offset, topic.tail, topic.mean_bytes())
        return message


def named_store(draw: Draw, *, renewed: bool = False) -> StoreNamed:
    """Return a new identity with its secret."""
    secret = b"".join(draw().to_bytes(8, "big") for _ in range(2))
    return StoreNamed(f"{draw():016x}{draw():016x}", secret, renewed)

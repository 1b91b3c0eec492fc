"""A queue with its clock and its journal, and methods to move the clock, close the queue and crash it.

Every test has its own journal and its own time, and no test sleeps. Files that use this harness import no journal, so
another journal joins the suite with one line here.
"""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from penstock import InternalMessage, ManualClock, MessageQueue
from penstock.broker.dump import StateDump
from penstock.journal.memory import MemoryJournal
from penstock.journal.port import Journal
from penstock.journal.sqlite import SqliteJournal
from tests.lenient import LenientQueue

JOURNALS = ("memory", "sqlite")


class Harness:
    """A MessageQueue on one kind of journal, with a clock that the test moves."""

    def __init__(self, kind: str, folder: Path, **parts: Any) -> None:
        self.kind = kind
        self.clock = ManualClock()
        self.parts = parts
        self._places = iter(folder / f"life-{number}" for number in range(100))
        self._place = next(self._places)
        self._open: list[MessageQueue] = []
        self.queue = self._start()

    def _start(self) -> MessageQueue:
        journal: Journal = MemoryJournal() if self.kind == "memory" else SqliteJournal(self._place)
        queue = MessageQueue(journal, clock=self.clock, **self.parts)
        self._open.append(queue)
        return queue

    def again(self, **parts: Any) -> MessageQueue:
        """Start an empty queue with other parts, such as limits or a small cache."""
        self.close()
        self.parts, self._place = parts, next(self._places)
        self.queue = self._start()
        return self.queue

    def reopen(self, *, crash: bool = False) -> MessageQueue:
        """Open the store again after a clean stop, or as a killed process leaves it."""
        assert self.kind != "memory", "a memory journal is lost with its process"
        if crash:
            left_behind, self._place = self._place, next(self._places)
            shutil.copytree(left_behind, self._place)
        else:
            self.queue.close()
        self.queue = self._start()
        return self.queue

    @property
    def lenient(self) -> LenientQueue:
        """Return the queue for a caller whose receipts are not strict."""
        return LenientQueue(self.queue)

    def dump(self) -> StateDump:
        return self.queue.engine.broker.state.dump()

    def close(self) -> None:
        for queue in self._open:
            queue.close()
        self._open.clear()

    # ------------------------------------------------------------------ shortcuts

    def topic_with(self, *subscriptions: str, topic: str = "topic", **options: Any) -> None:
        self.queue.register_topic(topic)
        for name in subscriptions:
            self.queue.register_subscription(name, topic, **options)

    def publish(self, *bodies: str, topic: str = "topic", key: str | None = None) -> list[str]:
        return self.queue.publish(topic, [InternalMessage(body.encode(), ordering_key=key) for body in bodies])

    def pull(self, subscription: str, most: int = 100) -> list[str]:
        """Pull messages and return their bodies."""
        return [message.data.decode() for message in self.queue.pull(subscription, most)]

    def take(self, subscription: str) -> InternalMessage:
        """Pull one message and return it."""
        (message,) = self.queue.pull(subscription, 1)
        return message

    def drain(self, subscription: str) -> list[str]:
        """Pull and ack all messages, and return their bodies in order of delivery."""
        bodies = []
        while messages := self.queue.pull(subscription, 100):
            bodies += [message.data.decode() for message in messages]
            assert self.queue.ack_many([message.ack_id for message in messages])[:2] == ([], [])
        return bodies

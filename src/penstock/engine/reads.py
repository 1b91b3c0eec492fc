"""Reads from the journal in a thread of its own, one block ahead of consumers that drain a backlog.

Only committed messages are read, and each topic has at most one block waiting. The next block is read and decoded
while the current one is consumed, so that a deep queue delivers as fast as an empty one.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import Any, NamedTuple, TypeVar

from penstock.broker.broker import Broker
from penstock.broker.log import Need, Sizes
from penstock.broker.model import Message
from penstock.engine.commands import Find, Pause, PublishTime
from penstock.errors import DamagedStoreError
from penstock.journal.port import Journal

T = TypeVar("T")


class Block(NamedTuple):
    """Messages that a step asked for. The next step loads them into the cache."""

    topic: int
    messages: list[Message]
    tail: int  # of the topic: all messages below it are committed


class ReadAhead:
    def __init__(self, journal: Journal, sizes: Sizes) -> None:
        self._journal = journal
        self._topics_max = sizes.topics_ahead
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="penstock-reader")
        self._lock = threading.Lock()  # guards the following fields: commands of several threads read at a time
        self._ahead: OrderedDict[int, tuple[int, Future[list[Message]]]] = OrderedDict()  # topic -> (first, block)

    def read(self, need: Need) -> Future[list[Message]]:
        """Return a future of the messages that a command asked for. They may have been read ahead."""
        with self._lock:
            first, block = self._ahead.pop(need.topic, (-1, None))
        if block is not None and first == need.first:
            return block
        return self.run(self._journal.read, *need, True)

    def run(self, function: Callable[..., T], *args: Any) -> Future[T]:
        return self._threads.submit(function, *args)

    def go_on(self, broker: Broker, block: Block) -> None:
        """Start to read the block after a loaded one, as far as messages are committed."""
        topic_number, messages, tail = block
        topic = broker.state.topics.get(topic_number)
        if topic is None or not messages or not self._topics_max:
            return
        first = messages[-1].offset + 1
        if first >= tail or broker.cache.get(topic_number, first) is not None:
            return
        with self._lock:
            ahead = self._ahead.get(topic_number)
            if ahead is not None and ahead[0] == first:  # another reader of the topic is as far as this one
                return
            need = broker.cache.need(topic_number, first, tail, topic.mean_bytes())
            self._ahead[topic_number] = (first, self.run(self._journal.read, *need, True))
            if len(self._ahead) > self._topics_max:
                self._ahead.popitem(last=False)[1][1].cancel()

    def close(self) -> None:
        self._threads.shutdown(wait=True, cancel_futures=True)
        with self._lock:
            self._ahead.clear()


def answer(journal: Journal, question: Find | PublishTime | Pause) -> int | None:
    if isinstance(question, Pause):
        return None
    if isinstance(question, Find):
        return journal.find(question.topic, question.at)
    try:
        messages = journal.read(question.topic, question.offset, question.offset + 1)
    except DamagedStoreError:  # a read of the message itself reports the damage
        return None
    return messages[0].publish_time if messages else None

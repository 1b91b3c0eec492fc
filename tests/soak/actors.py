"""The clients of the soak test: each is a thread that does one thing until it is stopped.

An actor pauses between its calls, and misbehaves on purpose: it returns messages, forgets them, disconnects and comes
back. It notes in the history what it did and saw. Once `calm` is set it only consumes and acks, so that all topics can
be drained. An unexpected exception ends the soak.
"""

from __future__ import annotations

import random
import threading
import traceback
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tests.soak.history import History

SECONDS = 60  # for a call; only a failing soak waits this long


@dataclass
class Harness:
    """The history and the switches that all actors share."""

    addresses: dict[str, str]
    seed: int
    history: History = field(default_factory=History)
    calm: threading.Event = field(default_factory=threading.Event)  # set: no more publishes and no more misbehaviour
    stop: threading.Event = field(default_factory=threading.Event)
    failures: list[str] = field(default_factory=list)

    def address(self, door: str) -> tuple[str, int]:
        host, _, port = self.addresses[door].rpartition(":")
        return host, int(port)


class Actor(threading.Thread):
    def __init__(self, harness: Harness, name: str, pause_seconds: float) -> None:
        super().__init__(name=name, daemon=True)
        self.harness = harness
        self.pause_seconds = pause_seconds
        self.random = random.Random(f"{harness.seed} {name}")

    def run(self) -> None:
        try:
            self.open()
            while not self.over():
                self.act()
                self.harness.stop.wait(self.pause_seconds)
            self.close()
        except Exception:  # noqa: BLE001 - of any kind: the soak has failed, and says why
            self.harness.failures.append(f"{self.name}: {traceback.format_exc()}")

    def over(self) -> bool:
        return self.harness.stop.is_set()

    def chance(self, share: float) -> bool:
        """Return whether to misbehave now, with this probability while it is allowed."""
        return not self.harness.calm.is_set() and self.random.random() < share

    def open(self) -> None: ...

    def act(self) -> None:
        raise NotImplementedError

    def close(self) -> None: ...


class Publisher(Actor):
    """An actor that publishes numbered messages of a topic, a few at a time."""

    def __init__(
        self,
        harness: Harness,
        name: str,
        topic: str,
        publish: Callable[[list[str]], None],
        *,
        hang_up: Callable[[], None],
        pause_seconds: float,
        keys: int = 0,
        at_once: int = 5,
    ) -> None:
        super().__init__(harness, name, pause_seconds)
        self._topic = topic
        self._publish = publish
        self._hang_up = hang_up
        self._keys = keys
        self._at_once = at_once
        self._number = 0

    def over(self) -> bool:
        return self.harness.calm.is_set() or self.harness.stop.is_set()

    def act(self) -> None:
        key = f"key-{self.random.randrange(self._keys)}" if self._keys else ""
        bodies = [self._next(key) for _ in range(self.random.randint(1, self._at_once))]
        self.harness.history.attempt(self._topic, *bodies)
        self._publish(bodies)
        self.harness.history.accept(self._topic, *bodies)

    def close(self) -> None:
        self._hang_up()

    def _next(self, key: str) -> str:
        self._number += 1
        return f"{self.name}|{key}|{self._number}" if key else f"{self.name}-{self._number}"


class Consumer(Actor):
    """An actor that takes messages of a subscription and settles most of them.

    `connect` gives a new connection, with methods to take messages, ack one, return one and disconnect.
    """

    def __init__(
        self,
        harness: Harness,
        name: str,
        subscription: str,
        connect: Callable[[], Connection],
        *,
        pause_seconds: float = 0.05,
        refuse: Callable[[str], bool] = lambda body: False,
    ) -> None:
        super().__init__(harness, name, pause_seconds)
        self._subscription = subscription
        self._connect = connect
        self._refuse = refuse  # messages that it never acks

    def open(self) -> None:
        self._connection = self._connect()

    def act(self) -> None:
        for body, receipt in self._connection.take():
            self.harness.history.deliver(self._subscription, body)
            if self._refuse(body) or self.chance(0.1):
                self._connection.give_back(receipt)
            elif self.chance(0.02):
                pass  # forgotten: the message comes again after its deadline
            elif self._connection.ack(receipt):
                self.harness.history.confirm_ack(self._subscription, body)
            if self.chance(0.005):  # disconnects while it holds messages
                self._connection.hang_up()
                self._connection = self._connect()
                return

    def close(self) -> None:
        self._connection.hang_up()


class Connection:
    """The connection of a consumer to its subscription."""

    def take(self) -> Iterable[tuple[str, str]]:
        """Return bodies and receipts as they come."""
        raise NotImplementedError

    def ack(self, receipt: str) -> bool:
        """Ack a message, and return whether the broker has confirmed it."""
        raise NotImplementedError

    def give_back(self, receipt: str) -> None:
        raise NotImplementedError

    def hang_up(self) -> None:
        raise NotImplementedError

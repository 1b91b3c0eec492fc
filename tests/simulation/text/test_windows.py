"""Consumers with windows that connect, die and fail: which deliveries count as attempts.

Clients of the package talk to connections of the door, without a network. Each program records its messages. No message
may have more attempts than the number of times that a program had it, and none may be dead-lettered before programs
failed at it as often as the policy says.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from typing import cast

from penstock.doors.resources import QUEUE_OPTIONS
from penstock.doors.text.connection import TextConnection
from penstock.doors.text.server import TextDoor
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from penstock.text.session import Message, Session
from tests.doors.text.harness import UNLIMITED, consume
from tests.simulation.text.test_fuzz import LIMITS, Wire
from tests.unit.engine.journals import StepJournal

TOPIC, SUBSCRIPTION = "projects/p/topics/q", "projects/p/subscriptions/q"
DEAD = "projects/p/topics/dead"
ATTEMPTS_MAX = 3
MESSAGES = 12
BACKLOG = 200


class Program:
    """A client and its program, which takes messages one after the other."""

    def __init__(self, door: TextDoor, taken: Counter[bytes], chance: random.Random) -> None:
        self._taken, self._chance = taken, chance
        self._wire, self._connection = Wire(), TextConnection(door)
        self._connection.connection_made(cast(asyncio.Transport, self._wire))
        self._session = Session(lambda: None)
        self._session.connected()
        self._stream = self._session.consume("q", chance.choice([1, 2, 5, 100]))
        self._in_hand: Message | None = None

    async def talk(self) -> None:
        """Exchange messages until neither end has more to send."""
        for _ in range(6):
            said, self._session.outgoing = bytes(self._session.outgoing), bytearray()
            if said and not self._wire.closed:
                self._connection.data_received(said)
            await asyncio.sleep(0)
            heard, self._wire.written = bytes(self._wire.written), bytearray()
            self._session.receive(heard)

    async def work(self) -> None:
        for _ in range(self._chance.randrange(5)):
            await self.talk()
            self._answer()
            self._take()
        await self.talk()

    def _take(self) -> None:
        if self._stream.arrived:
            self._in_hand = self._stream.arrived.popleft()
            self._taken[self._in_hand.content] += 1

    def _answer(self) -> None:
        message, self._in_hand = self._in_hand, None
        if message is not None:
            action = self._chance.choice(["ack", "give back", "give back", "forget"])
            if action == "ack":
                message.ack()
            elif action == "give back":
                message.give_back()

    async def leave(self) -> None:
        if self._chance.random() < 0.5:
            self._session.cancel_all()
            await self.talk()
        elif self._in_hand is None:
            await self.talk()
            self._take()  # it dies while it works; then the first message on the wire counts an attempt
        self._connection.connection_lost(None)


async def visits(chance: random.Random) -> None:
    queue = AsyncMessageQueue(MemoryJournal(), limits=UNLIMITED)
    await queue.start()
    door = TextDoor(host="", port=0, queue=queue, project="p", log=logging.getLogger("windows"), options=LIMITS)
    await queue.provide_queue(DEAD, "projects/p/subscriptions/dead", QUEUE_OPTIONS)
    options = replace(QUEUE_OPTIONS, dead_letter_topic=DEAD, max_delivery_attempts=ATTEMPTS_MAX)
    await queue.provide_queue(TOPIC, SUBSCRIPTION, options)
    await door.queues.get(b"q").send([b"%d" % number for number in range(MESSAGES)])
    taken: Counter[bytes] = Counter()
    for _ in range(8):
        programs = [Program(door, taken, chance) for _ in range(chance.randrange(1, 3))]
        for program in programs:
            await program.work()
        for program in programs:
            await program.leave()
        await door.queues.wait_for_returns()
        await judge(queue, taken)
    await queue.close()


async def judge(queue: AsyncMessageQueue, taken: Counter[bytes]) -> None:
    for message, attempts in (await queue.peek(SUBSCRIPTION, MESSAGES)).messages:
        assert attempts <= taken[message.data], (
            f"{message.data!r}: {attempts} attempts, seen {taken[message.data]} times"
        )
    for message, _ in (await queue.peek("projects/p/subscriptions/dead", MESSAGES)).messages:
        assert taken[message.data] >= ATTEMPTS_MAX, (
            f"{message.data!r} was dead-lettered, seen {taken[message.data]} times"
        )


async def backlog(chance: random.Random) -> list[bytes]:
    """Return what one consumer of a backlog hears while commits, larger windows and acks come in random order."""
    limits = replace(LIMITS, dispatch_bytes=chance.choice([20, 60, 1 << 20]))
    journal = StepJournal()
    queue = AsyncMessageQueue(journal, limits=UNLIMITED)
    await queue.start()
    door = TextDoor(host="", port=0, queue=queue, project="p", log=logging.getLogger("windows"), options=limits)
    await door.queues.get(b"q").send([b"%03d" % number for number in range(BACKLOG)])
    journal.stepping = True
    wire, connection, session = Wire(), TextConnection(door), Session(lambda: None)
    connection.connection_made(cast(asyncio.Transport, wire))
    session.connected()
    stream, heard = session.consume("q", 1), []
    async with asyncio.timeout(20):
        while len(heard) < BACKLOG:
            if chance.random() < 0.3:
                connection.data_received(consume(b"q", chance.randrange(1, 50)))
            said, session.outgoing = bytes(session.outgoing), bytearray()
            connection.data_received(said)
            for _ in range(chance.randrange(1, 20)):
                await asyncio.sleep(0)
            session.receive(bytes(wire.written))
            wire.written.clear()
            while stream.arrived:
                message = stream.arrived.popleft()
                heard.append(message.content)
                message.ack()
            await journal.rest(queue.engine.commits)
            if journal.waiting and chance.random() < 0.5:
                journal.step()
    journal.step_freely()
    connection.connection_lost(None)
    await door.queues.wait_for_returns()
    await queue.close()
    return heard


def test_windows_of_many_blocks_keep_the_order_while_commits_are_slow(rounds: Callable[[int, int], int]) -> None:
    """T-014."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)
    for _ in range(rounds(40, 5_000)):
        assert asyncio.run(backlog(chance)) == [b"%03d" % number for number in range(BACKLOG)]


def check(rounds: int, seed: int) -> None:
    chance = random.Random(seed)

    async def run() -> None:
        for _ in range(rounds):
            await visits(chance)

    asyncio.run(run())


def test_messages_that_no_program_saw_count_no_attempt(rounds: Callable[[int, int], int]) -> None:
    """T-043, T-044."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    check(rounds(60, 20_000), seed)

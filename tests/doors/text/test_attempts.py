"""The count of deliveries: a message counts when it reached the program, and not while it waited in a window."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace

import pytest

from penstock.doors.resources import QUEUE_OPTIONS
from penstock.engine import lookups
from penstock.text import AsyncClient, Client
from tests.doors.text.harness import SECONDS, Harness, Peer, ack, consume, frame, give_back, play, send
from tests.doors.text.test_consuming import filled, numbers
from tests.unit.engine.journals import ToldJournal

ATTEMPTS_MAX = 5


async def attempts(harness: Harness, queue: str, total: int) -> list[int]:
    """Return the number of deliveries of each waiting message of a queue."""
    await harness.until(lambda: harness.in_flight(queue) == 0)
    return [count for _, count in (await harness.queue.peek(harness.names(queue)[1], total)).messages]


async def with_dead_letters(harness: Harness, count: int) -> Peer:
    """Create a queue with N messages, whose messages move to another queue after five failures."""
    peer = await filled(harness, b"q", count)
    dead, graves = harness.names("dead")
    await harness.queue.provide_queue(dead, graves, QUEUE_OPTIONS)
    options = replace(QUEUE_OPTIONS, dead_letter_topic=dead, max_delivery_attempts=ATTEMPTS_MAX)
    await harness.queue.change_subscription(harness.names("q")[1], options)
    return peer


def unread(queue: bytes, message_id: bytes) -> bytes:
    return frame(2, 8, (1, queue), (3, message_id))


def take_and_ack(address: str) -> None:
    with Client(address, timeout_seconds=SECONDS) as client:
        for message in client.consume("q", window=100, wait_seconds=SECONDS):
            message.ack()
            break


def take_and_leave(address: str) -> None:
    with Client(address, timeout_seconds=SECONDS) as client:
        next(client.consume("q", window=100, wait_seconds=SECONDS))


@pytest.mark.parametrize(("visit", "left", "counts"), [(take_and_ack, 22, [0]), (take_and_leave, 29, [3, 0])])
def test_an_open_window_alone_counts_no_attempts(visit: Callable[[str], None], left: int, counts: list[int]) -> None:
    """T-043, T-044: eight clients with a window of 100 take one message each. No other message is dead-lettered."""

    async def scenario(harness: Harness) -> None:
        await with_dead_letters(harness, 30)
        for _ in range(8):
            await asyncio.to_thread(visit, harness.door.address)
        found = await attempts(harness, "q", 100)
        assert len(found) == left
        assert found == counts + [0] * (left - len(counts))
        dead = lookups.topic(harness.queue.engine, harness.names("dead")[0]).tail
        assert dead == (0 if visit is take_and_ack else 1)  # the first one was seen, and failed, five times

    play(scenario)


@pytest.mark.parametrize("how", ["ends the loop", "closes"])
def test_an_async_client_that_leaves_returns_unseen_messages(how: str) -> None:
    """T-043."""

    async def scenario(harness: Harness) -> None:
        await filled(harness, b"q", 20)
        async with AsyncClient(harness.door.address, timeout_seconds=SECONDS) as client:
            messages = client.consume("q", window=100, wait_seconds=SECONDS)
            async for _ in messages:
                await harness.until(lambda: harness.in_flight("q") == 20)
                break
            if how == "ends the loop":
                await messages.aclose()  # type: ignore[attr-defined]
        assert await attempts(harness, "q", 100) == [1] + [0] * 19

    play(scenario)


@pytest.mark.parametrize("orderly", [True, False], ids=["closes", "vanishes"])
def test_a_lost_connection_counts_attempts_of_messages_its_program_had(orderly: bool) -> None:
    """T-044: messages before the last settled one count, and the next one, which the program may have been working
    on.
    """

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 8)
        await peer.say(consume(b"q", 8))
        held = await peer.hear_many(8)
        await peer.say(ack(b"q", held[2].id))
        await peer.silence()
        if orderly:
            await peer.close()
        else:
            peer.vanish()
        await harness.until(lambda: harness.in_flight("q") == 0)
        assert await attempts(harness, "q", 8) == [1, 1, 1, 0, 0, 0, 0]

    play(scenario)


def test_a_client_can_name_the_messages_it_has_not_read() -> None:
    """T-043: from that message on nothing counts, and before it everything does."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 6)
        await peer.say(consume(b"q", 6))
        held = await peer.hear_many(6)
        await peer.say(consume(b"q", 0), unread(b"q", held[3].id), unread(b"q", held[3].id))
        again = await peer.hear()
        assert (again.code, again.packages[8]) == ("not-held", b"008")
        await peer.close()
        assert await attempts(harness, "q", 6) == [1, 1, 1, 0, 0, 0]

    play(scenario)


def test_a_message_returned_by_its_id_counts() -> None:
    """T-039."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 2)
        await peer.say(consume(b"q", 1))
        first = await peer.hear()
        await peer.say(consume(b"q", 0), give_back(b"q", first.id))
        assert await attempts(harness, "q", 2) == [1, 0]

    play(scenario)


@pytest.mark.parametrize("version", [1, 2])
def test_a_message_that_was_never_sent_does_not_count(version: int) -> None:
    """T-024, T-044: the message is leased, and still waits for the commit when the client disconnects."""
    journal = ToldJournal()

    async def scenario(harness: Harness) -> None:
        sender, consumer = await harness.peer(), await harness.peer()
        journal.gate.clear()
        await sender.say(*[send(b"q", b"x")] * 3)
        await harness.until(lambda: lookups.find_topic(harness.queue.engine, harness.names("q")[0]))
        await consumer.say(consume(b"q", 3, version))
        await harness.until(lambda: harness.in_flight("q") == 3)
        consumer.vanish()
        await harness.until(lambda: len(harness.door.connections) == 1)
        journal.gate.set()
        await sender.hear_many(3)
        assert await attempts(harness, "q", 3) == [0, 0, 0]

    play(scenario, journal=journal)


def test_a_program_of_version_01_sees_all_messages_of_its_count() -> None:
    """002, T-044: so every sent message of the count is an attempt."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 5)
        await peer.say(consume(b"q", 3, 1))
        assert await peer.contents(3) == numbers(0, 1, 2)
        await peer.close()
        assert await attempts(harness, "q", 5) == [1, 1, 1, 0, 0]

    play(scenario)

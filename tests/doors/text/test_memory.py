"""T-067: the memory of all connections is charged to one budget, and released when they are done or closed."""

from __future__ import annotations

import asyncio
import gc
from weakref import ref

import pytest

from penstock.engine import lookups
from penstock.wire.budget import Budget
from tests.doors.text.harness import Harness, Peer, consume, play, send
from tests.unit.engine.journals import ToldJournal

KIB = 1 << 10
BUSY = "busy"


async def begin(harness: Harness, peer: Peer, size: int, sent: int, version: int = 2) -> bytes:
    """Send the first bytes of a message, and return the others."""
    message = send(b"q", bytes(size), version)
    before = harness.door.budget.in_use_bytes
    await peer.say(message[:sent])
    await harness.until(lambda: harness.door.budget.in_use_bytes >= before + sent - 1 * KIB)
    return message[sent:]


def test_a_message_is_charged_until_it_is_durable() -> None:
    """T-067."""
    journal, budget = ToldJournal(), Budget(1 << 20)

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(send(b"q", b"the queue is there now"))
        await peer.hear()
        rest = await begin(harness, peer, 100 * KIB, 60 * KIB)
        journal.gate.clear()
        await peer.say(rest)
        await harness.until(lambda: lookups.topic(harness.queue.engine, harness.names("q")[0]).tail == 2)
        assert budget.in_use_bytes == 100 * KIB
        journal.gate.set()
        assert (await peer.hear()).type == 5
        assert budget.in_use_bytes == 0

    play(scenario, journal=journal, budget=budget)


def test_an_aborted_message_is_released_at_once() -> None:
    """T-067."""
    budget = Budget(100 * KIB)

    async def scenario(harness: Harness) -> None:
        for _ in range(20):
            peer = await harness.peer()
            await begin(harness, peer, 90 * KIB, 80 * KIB)
            peer.vanish()
            await harness.until(lambda: budget.in_use_bytes == 0)
        assert budget.refusals == 0

    play(scenario, budget=budget)


def test_a_message_without_memory_is_refused_and_others_continue() -> None:
    """T-067: the newest large message is refused. Small messages and the older one pass."""
    budget = Budget(100 * KIB)

    async def scenario(harness: Harness) -> None:
        older, newer, small = await harness.peer(), await harness.peer(), await harness.peer()
        rest = await begin(harness, older, 90 * KIB, 80 * KIB)
        await newer.say(send(b"q", bytes(60 * KIB))[: 50 * KIB])
        refused = await newer.hear()
        assert (refused.code, refused.packages[8]) == (BUSY, b"001")
        assert await newer.end() == b""
        await small.say(send(b"q", b"small"))
        assert (await small.hear()).type == 5
        await older.say(rest)
        assert (await older.hear()).type == 5
        assert harness.door.counts[BUSY] == 1

    play(scenario, budget=budget)


def test_version_01_is_closed_when_there_is_no_memory() -> None:
    """T-053, T-067."""
    budget = Budget(100 * KIB)

    async def scenario(harness: Harness) -> None:
        await begin(harness, await harness.peer(), 90 * KIB, 80 * KIB)
        newer = await harness.peer()
        await newer.say(send(b"q", bytes(60 * KIB), version=1)[: 50 * KIB])
        assert await newer.end() == b""

    play(scenario, budget=budget)


def test_complete_sends_without_memory_are_refused_and_the_connection_continues() -> None:
    """T-067: the sends were read completely, so the connection can continue."""
    journal, budget = ToldJournal(), Budget(50 * KIB)

    async def scenario(harness: Harness) -> None:
        first, second = await harness.peer(), await harness.peer()
        await first.say(send(b"q", b"the queue is there now"))
        await first.hear()
        journal.gate.clear()
        await first.say(send(b"q", bytes(20 * KIB)), send(b"q", bytes(20 * KIB)))
        await harness.until(lambda: lookups.topic(harness.queue.engine, harness.names("q")[0]).tail == 3)
        await second.say(send(b"q", bytes(20 * KIB)))
        assert (await second.hear()).code == "full"
        journal.gate.set()
        assert [each.type for each in await first.hear_many(2)] == [5, 5]
        await second.say(send(b"q", bytes(20 * KIB)))
        assert (await second.hear()).type == 5
        assert budget.in_use_bytes == 0

    play(scenario, journal=journal, budget=budget)


def test_a_consumer_that_left_is_not_kept_in_memory() -> None:
    """The connection is freed at once, not by the next consumer of the queue or by the garbage collector."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(send(b"q", b"1"), consume(b"q", 10))
        await peer.hear_many(2)
        (connection,) = map(ref, harness.door.connections)
        peer.vanish()
        await harness.until(lambda: not harness.door.connections)
        await harness.queue.commit()
        await asyncio.sleep(0)
        assert connection() is None

    gc.disable()
    try:
        play(scenario)
    finally:
        gc.enable()


def test_clients_with_incomplete_messages_do_not_wait_for_each_other() -> None:
    """T-067: eight clients, each with an incomplete message of a third of the budget, all succeed in the end."""
    budget = Budget(300 * KIB)

    async def upload(harness: Harness, half_way: asyncio.Barrier) -> int:
        message, attempts = send(b"q", bytes(100 * KIB)), 0
        while True:
            attempts += 1
            peer = await harness.peer()
            try:
                await peer.say(message[: 50 * KIB])
                if attempts == 1:
                    await half_way.wait()
                await peer.say(message[50 * KIB :])
                if (await peer.hear()).type == 5:
                    return attempts
            except (ConnectionError, asyncio.IncompleteReadError):
                pass  # refused, and closed while it was still sending

    async def scenario(harness: Harness) -> None:
        half_way = asyncio.Barrier(8)
        async with asyncio.timeout(20), asyncio.TaskGroup() as group:
            tasks = [group.create_task(upload(harness, half_way)) for _ in range(8)]
        assert sum(task.result() for task in tasks) > 8, "the budget was never used up"
        assert lookups.topic(harness.queue.engine, harness.names("q")[0]).tail == 8

    play(scenario, budget=budget)


@pytest.mark.parametrize("limit_bytes", [64 << 20, 11 << 20], ids=["enough", "spent"])
def test_unread_output_is_charged_until_the_client_disconnects(limit_bytes: int) -> None:
    """T-034, T-064, T-067: beyond the budget they are closed, and their messages return."""
    budget = Budget(limit_bytes)

    async def scenario(harness: Harness) -> None:
        sender = await harness.peer()
        for _ in range(4):
            await sender.say(send(b"q", bytes(10 << 20)))
            await sender.hear()
        deaf = [await harness.peer(limit=1) for _ in range(4)]
        for peer in deaf:
            await peer.say(consume(b"q", 10))
        if limit_bytes == 11 << 20:
            await harness.until(lambda: budget.refusals >= 1)
            assert budget.in_use_bytes <= limit_bytes
        else:
            await harness.until(lambda: budget.in_use_bytes > 4 << 20)
        for peer in deaf:
            peer.vanish()
        await harness.until(lambda: budget.in_use_bytes == 0 and harness.in_flight("q") == 0)

    play(scenario, budget=budget)

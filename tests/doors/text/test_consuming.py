"""Windows: the number, queues and order of messages, and the return of unacknowledged messages."""

from __future__ import annotations

import asyncio

import pytest

from penstock.doors.text.options import TextOptions
from penstock.engine import lookups
from tests.doors.text.harness import Harness, Heard, Peer, ack, consume, give_back, play, send
from tests.unit.engine.journals import ToldJournal


async def filled(harness: Harness, queue: bytes, count: int) -> Peer:
    """Connect a peer that has sent 0, 1, 2 ... to a queue."""
    peer = await harness.peer()
    await peer.say(*(send(queue, b"%d" % number) for number in range(count)))
    await peer.hear_many(count)
    return peer


def numbers(*values: int) -> list[bytes]:
    return [b"%d" % value for value in values]


def test_a_window_holds_n_and_an_acknowledgement_frees_a_place() -> None:
    """T-014, T-025, T-026, T-036."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 6)
        await peer.say(consume(b"q", 2))
        first, second = await peer.hear_many(2)
        assert [first.content, second.content] == numbers(0, 1)
        await peer.silence()
        await peer.say(ack(b"q", second.id))
        third = await peer.hear()
        assert third.content == b"2"
        await peer.silence()
        await peer.say(ack(b"q", first.id), ack(b"q", third.id))
        assert await peer.contents(2) == numbers(3, 4)
        await peer.silence()

    play(scenario)


def test_a_count_of_version_01_is_a_count() -> None:
    """002, T-025: N messages, and no more until the client asks again, whatever it acknowledges."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 20)
        await peer.say(consume(b"q", 5, 1))
        held = await peer.hear_many(5)
        assert [each.content for each in held] == numbers(0, 1, 2, 3, 4)
        await peer.say(*(ack(b"q", each.id, 1) for each in held))
        await peer.silence()
        await peer.say(consume(b"q", 2, 1), consume(b"q", 1, 1))
        assert await peer.contents(3) == numbers(5, 6, 7)
        await peer.silence()

    play(scenario)


@pytest.mark.parametrize("line", [True, False], ids=["in lines", "compact"])
def test_a_queue_name_may_have_256_bytes(line: bool) -> None:
    """002, T-011: as in the specification's own example of a package header."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer(line)
        name = b"n" * 256
        await peer.say(send(name, b"x", 1, line), consume(name, 1, 1, line))
        heard = await peer.hear()
        assert (heard.packages[1], heard.content) == (name, b"x")

    play(scenario)


def test_a_count_of_version_01_waits_for_messages_and_can_be_withdrawn() -> None:
    """002, T-025, T-028."""

    async def scenario(harness: Harness) -> None:
        peer, other = await harness.peer(), await harness.peer()
        await peer.say(consume(b"q", 3, 1))
        await peer.silence()
        await filled(harness, b"q", 1)
        assert await peer.contents(1) == numbers(0)
        await peer.say(consume(b"q", 0, 1))
        await peer.silence()
        await filled(harness, b"q", 2)
        await peer.silence()
        await other.say(consume(b"q", 9, 1))
        assert await other.contents(2) == numbers(0, 1)

    play(scenario)


def test_acknowledged_messages_are_not_redelivered() -> None:
    """T-036."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 3)
        await peer.say(consume(b"q", 2))
        for heard in await peer.hear_many(2):
            await peer.say(ack(b"q", heard.id))
        assert (await peer.hear()).content == b"2"
        peer.vanish()
        other = await harness.peer()
        await other.say(consume(b"q", 10))
        assert await other.contents(1) == [b"2"]
        await other.silence()

    play(scenario)


def test_a_new_request_replaces_the_window() -> None:
    """T-027: larger at once, smaller once fewer are outstanding."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 10)
        await peer.say(consume(b"q", 1))
        heard = [await peer.hear()]
        await peer.say(consume(b"q", 4))
        heard += await peer.hear_many(3)
        await peer.say(consume(b"q", 2), ack(b"q", heard[0].id), ack(b"q", heard[1].id))
        await peer.silence()
        await peer.say(ack(b"q", heard[2].id))
        assert await peer.contents(1) == [b"4"]
        await peer.silence()

    play(scenario)


def test_a_count_of_0_closes_the_window_and_keeps_outstanding_messages() -> None:
    """T-028."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 4)
        await peer.say(consume(b"q", 2))
        first, second = await peer.hear_many(2)
        await peer.say(consume(b"q", 0), ack(b"q", first.id))
        await peer.silence()
        other = await harness.peer()
        await other.say(consume(b"q", 10))
        assert await other.contents(2) == numbers(2, 3)
        await peer.say(give_back(b"q", second.id))
        assert await other.contents(1) == [b"1"]

    play(scenario)


def test_the_endpoint_keeps_its_own_limit() -> None:
    """T-029."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 10)
        await peer.say(consume(b"q", 9_999_999_999))
        assert await peer.contents(3) == numbers(0, 1, 2)
        await peer.silence()

    play(scenario, options=TextOptions(window_max=3))


def test_each_queue_has_its_own_window() -> None:
    """T-030."""

    async def scenario(harness: Harness) -> None:
        await filled(harness, b"a", 5)
        await filled(harness, b"b", 5)
        peer = await harness.peer()
        await peer.say(consume(b"a", 1), consume(b"b", 3))
        heard = await peer.hear_many(4)
        await peer.silence()
        by_queue = {name: [each for each in heard if each.packages[1] == name] for name in (b"a", b"b")}
        assert [len(by_queue[b"a"]), len(by_queue[b"b"])] == [1, 3]
        await peer.say(ack(b"b", by_queue[b"a"][0].id))
        assert (await peer.hear()).code == "not-held"
        await peer.say(ack(b"a", by_queue[b"a"][0].id))
        following = await peer.hear()
        assert (following.packages[1], following.content) == (b"a", b"1")

    play(scenario)


@pytest.mark.parametrize("together", [True, False], ids=["in one batch", "one by one"])
def test_consumers_are_served_in_turn(together: bool) -> None:
    """T-031: the first consumer does not take all messages."""

    async def scenario(harness: Harness) -> None:
        consumers = [await harness.peer() for _ in range(3)]
        for each in consumers:
            await each.say(consume(b"q", 100))
            await each.silence()
        sender = await harness.peer()
        frames = [send(b"q", b"%d" % number) for number in range(30)]
        if together:
            await sender.say(*frames)
            await sender.hear_many(30)
        else:
            for each_frame in frames:
                await sender.say(each_frame)
                await sender.hear()
        shares = [await each.contents(10) for each in consumers]
        assert sorted(int(content) for share in shares for content in share) == list(range(30))
        for share in shares:
            assert [int(content) for content in share] == sorted(int(content) for content in share)
        for each in consumers:
            await each.silence()

    play(scenario)


def test_a_full_window_does_not_hold_up_the_others() -> None:
    """T-031."""

    async def scenario(harness: Harness) -> None:
        greedy, modest = await harness.peer(), await harness.peer()
        await modest.say(consume(b"q", 2))
        await modest.silence()
        await greedy.say(consume(b"q", 100))
        await filled(harness, b"q", 20)
        assert len(await modest.contents(2)) == 2
        assert len(await greedy.contents(18)) == 18

    play(scenario)


@pytest.mark.parametrize("orderly", [True, False], ids=["closes", "vanishes"])
def test_messages_of_a_closed_connection_return_in_order(orderly: bool) -> None:
    """T-013, T-014, T-033, T-034: with the same ids, before later messages."""

    async def scenario(harness: Harness) -> None:
        first = await filled(harness, b"q", 10)
        await first.say(consume(b"q", 5))
        held = await first.hear_many(5)
        second = await harness.peer()
        await second.say(consume(b"q", 2))
        early = await second.hear_many(2)
        assert [each.content for each in early] == numbers(5, 6)
        await first.say(ack(b"q", held[1].id))
        await first.hear()  # 7 is in the freed place
        if orderly:
            await first.close()
        else:
            first.vanish()
        await harness.until(lambda: harness.in_flight("q") == 2)
        await second.say(consume(b"q", 20))
        again = await second.hear_many(7)
        assert [each.content for each in again] == numbers(0, 2, 3, 4, 7, 8, 9)
        assert [each.id for each in again[:4]] == [held[0].id, held[2].id, held[3].id, held[4].id]

    play(scenario)


def test_outstanding_messages_go_to_no_other_consumer() -> None:
    """T-033: they stay with their connection as long as it is open."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 2)
        await peer.say(consume(b"q", 2))
        await peer.hear_many(2)
        assert await harness.queue.pull(harness.names("q")[1], 10) == []
        backlog = lookups.backlog(harness.queue.engine, harness.names("q")[1])
        assert (backlog.messages, backlog.in_flight_messages) == (2, 2)

    play(scenario)


def test_a_returned_message_comes_again_before_later_ones() -> None:
    """T-014, T-026, T-039."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 4)
        await peer.say(consume(b"q", 2))
        first, second = await peer.hear_many(2)
        await peer.say(give_back(b"q", first.id))
        again = await peer.hear()
        assert (again.content, again.id) == (b"0", first.id)
        await peer.say(ack(b"q", again.id), ack(b"q", second.id))
        assert await peer.contents(2) == numbers(2, 3)

    play(scenario)


def test_a_delayed_return_lets_the_others_go_first() -> None:
    """T-039."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 3)
        await peer.say(consume(b"q", 1))
        first = await peer.hear()
        await peer.say(give_back(b"q", first.id, b"50"))
        second = await peer.hear()
        await peer.say(ack(b"q", second.id))
        third = await peer.hear()
        assert [second.content, third.content] == numbers(1, 2)
        await peer.say(ack(b"q", third.id))
        assert (await peer.hear()).content == b"0"

    play(scenario)


def test_an_acknowledgement_of_an_unknown_message_changes_nothing() -> None:
    """T-038: an error in version 02, ignored in version 01."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 2)
        await peer.say(consume(b"q", 1))
        heard = await peer.hear()
        stranger = b"0" * 32
        await peer.say(ack(b"q", stranger), ack(b"nobody", stranger), give_back(b"q", stranger))
        errors: list[Heard] = await peer.hear_many(3)
        assert [each.code for each in errors] == ["not-held"] * 3
        assert [each.packages[8] for each in errors] == [b"004", b"004", b"006"]
        assert [each.packages[3] for each in errors] == [stranger] * 3
        await peer.say(ack(b"q", stranger, 1), ack(b"q", heard.id, 1))
        assert (await peer.hear()).content == b"1"
        await peer.say(ack(b"q", heard.id))
        assert (await peer.hear()).code == "not-held"

    play(scenario)


def test_some_of_many_acknowledgements_may_be_invalid() -> None:
    """T-038."""

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 4)
        await peer.say(consume(b"q", 3))
        held = await peer.hear_many(3)
        await peer.say(ack(b"q", held[0].id), ack(b"q", b"f" * 32), ack(b"q", held[2].id))
        heard = await peer.hear_many(2)
        assert sorted(each.type for each in heard) == [3, 7]
        await peer.say(ack(b"q", held[1].id), ack(b"q", held[1].id))
        assert (await peer.hear()).code == "not-held"
        assert lookups.backlog(harness.queue.engine, harness.names("q")[1]).messages == 1

    play(scenario)


def test_a_freed_place_is_taken_at_once_and_the_acknowledgement_kept_soon() -> None:
    """T-037, T-040: consuming does not wait for the disk. Closing the sending direction does."""
    journal = ToldJournal()

    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 3)
        await peer.say(consume(b"q", 1))
        first = await peer.hear()
        await harness.queue.commit()
        journal.gate.clear()
        await peer.say(ack(b"q", first.id))
        assert (await peer.hear()).content == b"1"
        facts = [type(fact).__name__ for commit in journal.commits for fact in commit.facts]
        assert "Acked" not in facts
        peer.writer.write_eof()
        ending = asyncio.ensure_future(peer.end())
        assert not (await asyncio.wait([ending], timeout=0.1))[0]
        journal.gate.set()
        assert await ending == b""
        facts = [type(fact).__name__ for commit in journal.commits for fact in commit.facts]
        assert "Acked" in facts

    play(scenario, journal=journal)


def test_consumers_of_other_doors_share_the_queue() -> None:
    """T-012: the queue is a topic and a subscription like any other."""

    async def scenario(harness: Harness) -> None:
        await filled(harness, b"q", 3)
        _, subscription = harness.names("q")
        (delivery,) = await harness.queue.pull(subscription, 1)
        peer = await harness.peer()
        await peer.say(consume(b"q", 5))
        assert await peer.contents(2) == numbers(1, 2)
        await harness.queue.nack([delivery.receipt])
        assert await peer.contents(1) == numbers(0)

    play(scenario)


def test_a_consumer_of_a_deep_backlog_gets_all_of_it() -> None:
    async def scenario(harness: Harness) -> None:
        peer = await filled(harness, b"q", 3000)
        await peer.say(consume(b"q", 50))
        for expected in range(3000):
            heard = await peer.hear()
            assert heard.content == b"%d" % expected
            await peer.say(ack(b"q", heard.id))
        await peer.silence()

    play(scenario)


def test_windows_come_and_go() -> None:
    """T-034: a feed whose last consumer left serves the next one."""

    async def scenario(harness: Harness) -> None:
        for _ in range(5):
            peer = await harness.peer()
            await peer.say(consume(b"q", 1))
            await peer.silence()
            await peer.close()
        peer = await harness.peer()
        await asyncio.gather(peer.say(consume(b"q", 1)), filled(harness, b"q", 1))
        assert await peer.contents(1) == [b"0"]

    play(scenario)

"""Sends: accepted and refused messages, confirmations and their order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from penstock.broker.limits import Limits as BrokerLimits
from penstock.doors.text.options import TextOptions
from penstock.engine import lookups
from tests.doors.text.harness import Harness, ack, consume, frame, play, send
from tests.unit.engine.journals import ToldJournal


@pytest.mark.parametrize("line", [False, True], ids=["compact", "lines"])
def test_a_send_is_confirmed_and_can_be_consumed(line: bool) -> None:
    """T-004, T-005, T-006, T-012, T-013, T-020, T-022, T-032: in both framings. The send creates the queue."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer(line)
        await peer.say(send(b"Foo", b"Hello\nWorld", line=line), consume(b"Foo", 5, line=line))
        confirmed, dispatched = await peer.hear_many(2)
        assert (confirmed.version, confirmed.type, confirmed.order) == (2, 5, [1, 3])
        assert confirmed.packages[1] == b"Foo"
        assert len(confirmed.id) == 32
        assert not confirmed.id.strip(b"0123456789abcdef")
        assert (dispatched.version, dispatched.type, dispatched.order) == (2, 3, [1, 2, 3])
        assert dispatched.packages == {1: b"Foo", 2: b"Hello\nWorld", 3: confirmed.id}
        await peer.say(ack(b"Foo", dispatched.id, line=line))
        await peer.silence()

    play(scenario)


def test_version_01_is_accepted_without_an_answer() -> None:
    """T-010, T-021: a dispatch has the version of its consume request."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(send(b"q", b"1", 1), send(b"q", b"2", 2), consume(b"q", 5, 1))
        heard = await peer.hear_many(3)
        assert [(each.version, each.type) for each in heard] == [(2, 5), (1, 3), (1, 3)]
        assert [each.content for each in heard[1:]] == [b"1", b"2"]

    play(scenario)


def test_every_byte_and_every_length_comes_back() -> None:
    """T-003, T-020."""
    contents = [b"", bytes(range(256)), b"H0200102P01\n", b"x" * 300_000]

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(*(send("é☃ %d".encode(), content) for content in contents))
        await peer.hear_many(len(contents))
        await peer.say(consume("é☃ %d".encode(), 10))
        assert await peer.contents(len(contents)) == contents

    play(scenario)


def test_answers_come_in_the_order_of_the_sends() -> None:
    """T-013, T-023: over queues, versions and errors."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(
            send(b"a", b"1"), send(b"b", b"1"), send(b"a", b"2", 1), frame(2, 1, (1, b"a"), (9, b"")), send(b"a", b"3")
        )
        heard = await peer.hear_many(4)
        assert [each.type for each in heard] == [5, 5, 7, 5]
        assert [each.packages[1] for each in heard if each.type == 5] == [b"a", b"b", b"a"]
        assert heard[2].packages[8] == b"001"
        await peer.say(consume(b"a", 10), consume(b"b", 10))
        dispatched = await peer.hear_many(4)
        ids = {(each.packages[1], each.content): each.id for each in dispatched}
        assert [ids[b"a", b"1"], ids[b"b", b"1"], ids[b"a", b"3"]] == [heard[0].id, heard[1].id, heard[3].id]
        assert len(set(ids.values())) == 4

    play(scenario)


def test_nothing_is_confirmed_or_dispatched_before_it_is_durable() -> None:
    """T-022, T-024: during a commit, neither the sender nor a consumer gets anything."""
    journal = ToldJournal()

    async def scenario(harness: Harness) -> None:
        sender, consumer = await harness.peer(), await harness.peer()
        await consumer.say(consume(b"q", 5))
        await consumer.silence()
        journal.gate.clear()
        await sender.say(send(b"q", b"1"))
        await harness.until(lambda: lookups.topic(harness.queue.engine, harness.names("q")[0]).tail == 1)
        waiting = [asyncio.ensure_future(peer.reader.read(1)) for peer in (sender, consumer)]
        done, _ = await asyncio.wait(waiting, timeout=0.2)
        assert not done
        journal.gate.set()
        assert await asyncio.gather(*waiting) == [b"H", b"H"]

    play(scenario, journal=journal)


def test_a_refused_send_is_answered_and_the_next_is_accepted() -> None:
    """T-022, T-023, T-051: one answer for each."""
    broker = BrokerLimits(queue_messages_max=2, queue_bytes_max=0, refuse_when_full=True)

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(send(b"q", b"1"), send(b"q", b"2"))
        assert [each.type for each in await peer.hear_many(2)] == [5, 5]
        await peer.say(send(b"q", b"3"), send(b"q", b"4"), send(b"r", b"1"))
        heard = await peer.hear_many(3)
        assert [each.code for each in heard[:2]] == ["full", "full"]
        assert [heard[0].packages[8], heard[0].packages[1]] == [b"001", b"q"]
        assert heard[2].type == 5

    play(scenario, broker=broker)


def test_a_refused_send_of_version_01_closes_the_connection() -> None:
    """T-053, T-055: earlier messages are kept."""
    broker = BrokerLimits(queue_messages_max=1, queue_bytes_max=0, refuse_when_full=True)

    async def scenario(harness: Harness) -> None:
        peer, other = await harness.peer(), await harness.peer()
        await peer.say(send(b"q", b"1", 1))
        await other.silence()
        await peer.say(send(b"q", b"2", 1), send(b"r", b"never", 1))
        assert await peer.end() == b""
        await other.say(consume(b"q", 5), consume(b"r", 5))
        assert await other.contents(1) == [b"1"]
        await other.silence()

    play(scenario, broker=broker)


def test_a_name_of_another_resource_is_a_conflict() -> None:
    """T-051."""

    async def scenario(harness: Harness) -> None:
        await harness.queue.create_topic("other")
        await harness.queue.create_subscription(harness.names("q")[1], "other")
        peer = await harness.peer()
        await peer.say(send(b"q", b"1"), consume(b"q", 1))
        first, second = await peer.hear_many(2)
        assert (first.code, first.packages[8]) == ("conflict", b"001")
        assert (second.code, second.packages[8]) == ("conflict", b"002")

    play(scenario)


def test_a_queue_deleted_through_another_door_is_made_again() -> None:
    """T-012."""

    async def scenario(harness: Harness) -> None:
        sender, consumer = await harness.peer(), await harness.peer()
        await consumer.say(consume(b"q", 5))
        await sender.say(send(b"q", b"1"))
        assert (await sender.hear()).type == 5
        assert await consumer.contents(1) == [b"1"]
        topic, subscription = harness.names("q")
        await harness.queue.delete_topic(topic)
        await harness.queue.delete_subscription(subscription)
        assert (await consumer.hear()).code == "gone"
        await sender.say(send(b"q", b"2"))
        assert (await sender.hear()).type == 5
        await consumer.say(consume(b"q", 5))
        assert await consumer.contents(1) == [b"2"]


def test_a_window_does_not_bring_a_deleted_queue_back() -> None:
    """T-045: an open window is not a request. The window closes, and the queue stays deleted."""

    async def scenario(harness: Harness) -> None:
        new, old = await harness.peer(), await harness.peer()
        topic, subscription = harness.names("q")
        await new.say(consume(b"q", 5))
        await old.say(consume(b"q", 5, version=1))
        await harness.until(lambda: len(harness.door.queues.consumers(subscription)) == 2)
        await new.say(send(b"other", b"1"))
        assert (await new.hear()).type == 5
        await harness.queue.remove_queue(topic, subscription)
        heard = await new.hear()
        assert (heard.code, heard.packages[8], heard.packages[1]) == ("gone", b"002", b"q")
        assert await old.end() == b"", "version 01 has no error message (T-053)"
        await new.silence()
        assert await harness.queue.find_topic(topic) is None
        await new.say(consume(b"q", 5), send(b"q", b"2"))
        heard_again = {each.type: each for each in await new.hear_many(2)}
        assert heard_again[3].content == b"2"
        assert heard_again[5].id == heard_again[3].id

    play(scenario)

    play(scenario)


def test_a_sender_that_closes_its_side_gets_every_answer() -> None:
    """T-040."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(*(send(b"q", b"%d" % number) for number in range(500)))
        peer.writer.write_eof()
        heard = await peer.hear_many(500)
        assert {each.type for each in heard} == {5}
        assert await peer.end() == b""

    play(scenario)


def test_many_unanswered_sends_pause_the_reading_and_all_are_answered() -> None:
    """T-065: the server holds no more than its limit, and answers all of them."""
    limits = TextOptions(pending_bytes_max=1000, pending_messages_max=10)

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        asking = peer.say(*(send(b"q", b"x" * 100) for _ in range(3000)))
        heard, _ = await asyncio.gather(peer.hear_many(3000), asking)
        assert len({each.id for each in heard}) == 3000

    play(scenario, options=limits)


def test_sends_of_one_read_are_one_publish_for_each_queue(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-014, T-023: every queue has its messages in order, and the answers come in order, however the sends are
    mixed.
    """

    async def scenario(harness: Harness) -> None:
        publishes: list[str] = []
        publish = harness.queue.send

        def counted(topic: str, *more: Any, **options: Any) -> Any:
            publishes.append(topic)
            return publish(topic, *more, **options)

        monkeypatch.setattr(harness.queue, "send", counted)
        peer = await harness.peer()
        names = [b"a", b"b", b"c"]
        await peer.say(*(send(names[number % 3], b"%d" % number) for number in range(30)))
        heard = await peer.hear_many(30)
        assert [each.packages[1] for each in heard] == [names[number % 3] for number in range(30)]
        assert sorted(publishes) == [harness.names(name.decode())[0] for name in names]
        await peer.say(consume(b"b", 100))
        dispatched = await peer.hear_many(10)
        assert [each.content for each in dispatched] == [b"%d" % number for number in range(1, 30, 3)]
        assert [each.id for each in dispatched] == [each.id for each in heard[1::3]]

    play(scenario)

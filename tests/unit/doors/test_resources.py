"""Queues of the doors: created once without losing a message, with the same names in every door."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest

from penstock.assembly import DOORS, Opening
from penstock.broker.model import Draft, TopicOptions
from penstock.doors.google import dead_letters
from penstock.doors.port import Condition
from penstock.doors.resources import QUEUE_OPTIONS, Names, parts_of, subscription_name, topic_name
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.errors import FailedPreconditionError, InvalidArgumentError
from penstock.journal.memory import MemoryJournal
from penstock.services.moves.registry import Moves
from penstock.settings import load_settings
from penstock.wire.budget import Budget

TOPIC, SUBSCRIPTION = "projects/p/topics/q", "projects/p/subscriptions/q"


@asynccontextmanager
async def running() -> AsyncIterator[AsyncMessageQueue]:
    queue = AsyncMessageQueue(MemoryJournal())
    await queue.start()
    try:
        yield queue
    finally:
        await queue.close()


def provide(queue: AsyncMessageQueue) -> asyncio.Future[bool]:
    return queue.provide_queue(TOPIC, SUBSCRIPTION, QUEUE_OPTIONS)


def test_names_are_those_of_the_cloud_service() -> None:
    assert topic_name("p", "q") == TOPIC
    assert subscription_name("p", "q") == SUBSCRIPTION


def test_a_queue_named_by_many_at_once_is_made_once() -> None:
    async def scenario() -> None:
        async with running() as queue:
            made = await asyncio.gather(*(provide(queue) for _ in range(20)))
            assert made == [True] + [False] * 19
            assert [one.name for one in await queue.topics()] == [TOPIC]
            (subscription,) = await queue.subscriptions()
            options = subscription.options
            assert (subscription.name, subscription.topic) == (SUBSCRIPTION, TOPIC)
            assert options.retention_seconds == 0

    asyncio.run(scenario())


def test_a_topic_that_was_there_gets_its_subscription() -> None:
    async def scenario() -> None:
        async with running() as queue:
            await queue.create_topic(TOPIC)
            await provide(queue)
            await queue.publish(TOPIC, [Draft(b"x")])
            assert [each.message.data for each in await queue.pull(SUBSCRIPTION, 5)] == [b"x"]

    asyncio.run(scenario())


def test_a_queue_begins_with_the_messages_of_its_topic() -> None:
    async def scenario() -> None:
        async with running() as queue:
            await queue.create_topic(TOPIC)
            await queue.publish(TOPIC, [Draft(b"gone: nothing keeps it")])
            await queue.create_subscription("first", TOPIC)
            await queue.publish(TOPIC, [Draft(b"1"), Draft(b"2")])
            assert await provide(queue)
            await queue.create_subscription("late", TOPIC)
            await queue.publish(TOPIC, [Draft(b"3")])
            assert await queue.backlog(SUBSCRIPTION) == (3, 3, 0, 0)
            assert [each.message.data for each in await queue.pull(SUBSCRIPTION, 5)] == [b"1", b"2", b"3"]
            assert [each.message.data for each in await queue.pull("late", 5)] == [b"3"]
            assert not await provide(queue)

    asyncio.run(scenario())


def test_a_send_to_a_new_queue_of_an_old_topic_is_one_step() -> None:
    async def scenario() -> None:
        async with running() as queue:
            await queue.create_topic(TOPIC, TopicOptions(retention_seconds=60))
            await queue.publish(TOPIC, [Draft(b"kept")])
            await queue.send(TOPIC, SUBSCRIPTION, QUEUE_OPTIONS, [Draft(b"sent")])
            assert [each.message.data for each in await queue.pull(SUBSCRIPTION, 5)] == [b"kept", b"sent"]

    asyncio.run(scenario())


def test_a_queue_whose_topic_was_deleted_starts_again() -> None:
    async def scenario() -> None:
        async with running() as queue:
            await provide(queue)
            await queue.delete_topic(TOPIC)
            assert await queue.find_queue(TOPIC, SUBSCRIPTION) is None
            await queue.send(TOPIC, SUBSCRIPTION, QUEUE_OPTIONS, [Draft(b"x")])
            assert [each.message.data for each in await queue.pull(SUBSCRIPTION, 5)] == [b"x"]

    asyncio.run(scenario())


def test_a_subscription_of_that_name_on_another_topic_is_left_alone() -> None:
    async def scenario() -> None:
        async with running() as queue:
            await queue.create_topic("other")
            await queue.create_subscription(SUBSCRIPTION, "other")
            with pytest.raises(FailedPreconditionError, match="reads another topic: other"):
                await provide(queue)
            assert await queue.find_topic(TOPIC) is None

    asyncio.run(scenario())


def test_a_name_the_broker_refuses_is_refused() -> None:
    async def scenario() -> None:
        async with running() as queue:
            with pytest.raises(InvalidArgumentError):
                await queue.provide_queue(topic_name("p", "q" * 2000), SUBSCRIPTION, QUEUE_OPTIONS)

    asyncio.run(scenario())


# ---------------------------------------------------------------------- names in every door


@pytest.mark.parametrize(
    ("topic", "expected"),
    [
        (
            "projects/demo/topics/orders",
            {"azure": "http://127.0.0.1:10001/devstoreaccount1/orders", "text": "orders", "python": "orders"},
        ),
        ("projects/team/topics/orders", {"azure": "http://127.0.0.1:10001/one/orders", "text": None}),
        ("projects/other/topics/orders", {"azure": None, "text": None, "python": "projects/other/topics/orders"}),
        ("projects/demo/topics/UPPER", {"azure": None, "text": "UPPER", "pubsub": "projects/demo/topics/UPPER"}),
        ("projects/demo/topics/a", {"azure": None, "text": "a", "spark": "projects/demo/topics/a"}),
        ("projects/demo/topics/a", {"pubsub": "projects/demo/topics/a"}),  # cannot be created there, but used
        ("projects/demo/topics/goog", {"pubsub": "projects/demo/topics/goog", "text": "goog"}),
        ("projects/demo/topics/" + "q" * 300, {"azure": None, "text": None}),
        ("orders", {"pubsub": None, "azure": None, "text": None, "python": "orders", "spark": None}),
        ("projects/demo/subscriptions/orders", {"pubsub": None, "azure": None, "text": None, "spark": None}),
    ],
)
def test_how_each_client_calls_a_topic(topic: str, expected: dict[str, str | None]) -> None:
    accounts = "devstoreaccount1:a2V5;one:a2V5"
    names = opened(default_project="demo", azure_accounts=accounts, azure_projects="one=team")
    found = names.of(topic, is_queue=True)
    assert set(found) == {"pubsub", "azure", "text", "python", "spark"}
    assert found.items() >= expected.items()
    assert names.of(topic, is_queue=False) == found | {"azure": None}, "this door has only queues"


def test_a_closed_door_has_no_names() -> None:
    names = opened(azure_port="off", flight_port="off").of("projects/penstock/topics/orders", is_queue=True)
    here = "projects/penstock/topics/orders"
    assert names == {"pubsub": here, "azure": None, "text": "orders", "spark": None, "python": "orders"}


def opened(**flags: str) -> Names:
    """Return the names in the doors of a server that listens at the ports of its settings."""
    settings = load_settings(flags=flags, environment={})
    queue = AsyncMessageQueue(MemoryJournal())
    opening = Opening(settings, queue, Condition(), Budget(), Moves(queue, dead_letters))
    doors = [door for name, make in DOORS.items() if settings.port_of(name) and (door := make(opening)) is not None]
    for door in doors:
        door.address = f"127.0.0.1:{settings.port_of(door.name)}"
    return Names(doors, settings.default_project)


def test_the_parts_of_a_name() -> None:
    assert parts_of("projects/p/topics/t") == ("p", "t")
    assert parts_of("t") == ("", "t")

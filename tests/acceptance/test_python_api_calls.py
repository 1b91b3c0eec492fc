"""The forms of calls in the specification: call options, chained listeners, pull, and the limits of a queue."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest

from penstock import InvalidArgumentError, Message, NotFoundError, PubSub
from tests.acceptance.python_api import Harness, ack, bodies, story


@story("memory")
async def test_on_returns_the_subscription(harness: Harness) -> None:
    """001 Events: `on(event, listener)` returns `this`, so that calls can be chained."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    received: list[Message] = []
    chained = subscription.on("message", received.append).on("error", harness.errors.append).once("close", print)
    assert chained is subscription
    assert subscription.add_listener("message", ack) is subscription
    assert subscription.off("close", print) is subscription
    assert subscription.listeners("close") == []

    @subscription.on("debug")
    def decorated(text: str) -> None:
        pass

    assert callable(decorated), "the decorator returns the function"
    subscription.open()
    await topic.publish_message(b"one espresso")
    await harness.until(lambda: received)
    assert subscription.remove_all_listeners() is subscription


@story("memory", "sqlite")
async def test_calls_take_options(harness: Harness) -> None:
    """001 Lifecycle Methods, CallOptions: `timeout` in milliseconds, `retry`, `auto_paginate`."""
    call = {"timeout": 60_000, "retry": {"retries": 2}, "auto_paginate": True}
    topic = await harness.topic()
    subscription = topic.subscription("my-sub")
    assert await subscription.exists(call) is False
    with pytest.raises(NotFoundError):
        await subscription.get_metadata(call)
    await subscription.create()
    assert await subscription.exists(timeout=60_000) is True
    assert (await subscription.get_metadata(call)).name == subscription.name
    assert await subscription.get({**call, "auto_create": True}) is subscription
    snapshot = await subscription.create_snapshot("my-snapshot")
    await subscription.seek(snapshot, call)
    await subscription.modify_push_config({"push_endpoint": "https://example.org/"}, call)
    assert await snapshot.exists(call) is True
    await snapshot.delete(call)
    await subscription.delete(call)
    assert await subscription.exists() is False
    assert await topic.exists(call) is True
    await topic.delete(call)


@story("memory")
async def test_a_wrong_option_of_a_call_is_refused(harness: Harness) -> None:
    """001 CallOptions."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    with pytest.raises(InvalidArgumentError, match="Unknown call option: deadline"):
        await subscription.exists(deadline=5)
    with pytest.raises(InvalidArgumentError, match="timeout"):
        await subscription.delete(timeout="soon")
    with pytest.raises(InvalidArgumentError, match="Options must be a dictionary"):
        await topic.get_metadata(5)  # type: ignore[arg-type]
    with pytest.raises(InvalidArgumentError, match="Unknown pull option: most"):
        await subscription.pull(most=5)
    assert await subscription.exists()


@story("memory")
async def test_the_timeout_of_a_call_ends_it(harness: Harness) -> None:
    """001 CallOptions: a deletion waits for the listener that holds a message, but not longer than its timeout."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    taken, go_on = asyncio.Event(), asyncio.Event()

    @subscription.on("message")
    async def hold(message: Message) -> None:
        taken.set()
        await go_on.wait()
        message.ack()

    subscription.open()
    await topic.publish_message(b"one espresso")
    await taken.wait()
    with pytest.raises(TimeoutError):
        await subscription.delete(timeout=20)
    go_on.set()
    await subscription.close()
    assert await subscription.exists()


@story()
async def test_pull_takes_its_options_in_every_form(harness: Harness) -> None:
    """001 Advanced Methods: `pull(options)`."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    for number in range(8):
        await topic.publish_message(b"%d" % number)
    assert bodies(await subscription.pull(max_messages=2)) == ["0", "1"]
    assert bodies(await subscription.pull({"max_messages": 2})) == ["2", "3"]
    assert bodies(await subscription.pull({"max_messages": 2, "timeout": 60_000})) == ["4", "5"]
    assert bodies(await subscription.pull(1)) == ["6"]
    assert bodies(await subscription.pull()) == ["7"]
    with pytest.raises(InvalidArgumentError, match="max_messages must be a whole number, at least 1"):
        await subscription.pull({"max_messages": 0})


def test_a_queue_in_memory_has_the_limits_of_the_specification(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """004 BR-022: at 10,000 messages a subscription accepts no more and logs a warning.

    Others do, and so does it later.
    """

    async def publish(pubsub: PubSub) -> list[int]:
        topic = await pubsub.create_topic("orders")
        full, other = await topic.create_subscription("full"), await topic.create_subscription("other")
        await asyncio.gather(*[topic.publish(b"x") for _ in range(9_999)])
        for message in await other.pull(max_messages=9_999):
            message.ack()
        await asyncio.gather(*[topic.publish(b"x") for _ in range(2)])
        counts = [len(await full.pull(20_000)), len(await other.pull(20_000))]
        await pubsub.close()
        return counts

    assert asyncio.run(publish(PubSub())) == [10_000, 2]
    assert "full" in caplog.text
    assert asyncio.run(publish(PubSub(data=tmp_path))) == [10_001, 2], "a store on disk discards nothing"

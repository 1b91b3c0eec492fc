"""Reading with listeners, `async for` and pull: leases, closing and errors."""

from __future__ import annotations

import asyncio
import gc
import logging

import pytest

from penstock import Draft, FailedPreconditionError, InvalidArgumentError, Message, MessageQueue, NotFoundError, PubSub
from tests.acceptance.python_api import Harness, ack, bodies, story


@story("memory", "sqlite")
async def test_waiting_listeners_do_not_block_others(harness: Harness) -> None:
    """All listeners that flow control allows run at the same time."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", flow_control={"max_messages": 50})
    gate, under_way = asyncio.Event(), []

    async def listener(message: Message) -> None:
        under_way.append(message)
        await gate.wait()
        message.ack()

    received = harness.listen(subscription, listener)
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(80)])
    await harness.until(lambda: len(under_way) == 50)
    await harness.quiet()
    assert len(under_way) == 50
    gate.set()
    await harness.until(lambda: len(received) == 80)


@story("memory")
async def test_a_listener_may_use_timeouts_and_its_own_task(harness: Harness) -> None:
    """A listener runs in a task of its own, so a listener that cancels its task cancels only itself."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    outcomes: list[str] = []

    async def listener(message: Message) -> None:
        if message.data == b"timeout":
            try:
                async with asyncio.timeout(0.001):
                    await asyncio.Event().wait()
            except TimeoutError:
                outcomes.append("timeout")
        elif message.data == b"cancel" and message.delivery_attempt == 1:
            task = asyncio.current_task()
            assert task is not None
            task.cancel()
            await asyncio.sleep(0)
        else:
            outcomes.append(message.data.decode())
        message.ack()

    harness.listen(subscription, listener)
    for text in (b"timeout", b"cancel", b"plain"):
        await topic.publish_message(text)
    await harness.until(lambda: len(outcomes) == 3)
    assert sorted(outcomes) == ["cancel", "plain", "timeout"]


@story("memory")
async def test_every_listener_gets_every_message(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    heard: list[str] = []
    subscription.on("message", lambda message: heard.append("first"))

    @subscription.on("message")
    async def second(message: Message) -> None:
        heard.append("second")
        message.ack()

    subscription.open()
    await topic.publish_message(b"a")
    await harness.until(lambda: len(heard) == 2)
    subscription.remove_listener("message", second)
    assert len(subscription.listeners("message")) == 1


@story("memory", "sqlite")
async def test_without_listeners_nothing_is_pulled(harness: Harness) -> None:
    """Without a listener, and after `once` has had its message, the other messages stay in the queue."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    subscription.open()
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(5)])
    await harness.quiet()
    received: list[Message] = []

    def listener(message: Message) -> None:
        received.append(message)
        message.ack()

    subscription.once("message", listener)
    await harness.until(lambda: received)
    await harness.quiet()
    assert len(received) == 1
    subscription.on("message", listener)
    await harness.until(lambda: len(received) == 5)
    assert {message.data for message in received} == {b"0", b"1", b"2", b"3", b"4"}


@story("memory", "shared memory")
async def test_an_answer_causes_no_pull(harness: Harness) -> None:
    """A stream with free capacity pulls when a new message arrives, and not after every ack."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    done = asyncio.Event()
    received = harness.listen(subscription, lambda message: done.wait())
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(10)])
    await harness.until(lambda: len(received) == 10)
    await harness.quiet()
    queue, pulls = harness.pubsub.session.queue, []
    pull = queue.pull

    async def counted(*arguments: object, **options: object) -> object:
        pulls.append(arguments)
        return await pull(*arguments, **options)  # type: ignore[arg-type]

    queue.pull = counted  # type: ignore[method-assign, assignment]
    for message in received[:10]:
        message.ack()
        await harness.quiet()
    done.set()
    await harness.quiet()
    assert pulls == []


@story("memory", "sqlite")
async def test_a_closing_reader_passes_its_wake_up_on(harness: Harness) -> None:
    topic = await harness.topic()
    first = await topic.create_subscription("my-sub")
    second = harness.pubsub.subscription("my-sub")
    received = [harness.listen(each, ack) for each in (first, second)]
    await harness.quiet()
    publishing = harness.pubsub.session.queue.publish(topic.name, [Draft(b"a")])  # wakes the first reader
    first.begin_closing()
    await publishing
    await harness.until(lambda: received[1])
    assert received[0] == []


@story("memory")
async def test_an_error_without_a_listener_is_logged(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    seen: list[Message] = []
    logged: list[logging.LogRecord] = []
    handler = logging.Handler()
    handler.emit = logged.append  # type: ignore[method-assign]
    logging.getLogger("penstock.pubsub").addHandler(handler)

    def listener(message: Message) -> None:
        seen.append(message)
        if message.delivery_attempt == 1:
            raise ValueError("nobody hears me")
        message.ack()

    subscription.on("message", listener)
    subscription.open()
    await topic.publish_message(b"a")
    await harness.until(lambda: len(seen) == 2)
    logging.getLogger("penstock.pubsub").removeHandler(handler)
    assert [str(each.exc_info[1]) for each in logged if each.exc_info] == ["nobody hears me"]


@story("memory")
async def test_listeners_of_other_events_may_be_coroutines_and_may_fail(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    heard: list[object] = []

    async def on_error(error: Exception) -> None:
        heard.append(error)
        raise RuntimeError("an error listener that fails")

    def on_close() -> None:
        raise RuntimeError("a close listener that fails")

    async def on_later_close() -> None:
        heard.append("close")

    subscription.on("error", on_error)
    subscription.on("close", on_close)
    subscription.on("close", on_later_close)
    subscription.open()
    await topic.delete()
    await harness.until(lambda: heard)
    await subscription.close()
    await harness.until(lambda: "close" in heard)


# ---------------------------------------------------------------------- async for


@story()
async def test_messages_can_be_read_in_a_loop(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(20)])
    received = []
    async for message in subscription:
        received.append(int(message.data))
        message.ack()
        if len(received) == 20:
            break
    gc.collect()
    await harness.until(lambda: not subscription.is_open)
    assert sorted(received) == list(range(20))
    await harness.advance(30)
    assert await subscription.pull(10) == []


@story()
async def test_messages_that_a_loop_did_not_see_are_returned(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(20)])
    taken = 0
    async for message in subscription:
        message.ack()
        taken += 1
        if taken == 6:
            break
    gc.collect()
    await harness.until(lambda: not subscription.is_open)
    await harness.pubsub.session.drain()
    assert len(await subscription.pull(100)) == 14


@story()
async def test_closing_ends_the_loop(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    received = []

    async def read() -> None:
        async for message in subscription:
            received.append(message)
            message.ack()

    reading = asyncio.create_task(read())
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    await subscription.close()
    await reading
    assert not subscription.is_open


@story("memory")
async def test_the_loop_itself_may_close(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    await topic.publish_message(b"a")
    async for message in subscription:
        await subscription.close()
        message.ack()
    await harness.pubsub.session.drain()
    await harness.advance(30)
    assert await subscription.pull(1) == []


@story("memory", "sqlite")
async def test_an_error_ends_the_loop(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    reading = asyncio.ensure_future(anext(aiter(subscription)))
    await harness.quiet()
    await topic.delete()
    with pytest.raises(FailedPreconditionError, match="detached"):
        await reading
    with pytest.raises(NotFoundError):
        async for _ in harness.pubsub.subscription("nothing"):
            pass


@story("memory")
async def test_a_slow_loop_pulls_few_messages_ahead(harness: Harness) -> None:
    """Other consumers get the messages that the loop could not handle within the lease."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(40)])
    reader = aiter(subscription)
    for _ in range(6):
        (await anext(reader)).ack()
        harness.clock.advance(5)
    await harness.quiet()
    assert len(await harness.pubsub.subscription("my-sub").pull(100)) >= 32


# ---------------------------------------------------------------------- pull


@story()
async def test_pull_returns_ready_messages(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    assert await subscription.pull() == []
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(5)])
    messages = await subscription.pull(3)
    assert bodies(messages) == ["0", "1", "2"]
    messages[0].ack()
    messages[1].nack()
    await harness.pubsub.session.drain()
    assert bodies(await subscription.pull(10)) == ["1", "3", "4"]
    for wrong in (0, -1, "3", True):
        with pytest.raises(InvalidArgumentError, match="max_messages must be a whole number, at least 1"):
            await subscription.pull(wrong)  # type: ignore[arg-type]


@story()
async def test_pull_can_wait(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    pulling = asyncio.create_task(subscription.pull(10, wait_seconds=20))
    await harness.quiet()
    await topic.publish_message(b"a")
    assert bodies(await pulling) == ["a"]
    pulling = asyncio.create_task(subscription.pull(10, wait_seconds=5))
    await harness.advance(4)
    assert not pulling.done()
    await harness.advance(2)
    assert await pulling == []


# ---------------------------------------------------------------------- leases


@story()
async def test_leases_are_extended_as_far_as_allowed(harness: Harness) -> None:
    """The deadline is extended while the listener runs, up to the maximum. Then the message is redelivered."""
    topic = await harness.topic()
    options = {"ack_deadline_seconds": 5, "flow_control": {"max_extension": 20}}
    subscription = await topic.create_subscription("my-sub", options)
    done = asyncio.Event()
    received = harness.listen(subscription, lambda message: done.wait())
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    await harness.advance(19)
    assert len(received) == 1
    await harness.advance(2)
    await harness.until(lambda: len(received) == 2)
    received[1].ack()
    done.set()
    await harness.advance(20)
    assert len(received) == 2
    assert harness.errors == []


@story("memory", "sqlite")
async def test_an_extended_lease_is_no_longer_than_the_maximum(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=4, max_extension_time=5)
    received = harness.listen(subscription, lambda message: asyncio.Event().wait())
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    await harness.advance(4.5)
    assert len(received) == 1
    await harness.advance(1)
    await harness.until(lambda: len(received) == 2)


@story("memory")
async def test_the_deadline_of_a_handle_has_bounds(harness: Harness) -> None:
    topic = await harness.topic()
    await topic.create_subscription("my-sub", ack_deadline_seconds=1)
    subscription = harness.pubsub.subscription("my-sub", min_ack_deadline=5)
    received = harness.listen(subscription)
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    await harness.advance(4)
    assert len(received) == 1
    subscription.set_options(min_ack_deadline=1, ack_deadline_seconds=60, max_ack_deadline=3)
    await harness.advance(2)
    await harness.until(lambda: len(received) == 2)
    await harness.advance(3.5)
    await harness.until(lambda: len(received) == 3)


# ---------------------------------------------------------------------- the end


@story()
async def test_closing_with_nack_returns_messages_at_once(harness: Harness) -> None:
    """With NACK, unanswered messages are returned, and waiting listeners are cancelled."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", close_options={"behavior": "NACK"})
    cancelled: list[Message] = []

    async def listener(message: Message) -> None:
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(message)
            raise

    received = harness.listen(subscription, listener)
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(3)])
    await harness.until(lambda: len(received) == 3)
    await subscription.close()
    assert len(cancelled) == 3
    again = await subscription.pull(10)
    assert [message.delivery_attempt for message in again] == [2, 2, 2]


@story()
async def test_closing_waits_no_longer_than_its_timeout(harness: Harness) -> None:
    topic = await harness.topic()
    options = {"ack_deadline_seconds": 60, "close_options": {"behavior": "WAIT", "timeout": {"seconds": 3}}}
    subscription = await topic.create_subscription("my-sub", options)
    received = harness.listen(subscription)
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    closing = asyncio.create_task(subscription.close())
    await harness.advance(2)
    assert not closing.done()
    await harness.advance(2)
    await closing
    assert [message.delivery_attempt for message in await subscription.pull(10)] == [2]


@story()
async def test_closing_waits_no_longer_than_the_leases(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", ack_deadline_seconds=2)
    received = harness.listen(subscription)
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    closing = asyncio.create_task(subscription.close())
    await harness.advance(2.5)
    await closing
    assert len(await subscription.pull(10)) == 1


@story("memory", "sqlite")
async def test_a_listener_may_close_its_subscription(harness: Harness) -> None:
    """Closing does not wait for this listener, and the listener's later answer counts."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    done: list[str] = []

    async def listener(message: Message) -> None:
        await subscription.close()
        message.ack()
        done.append("listener")

    harness.listen(subscription, listener)
    await topic.publish_message(b"a")
    await harness.until(lambda: done)
    await subscription.close()
    await harness.pubsub.session.drain()
    await harness.advance(30)
    assert await subscription.pull(1) == []
    assert not subscription.is_open


@story("memory")
async def test_a_listener_may_close_everything(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    done: list[str] = []

    async def listener(message: Message) -> None:
        message.ack()
        await harness.pubsub.close()
        done.append("closed")

    harness.listen(subscription, listener)
    await topic.publish_message(b"a")
    await harness.until(lambda: done)


@story("memory", "sqlite", "shared sqlite")
async def test_all_listeners_may_close_everything_at_once(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    done: list[str] = []
    both = asyncio.Event()

    async def listener(message: Message) -> None:
        message.ack()
        if message.data == b"1":
            both.set()
        await both.wait()
        await harness.pubsub.close()
        done.append("closed")

    harness.listen(subscription, listener)
    await asyncio.gather(topic.publish_message(b"0"), topic.publish_message(b"1"))
    await both.wait()
    await harness.pubsub.close()
    await harness.until(lambda: len(done) == 2)


@story("memory")
async def test_a_closing_subscription_cannot_be_opened(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    received = harness.listen(subscription)
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    closing = asyncio.create_task(subscription.close())
    await harness.quiet()
    with pytest.raises(FailedPreconditionError, match="being closed"):
        subscription.open()
    received[0].ack()
    await closing
    subscription.open()


@story("memory", "sqlite")
async def test_closing_twice_is_harmless(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    closed: list[str] = []
    subscription.on("close", lambda: closed.append("close"))
    await subscription.close()
    harness.listen(subscription)
    subscription.open()
    await asyncio.gather(subscription.close(), subscription.close())
    await subscription.close()
    assert closed == ["close"]
    await harness.pubsub.close()
    await harness.pubsub.close()


@story()
async def test_acks_are_stored_when_close_returns(harness: Harness) -> None:
    """This includes acks that were still collected in a batch."""
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub", batching={"max_messages": 5, "max_milliseconds": 60_000})
    received = harness.listen(subscription, ack)
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(12)])
    await harness.until(lambda: len(received) == 12)
    await subscription.close()
    await harness.advance(30)
    assert await subscription.pull(100) == []


# ---------------------------------------------------------------------- queues and loops


@story("shared memory", "shared sqlite")
async def test_several_clients_share_one_queue(harness: Harness) -> None:
    """One client receives what another publishes, and so does a thread that uses the queue directly."""
    assert harness._shared is not None
    topic = await harness.topic()
    other = PubSub(queue=harness._shared)
    subscription = await other.topic("my-topic").create_subscription("my-sub")
    received = harness.listen(subscription, ack)
    await topic.publish_message(b"from the first")
    await asyncio.to_thread(harness._shared.publish, topic.name, [b"from a thread"])
    await harness.until(lambda: len(received) == 2)
    await other.close()
    await topic.publish_message(b"the queue is still open")


@story("memory", "sqlite")
async def test_several_clients_share_the_queue_of_a_server(harness: Harness) -> None:
    topic = await harness.topic()
    queue = harness.pubsub.session.queue
    other = PubSub("penstock", queue=queue)  # type: ignore[arg-type]
    subscription = await other.create_subscription(topic.name, "my-sub")
    received = harness.listen(subscription, ack)
    await topic.publish_message(b"a")
    await harness.until(lambda: received)
    await other.close()
    await topic.publish_message(b"still open")


@story("memory")
async def test_projects_are_separate(harness: Harness) -> None:
    other = PubSub("other", queue=harness.pubsub.session.queue)  # type: ignore[arg-type]
    await harness.topic("a")
    await other.create_topic("b")
    assert [topic.name for topic in await harness.pubsub.get_topics()] == ["projects/penstock/topics/a"]
    assert [topic.name for topic in await other.get_topics()] == ["projects/other/topics/b"]
    full = other.topic("projects/penstock/topics/a")
    assert await full.exists()
    subscription = await full.create_subscription("projects/penstock/subscriptions/s")
    assert [each.name for each in await harness.pubsub.get_subscriptions()] == [subscription.name]
    assert [each.name for each in await other.get_subscriptions(full)] == [subscription.name]
    assert await other.get_subscriptions() == []


def test_calls_that_need_an_event_loop_say_so() -> None:
    pubsub = PubSub()
    subscription = pubsub.subscription("my-sub")
    subscription.on("message", ack)
    with pytest.raises(FailedPreconditionError, match=r"Subscription.open\(\) needs a running event loop"):
        subscription.open()
    with pytest.raises(FailedPreconditionError, match=r"publish\(\) needs a running event loop"):
        pubsub.topic("t").publish(b"a")


def test_an_answer_without_a_loop_says_so() -> None:
    async def receive() -> Message:
        topic = await pubsub.create_topic("t")
        subscription = await topic.create_subscription("s")
        await topic.publish_message(b"a")
        (message,) = await subscription.pull(1)
        return message

    pubsub = PubSub()
    message = asyncio.run(receive())
    with pytest.raises(FailedPreconditionError, match="An answer needs a running event loop"):
        message.ack()


@pytest.mark.parametrize("make", [PubSub, lambda: PubSub(queue=MessageQueue())])
def test_one_client_serves_one_loop_after_the_other(make: type[PubSub]) -> None:
    pubsub = make()

    async def publish() -> None:
        topic = await pubsub.topic("t").get(auto_create=True)
        await pubsub.subscription("s").get(auto_create=True)
        await topic.publish_message(b"a")

    async def receive() -> list[Message]:
        messages = await pubsub.subscription("s").pull(10)
        await pubsub.close()
        return messages

    asyncio.run(publish())
    assert len(asyncio.run(receive())) == 1


@story("sqlite", "shared sqlite")
async def test_published_messages_survive_a_restart(harness: Harness) -> None:
    topic = await harness.topic()
    subscription = await topic.create_subscription("my-sub")
    await asyncio.gather(*[topic.publish_message(b"%d" % number) for number in range(5)])
    for message in await subscription.pull(2):
        await message.ack_with_response()
    pubsub = await harness.reopen()
    assert bodies(await pubsub.subscription("my-sub").pull(10)) == ["2", "3", "4"]

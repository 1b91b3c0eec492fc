"""The Python clients against the door: confirmed sends, consumption, returns, errors, and restarts of the server."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from penstock.doors.text.options import TextOptions
from penstock.engine import lookups
from penstock.errors import FailedPreconditionError, InvalidArgumentError, UnavailableError
from penstock.text import AsyncClient, Client
from tests.doors.text.harness import SECONDS, Harness, play, set_up

Scenario = Callable[[Harness, AsyncClient], Awaitable[None]]


def play_with_client(scenario: Scenario, **parts: Any) -> None:
    async def with_client(harness: Harness) -> None:
        async with AsyncClient(harness.door.address, timeout_seconds=SECONDS) as client:
            await scenario(harness, client)

    play(with_client, **parts)


def play_blocking(scenario: Callable[[Client], None], **parts: Any) -> None:
    """Run a blocking client in a thread of its own, against a door in the loop."""

    async def with_client(harness: Harness) -> None:
        def run() -> None:
            with Client(harness.door.address, timeout_seconds=SECONDS) as client:
                scenario(client)

        await asyncio.to_thread(run)

    play(with_client, **parts)


def test_an_async_client_sends_consumes_and_acks() -> None:
    """T-022, T-026, T-036, T-040."""

    async def scenario(harness: Harness, client: AsyncClient) -> None:
        ids = await asyncio.gather(*(client.send("q", b"%d" % number) for number in range(50)))
        assert await client.send_many("q", []) == []
        seen = []
        async for message in client.consume("q", window=7, wait_seconds=SECONDS):
            assert message.ack()
            seen.append((message.content, message.id))
            if len(seen) == 50:
                break
        assert seen == [(b"%d" % number, ids[number]) for number in range(50)]
        await client.close()
        assert lookups.backlog(harness.queue.engine, harness.names("q")[1]).messages == 0

    play_with_client(scenario)


def test_a_blocking_client_sends_consumes_and_acks() -> None:
    """T-022, T-026, T-036, T-040: the door answers more than fits before the client reads."""

    def scenario(client: Client) -> None:
        ids = client.send_many("q", (b"%d" % number for number in range(3000)))
        assert len(set(ids)) == 3000
        assert client.send("q", b"last") not in ids
        seen = []
        for message in client.consume("q", window=100, wait_seconds=0.2):
            message.ack()
            seen.append(message.content)
        assert seen == [*(b"%d" % number for number in range(3000)), b"last"]
        assert list(client.consume("q", wait_seconds=0.01)) == []

    play_blocking(scenario)


def test_returned_messages_are_redelivered() -> None:
    """T-039."""

    def scenario(client: Client) -> None:
        client.send_many("q", [b"1", b"2"])
        messages = client.consume("q", window=1, wait_seconds=SECONDS)
        first = next(messages)
        first.give_back()
        again = next(messages)
        assert (again.content, again.id) == (b"1", first.id)
        again.give_back(0.05)
        second = next(messages)
        assert second.content == b"2"
        second.ack()
        assert next(messages).content == b"1"
        messages.close()

    play_blocking(scenario)


def test_unacked_messages_of_a_client_are_there_for_the_next() -> None:
    """T-034."""

    async def scenario(harness: Harness, client: AsyncClient) -> None:
        await client.send_many("q", [b"1", b"2", b"3"])
        async for message in client.consume("q", window=3, wait_seconds=SECONDS):
            assert message.content == b"1"
            break
        await client.close()
        async with AsyncClient(harness.door.address) as other:
            contents = []
            async for message in other.consume("q", wait_seconds=SECONDS):
                contents.append(message.content)
                message.ack()
                if len(contents) == 3:
                    break
            assert contents == [b"1", b"2", b"3"]

    play_with_client(scenario)


def test_refusals_are_exceptions_and_the_client_continues() -> None:
    """T-011, T-051, T-052: also after an error that closes the connection."""

    async def scenario(harness: Harness, client: AsyncClient) -> None:
        with pytest.raises(InvalidArgumentError, match="invalid-queue"):
            await client.send("a/b", b"1")
        with pytest.raises(InvalidArgumentError, match="too-large"):
            await client.send("q", b"x" * 101)
        await harness.queue.create_topic("other")
        await harness.queue.create_subscription(harness.names("taken")[1], "other")
        with pytest.raises(FailedPreconditionError, match="conflict"):
            async for _ in client.consume("taken", wait_seconds=SECONDS):
                pass
        assert await client.send("q", b"x" * 100)

    play_with_client(scenario, options=TextOptions(message_bytes_max=100))


def test_refusals_are_exceptions_of_a_blocking_client_too() -> None:
    """T-052."""

    def scenario(client: Client) -> None:
        with pytest.raises(InvalidArgumentError, match="too-large"):
            client.send("q", b"x" * 101)
        assert client.send("q", b"x" * 100)
        with pytest.raises(InvalidArgumentError, match="invalid-queue"):
            next(client.consume("a/b", wait_seconds=SECONDS))

    play_blocking(scenario, options=TextOptions(message_bytes_max=100))


def test_clients_find_the_endpoint_again_when_it_comes_back() -> None:
    """T-041: consumption continues, and sends wait."""

    async def scenario() -> None:
        harness = await set_up()
        port = harness.door.address.rpartition(":")[2]
        got: asyncio.Queue[bytes] = asyncio.Queue()

        async def consume(client: AsyncClient) -> None:
            async for message in client.consume("q"):
                await got.put(message.content)
                message.ack()

        async with AsyncClient(harness.door.address, timeout_seconds=SECONDS) as client:
            consumer = asyncio.create_task(consume(client))
            await client.send("q", b"before")
            assert await asyncio.wait_for(got.get(), SECONDS) == b"before"
            await harness.leave()
            sending = asyncio.create_task(client.send("q", b"while away"))
            again = await set_up(port=int(port))
            await asyncio.wait_for(sending, SECONDS)
            assert await asyncio.wait_for(got.get(), SECONDS) == b"while away"
            consumer.cancel()
            await asyncio.wait([consumer])
        await again.leave()

    asyncio.run(scenario())


def test_a_blocking_client_finds_the_endpoint_again() -> None:
    """T-034, T-041."""

    async def scenario() -> None:
        harness = await set_up()
        port = int(harness.door.address.rpartition(":")[2])
        away, back = threading.Event(), threading.Event()

        def run() -> list[bytes]:
            with Client(harness.door.address, timeout_seconds=SECONDS) as client:
                client.send("q", b"1")
                (message,) = [next(client.consume("q", wait_seconds=SECONDS))]
                away.set()
                assert back.wait(SECONDS)
                assert message.ack() in (True, False)
                client.send("q", b"2")
                return [next(client.consume("q", wait_seconds=SECONDS)).content]

        running = asyncio.create_task(asyncio.to_thread(run))
        await asyncio.to_thread(away.wait, SECONDS)
        await harness.leave()
        again = await set_up(port=port)
        back.set()
        assert await running == [b"2"]
        await again.leave()

    asyncio.run(scenario())


def test_a_missing_endpoint_is_unavailable_after_the_timeout() -> None:
    async def scenario() -> None:
        harness = await set_up()
        address = harness.door.address
        await harness.leave()
        with pytest.raises(UnavailableError, match="No connection"):
            await AsyncClient(address, timeout_seconds=0.2).send("q", b"1")
        with pytest.raises(UnavailableError, match="No connection"):
            Client(address, timeout_seconds=0.2).send("q", b"1")

    asyncio.run(scenario())


def test_an_endpoint_that_does_not_answer_is_unavailable_after_the_time_given() -> None:
    async def mute(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await reader.read()
        writer.close()

    async def scenario() -> None:
        server = await asyncio.start_server(mute, "127.0.0.1", 0)
        host, port = server.sockets[0].getsockname()
        client = AsyncClient(f"{host}:{port}", timeout_seconds=0.2)
        with pytest.raises(UnavailableError, match="the messages may or may not be stored"):
            await client.send("q", b"1")
        await client.close()
        with pytest.raises(UnavailableError, match="may or may not be stored"):
            await asyncio.to_thread(Client(f"{host}:{port}", timeout_seconds=0.2).send, "q", b"1")
        server.close()
        await server.wait_closed()

    asyncio.run(scenario())


def test_clients_use_unix_sockets(tmp_path: Path) -> None:
    """T-066."""
    path = tmp_path / "text.sock"

    async def scenario(harness: Harness) -> None:
        async with AsyncClient(f"unix:{path}") as client:
            await client.send("q", b"1")

        def run() -> bytes:
            with Client(f"unix:{path}") as blocking:
                return next(blocking.consume("q", wait_seconds=SECONDS)).content

        assert await asyncio.to_thread(run) == b"1"

    play(scenario, options=TextOptions(unix_socket=str(path)))


def test_a_blocking_consumer_survives_an_absence_longer_than_its_wait() -> None:
    """`wait_seconds` is a wait for messages, not a limit on the absence of the endpoint."""

    async def main() -> None:
        first = await set_up()
        address, heard = first.door.address, threading.Event()

        def consume() -> list[bytes]:
            with Client(address, timeout_seconds=0.2) as client:
                client.send("q", b"before")
                contents = []
                for message in client.consume("q", wait_seconds=0.3):
                    contents.append(message.content)
                    message.ack()
                    heard.set()
                return contents

        consuming = asyncio.create_task(asyncio.to_thread(consume))
        assert await asyncio.to_thread(heard.wait, SECONDS)
        await first.leave()
        assert not (await asyncio.wait([consuming], timeout=1))[0]
        again = await set_up(port=int(address.rpartition(":")[2]))
        await again.door.queues.get(b"q").send([b"after"])
        assert await asyncio.wait_for(consuming, SECONDS) == [b"before", b"after"]
        await again.leave()

    asyncio.run(main())


def test_an_async_consumer_survives_an_absence_longer_than_its_wait() -> None:
    """`wait_seconds` is a wait for messages, not a limit on the absence of the endpoint."""

    async def main() -> None:
        first = await set_up()
        address, heard = first.door.address, asyncio.Event()

        async def consume() -> list[bytes]:
            async with AsyncClient(address, timeout_seconds=0.2) as client:
                await client.send("q", b"before")
                contents = []
                async for message in client.consume("q", wait_seconds=0.3):
                    contents.append(message.content)
                    message.ack()
                    heard.set()
                return contents

        consuming = asyncio.create_task(consume())
        await asyncio.wait_for(heard.wait(), SECONDS)
        await first.leave()
        assert not (await asyncio.wait([consuming], timeout=1))[0]
        again = await set_up(port=int(address.rpartition(":")[2]))
        await again.door.queues.get(b"q").send([b"after"])
        assert await asyncio.wait_for(consuming, SECONDS) == [b"before", b"after"]
        await again.leave()

    asyncio.run(main())


def test_a_consumer_gives_up_an_endpoint_that_stays_away() -> None:
    async def main() -> None:
        first = await set_up()
        address, heard = first.door.address, threading.Event()

        def consume() -> None:
            with Client(address) as client:
                for _ in client.consume("q", away_seconds=0.1):
                    heard.set()

        async def consume_async() -> None:
            async with AsyncClient(address) as client:
                async for _ in client.consume("q2", away_seconds=0.1):
                    heard_async.set()

        heard_async = asyncio.Event()
        await first.door.queues.get(b"q").send([b"x"])
        await first.door.queues.get(b"q2").send([b"x"])
        consuming = [asyncio.create_task(asyncio.to_thread(consume)), asyncio.create_task(consume_async())]
        assert await asyncio.to_thread(heard.wait, SECONDS)
        await asyncio.wait_for(heard_async.wait(), SECONDS)
        await first.leave()
        for task in consuming:
            with pytest.raises(UnavailableError):
                await asyncio.wait_for(task, SECONDS)

    asyncio.run(main())

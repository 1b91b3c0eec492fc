"""Errors: the answers of each version, the codes that close a connection, and that no accepted message is lost."""

from __future__ import annotations

import logging
from collections.abc import Callable

import pytest

from penstock.doors.text.options import TextOptions
from penstock.engine import lookups
from penstock.errors import ResourceExhaustedError
from penstock.journal.port import JournalFullError
from tests.doors.text.harness import Harness, Peer, ack, consume, frame, play, send
from tests.unit.doors.text.test_codec import CLOSES, CONTENT_MAX, GOES_ON
from tests.unit.engine.journals import ToldJournal


async def survives(harness: Harness, peer: Peer | None = None) -> None:
    """Check that the server still serves this peer, or a new one."""
    peer = peer or await harness.peer()
    await peer.silence()


@pytest.mark.parametrize("name", CLOSES)
def test_a_broken_stream_is_answered_and_closed(name: str) -> None:
    """T-052, T-053, T-054, T-055: messages accepted before are stored, and confirmed before the error."""
    data, version, code = CLOSES[name]

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer(line=data[8:9] == b"\n")
        await peer.say(data)
        if name == "no line feed after a content":
            assert (await peer.hear()).type == 5
        if version == 2:
            assert (await peer.hear()).code == code
        assert await peer.end() == b""
        await survives(harness)

    play(scenario, options=TextOptions(message_bytes_max=CONTENT_MAX))


def test_messages_before_a_broken_stream_are_kept_and_confirmed() -> None:
    """T-055."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(send(b"q", b"1"), send(b"q", b"2"), b"nonsense", send(b"q", b"3"))
        heard = await peer.hear_many(3)
        assert [each.type for each in heard] == [5, 5, 7]
        assert heard[2].code == "malformed"
        assert await peer.end() == b""
        other = await harness.peer()
        await other.say(consume(b"q", 10))
        assert await other.contents(2) == [b"1", b"2"]
        await survives(harness, other)

    play(scenario)


@pytest.mark.parametrize("name", GOES_ON)
def test_an_invalid_message_is_refused_and_the_next_is_accepted(name: str) -> None:
    """T-011, T-050, T-051, T-053: a connection of version 01 is closed instead, without an answer."""
    data, code, refused = GOES_ON[name]

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        if data.startswith(b"H02"):
            await peer.say(data)
            heard = await peer.hear()
            assert heard.code == code
            assert heard.order[:3] == [6, 7, 8]
            assert heard.packages[8] == b"%03d" % refused
            assert heard.packages[7]
            await survives(harness, peer)
        await peer.say(send(b"q", b"1", 1), b"H01" + data[3:], send(b"q", b"2", 1))
        assert await peer.end() == b""
        other = await harness.peer()
        await other.say(consume(b"q", 10))
        assert await other.contents(1) == [b"1"]
        await survives(harness, other)

    play(scenario)


def test_an_error_has_the_framing_of_the_connection() -> None:
    """T-005, T-050."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer(line=True)
        await peer.say(frame(2, 9, (1, b"q"), line=True))
        heard = await peer.hear()
        assert (heard.code, heard.packages[8]) == ("unknown-type", b"009")
        await survives(harness, peer)

    play(scenario)


def test_errors_are_logged_with_a_limit_and_counted(caplog: pytest.LogCaptureFixture) -> None:
    """T-051: at most ten lines a second for all clients."""
    caplog.set_level(logging.WARNING)

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(*(frame(2, 9, (1, b"q")) for _ in range(1000)))
        assert len(await peer.hear_many(1000)) == 1000
        assert harness.door.counts["unknown-type"] == 1000
        lines = [record for record in caplog.records if record.name == "test.text"]
        assert 1 <= len(lines) <= 30

    play(scenario)


def test_a_commit_that_is_refused_is_an_answer_to_every_send_of_it() -> None:
    """T-023, T-051: the next send is accepted again."""
    journal = ToldJournal()

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await survives(harness, peer)
        journal.refusals.append(JournalFullError())
        await peer.say(send(b"q", b"1"), send(b"q", b"2"), send(b"r", b"3"))
        heard = await peer.hear_many(3)
        assert {each.code for each in heard} == {"full"}
        assert [each.packages[1] for each in heard] == [b"q", b"q", b"r"]
        await peer.say(send(b"q", b"4"))
        assert (await peer.hear()).type == 5
        await peer.say(consume(b"q", 10))
        assert await peer.contents(1) == [b"4"]

    play(scenario, journal=journal)


def test_acknowledgements_that_could_not_be_kept_close_the_connection_and_the_messages_return() -> None:
    """T-034, T-055: a client without an answer must not believe that its acknowledgement was stored."""
    journal = ToldJournal()

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(send(b"q", b"1"), send(b"q", b"2"))
        await peer.hear_many(2)
        await peer.say(consume(b"q", 2))
        held = await peer.hear_many(2)
        await harness.queue.commit()
        journal.refusals.append(JournalFullError())
        await peer.say(ack(b"q", held[0].id))
        await peer.end()
        other = await harness.peer()
        await other.say(consume(b"q", 2))
        assert await other.contents(2) == [b"1", b"2"]

    play(scenario, journal=journal)


@pytest.mark.parametrize(
    "request_of", [lambda version: send(b".", b"x", version), lambda version: consume(b".", 5, version)]
)
def test_a_refused_name_is_answered_in_the_version_of_its_request(request_of: Callable[[int], bytes]) -> None:
    """T-011, T-053: whatever the version of the next message."""

    async def scenario(harness: Harness) -> None:
        new, old = await harness.peer(), await harness.peer()
        await new.say(request_of(2), send(b"q", b"1", 1))
        assert (await new.hear()).code == "invalid-queue"
        await survives(harness, new)
        await old.say(request_of(1), send(b"q", b"2", 2))
        while heard := await old.end():
            assert heard[:6] == b"H02005", "version 01 has no error message"

    play(scenario)


def test_consumers_get_the_error_of_a_failing_feed(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-051, T-053: consumers of version 02 get an error, and those of version 01 are closed."""

    async def scenario(harness: Harness) -> None:
        new, old = await harness.peer(), await harness.peer()
        for peer, version in ((new, 2), (old, 1)):
            await peer.say(consume(b"q", 5, version))
            await harness.until(lambda: lookups.find_topic(harness.queue.engine, harness.names("q")[0]))
        await new.silence()

        async def fail(*_: object, **__: object) -> None:
            raise ResourceExhaustedError("No.")

        with monkeypatch.context() as patch:
            patch.setattr(harness.queue, "lease", fail)
            sender = await harness.peer()
            await sender.say(send(b"q", b"1"))
            heard = await new.hear()
            assert (heard.code, heard.packages[8], heard.packages[1]) == ("full", b"002", b"q")
            assert await old.end() == b""
        await new.say(consume(b"q", 5))
        assert await new.contents(1) == [b"1"]

    play(scenario)


def test_a_bug_ends_one_connection_with_an_internal_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """T-052: the answer has no details of the bug."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await survives(harness, peer)

        def fail(*_: object) -> None:
            raise KeyError("secret")

        with monkeypatch.context() as patch:
            patch.setattr(harness.door.queues, "get", fail)
            await peer.say(send(b"q", b"1"))
            heard = await peer.hear()
            assert heard.code == "internal"
            assert b"secret" not in heard.packages[7]
            assert await peer.end() == b""
        await survives(harness)

    play(scenario)


def test_a_client_that_leaves_within_a_message_leaves_nothing_behind() -> None:
    """T-040, T-055."""

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer()
        await peer.say(send(b"q", b"1"), send(b"q", b"2")[:-1])
        peer.writer.write_eof()
        assert (await peer.hear()).type == 5
        assert await peer.end() == b""
        other = await harness.peer()
        await other.say(consume(b"q", 5))
        assert await other.contents(1) == [b"1"]
        await survives(harness, other)

    play(scenario)

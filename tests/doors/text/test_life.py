"""The life of the server: start, sockets, TLS and stop."""

from __future__ import annotations

import asyncio
import ssl
import stat
from pathlib import Path

import pytest
import trustme

from penstock.doors.text.options import TextOptions
from penstock.doors.text.sockets import claim_unix_path
from penstock.engine import lookups
from penstock.errors import InvalidArgumentError, UnavailableError
from tests.doors.text.harness import SECONDS, Harness, ack, consume, play, send, set_up
from tests.unit.engine.journals import ToldJournal


def test_a_stopping_server_confirms_sends_and_returns_messages() -> None:
    """T-034, T-041."""
    journal = ToldJournal()

    async def scenario(harness: Harness) -> None:
        sender, consumer = await harness.peer(), await harness.peer()
        await sender.say(send(b"q", b"1"))
        await sender.hear()
        await consumer.say(consume(b"q", 5))
        await consumer.hear()
        await harness.queue.commit()
        journal.gate.clear()
        await sender.say(send(b"q", b"2"))
        await harness.until(lambda: lookups.topic(harness.queue.engine, harness.names("q")[0]).tail == 2)
        stopping = asyncio.ensure_future(harness.door.stop(SECONDS))
        await asyncio.sleep(0)
        journal.gate.set()
        assert (await sender.hear()).type == 5
        assert await sender.end() == b""
        await consumer.end()
        await stopping
        assert harness.in_flight("q") == 0
        with pytest.raises(OSError):
            await harness.peer()

    play(scenario, journal=journal)


def test_a_server_stops_in_time_although_no_client_reads() -> None:
    """T-041: the stop takes the grace period at most."""

    async def scenario(harness: Harness) -> None:
        peers = [await harness.peer() for _ in range(50)]
        for peer in peers:
            await peer.say(consume(b"q", 10))
        await peers[0].silence()
        async with asyncio.timeout(5):
            await harness.door.stop(0.5)
        assert not harness.door.connections

    play(scenario)


def test_a_queue_is_unchanged_after_a_restart() -> None:
    """T-035: confirmed and unacknowledged messages are there again, in order."""
    journal = ToldJournal()

    async def scenario() -> None:
        harness = await set_up(journal=journal)
        peer = await harness.peer()
        await peer.say(*(send(b"q", b"%d" % number) for number in range(5)), consume(b"q", 3))
        heard = [each for each in await peer.hear_many(8) if each.type == 3]
        await peer.say(ack(b"q", heard[1].id))
        await peer.hear()  # another message is in the freed place
        await peer.silence()  # and now the acknowledgement is durable
        again = ToldJournal()
        for commit in list(journal.commits):  # the store as a killed process leaves it
            again.commit(commit)
        other = await set_up(journal=again)
        second = await other.peer()
        await second.say(consume(b"q", 10))
        assert await second.contents(4) == [b"0", b"2", b"3", b"4"]
        await harness.leave()
        await other.leave()

    asyncio.run(scenario())


def test_a_unix_socket_carries_the_same_bytes(tmp_path: Path) -> None:
    """T-066: for its owner only, and removed when the server stops."""
    path = tmp_path / "text.sock"

    async def scenario(harness: Harness) -> None:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600
        assert any(str(path) in hint for hint in harness.door.hints)
        peer = await harness.unix_peer(path)
        await peer.say(send(b"q", b"1"), consume(b"q", 1))
        assert [each.type for each in await peer.hear_many(2)] == [5, 3]
        peer.writer.write_eof()
        assert await peer.end() == b""

    play(scenario, options=TextOptions(unix_socket=str(path)))
    assert not path.exists()


def test_a_socket_left_behind_makes_room_and_anything_else_does_not(tmp_path: Path) -> None:
    """T-066."""
    path = tmp_path / "text.sock"
    claim_unix_path(str(path)).close()
    assert path.is_socket()
    left = claim_unix_path(str(path))
    left.listen()
    with pytest.raises(OSError):
        claim_unix_path(str(path))  # another server listens there
    left.close()
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(OSError):
        claim_unix_path(str(file))
    assert file.read_text() == "mine"


def test_a_path_in_use_keeps_the_door_closed(tmp_path: Path) -> None:
    """T-066."""
    file = tmp_path / "file"
    file.write_text("mine")
    with pytest.raises(UnavailableError, match=f"cannot listen at {file}: Address already in use"):
        asyncio.run(set_up(options=TextOptions(unix_socket=str(file))))


def test_a_door_that_cannot_have_a_path_leaves_the_socket_of_another_alone(tmp_path: Path) -> None:
    """T-066."""
    path = tmp_path / "text.sock"
    with claim_unix_path(str(path)) as others:
        others.listen()
        with pytest.raises(UnavailableError):
            asyncio.run(set_up(options=TextOptions(unix_socket=str(path))))
        assert path.is_socket()


@pytest.fixture(scope="module")
def authority() -> trustme.CA:
    return trustme.CA()


def pem(folder: Path, name: str, blob: trustme.Blob) -> str:
    path = folder / name
    blob.write_to_path(str(path))
    return str(path)


def test_tls_carries_the_same_bytes_and_asks_for_certificates(tmp_path: Path, authority: trustme.CA) -> None:
    """T-066: a client certificate is required. Without one, or with a foreign one, there is no connection."""
    server = authority.issue_cert("127.0.0.1")
    certificate = pem(tmp_path, "server.pem", server.private_key_and_cert_chain_pem)
    ca = pem(tmp_path, "ca.pem", authority.cert_pem)

    def client(issuer: trustme.CA | None) -> ssl.SSLContext:
        context = ssl.create_default_context(cafile=ca)
        if issuer is not None:
            issuer.issue_cert("client@penstock.test").configure_cert(context)
        return context

    async def exchange(harness: Harness, context: ssl.SSLContext) -> None:
        stranger = await harness.peer(ssl=context)
        await stranger.say(send(b"q", b"1"))
        await stranger.hear()

    async def scenario(harness: Harness) -> None:
        peer = await harness.peer(ssl=client(authority))
        await peer.say(send(b"q", b"x" * 200_000), consume(b"q", 1))
        assert [each.type for each in await peer.hear_many(2)] == [5, 3]
        for issuer in (None, trustme.CA()):
            with pytest.raises((ssl.SSLError, ConnectionError, asyncio.IncompleteReadError)):
                await exchange(harness, client(issuer))
        plain = await harness.peer()
        await plain.say(send(b"q", b"1"))
        assert b"H02" not in await plain.end()
        await peer.silence()

    play(scenario, options=TextOptions(tls_cert=certificate, tls_client_ca=ca))


def test_invalid_tls_files_are_named_in_one_sentence(tmp_path: Path) -> None:
    """T-066."""
    with pytest.raises(InvalidArgumentError, match="text_tls_cert and text_tls_key cannot be used"):
        asyncio.run(set_up(options=TextOptions(tls_cert=str(tmp_path / "absent.pem"))))

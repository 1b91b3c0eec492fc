"""The text protocol from outside: a real server, and a client that is only a socket."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from tests.acceptance.text_server import Plug, TextServer
from tests.server_process import SECONDS

EXAMPLES = {
    "send": b"""\
H0100102
P01000000000000000000000000000000003
Foo
P02000000000000000000000000000000011
Hello World
""",
    "consume": b"""\
H0100202
P01000000000000000000000000000000003
Foo
P04000000000000000000000000000000001
5
""",
    "dispatch": b"""\
H0100303
P01000000000000000000000000000000003
Foo
P02000000000000000000000000000000011
Hello World
P03000000000000000000000000000000032
""",
    "acknowledge": b"""\
H0100402
P01000000000000000000000000000000003
Foo
P03000000000000000000000000000000032
""",
}


@pytest.mark.parametrize("compact", [False, True], ids=["lines", "compact"])
def test_the_four_examples_of_the_specification_byte_for_byte(tmp_path: Path, compact: bool) -> None:
    """T-001, T-002, T-004, T-005, T-006, T-021, T-025, T-032, T-036: over a real socket, in both framings."""

    def framed(name: str) -> bytes:
        return EXAMPLES[name].replace(b"\n", b"") if compact else EXAMPLES[name]

    end = b"" if compact else b"\n"
    with TextServer(tmp_path, "--data", str(tmp_path / "data")) as server:
        with socket.create_connection(server.address, SECONDS) as client:
            client.sendall(framed("send") + framed("consume"))
            expected = framed("dispatch")
            with client.makefile("rb") as answers:
                assert answers.read(len(expected)) == expected
                message_id = answers.read(32)
                assert answers.read(len(end)) == end
            assert len(message_id) == 32
            assert not message_id.strip(b"0123456789abcdef")
            client.sendall(framed("acknowledge") + message_id + end)
            client.shutdown(socket.SHUT_WR)
            assert client.recv(1) == b""
        with Plug(server.address) as other:
            other.consume(b"Foo", 5)
            other.send(b"Foo", b"next")
            assert sorted(other.hear()[0] for _ in range(2)) == [3, 5]
        assert server.stop() == 0


def test_confirmed_messages_outlive_the_server_and_acknowledged_ones_do_not(tmp_path: Path) -> None:
    """T-022, T-034, T-035, T-036, T-042."""
    data = ("--data", str(tmp_path / "data"))
    with TextServer(tmp_path, *data) as server, Plug(server.address) as client:
        client.send(b"q", *(b"%d" % number for number in range(20)))
        ids = client.hear_ids(20)
        client.consume(b"q", 10)
        held = client.hear_messages(10)
        client.ack(b"q", *(each for _, each in held[:5]))
        assert [content for content, _ in client.hear_messages(5)] == [b"%d" % n for n in range(10, 15)]
        client.send(b"other", b"now it is certain")
        client.hear_ids(1)
        server.kill()
    with TextServer(tmp_path, *data) as server, Plug(server.address) as client:
        client.consume(b"q", 100)
        again = client.hear_messages(15)
        assert [content for content, _ in again] == [b"%d" % n for n in range(5, 20)]
        assert [each for _, each in again] == ids[5:]
        assert server.stop() == 0


def test_a_stop_is_clean_with_clients_that_say_nothing(tmp_path: Path) -> None:
    """T-041."""
    with TextServer(tmp_path, "--memory") as server:
        plugs = [Plug(server.address) for _ in range(20)]
        plugs[0].consume(b"q", 10)
        plugs[1].send(b"q", b"1")
        assert plugs[1].hear()[0] == 5
        assert plugs[0].hear_messages(1)[0][0] == b"1"
        started = time.monotonic()
        assert server.stop() == 0
        assert time.monotonic() - started < 5
        for plug in plugs:
            # a reset means that the connection was never accepted
            with pytest.raises((EOFError, ConnectionResetError)):
                plug.hear()
            plug.close()


def test_the_door_has_a_unix_socket_and_limits_of_its_own(tmp_path: Path) -> None:
    """T-060, T-066: the settings reach the door."""
    path = tmp_path / "text.sock"
    settings = {"text_unix_socket": str(path), "text_message_bytes_max": "100", "default_project": "mine"}
    with TextServer(tmp_path, "--memory", **settings) as server:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(SECONDS)
            client.connect(str(path))
            client.sendall(b"H0200102P01%033dqP02%033d" % (1, 101))
            assert b"too-large" in client.makefile("rb").read()
        assert server.stop() == 0
    assert not path.exists()

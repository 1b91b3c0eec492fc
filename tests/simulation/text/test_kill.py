"""`kill -9` under load: every confirmed message is redelivered, and no acknowledged one.

Producers and consumers that are only sockets record their confirmations, while the server is killed repeatedly on one
store. At the end everything is drained and compared.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.text_server import Plug, TextServer

QUEUE, DONE = b"work", b"done"
GONE = (OSError, EOFError)


class History:
    """The facts that the clients know for certain."""

    def __init__(self) -> None:
        self.attempted: set[bytes] = set()
        self.confirmed: set[bytes] = set()
        self.acked: set[bytes] = set()  # an acknowledgement was sent
        self.acked_for_good: set[bytes] = set()  # and is durable (T-042)
        self.delivered: Counter[bytes] = Counter()
        self.returned: list[bytes] = []  # delivered after a durable acknowledgement


def produce(address: tuple[str, int], name: str, history: History, numbers: list[int]) -> None:
    try:
        with Plug(address) as client:
            while True:
                contents = []
                for _ in range(20):
                    numbers[0] += 1
                    contents.append(b"%s-%06d" % (name.encode(), numbers[0]))
                history.attempted.update(contents)
                client.send(QUEUE, *contents)
                for content in contents:
                    client.hear_ids(1)
                    history.confirmed.add(content)
    except GONE:
        return  # killed


def work(address: tuple[str, int], history: History) -> None:
    """Acknowledge each message and publish a note about it.

    The note's confirmation makes the acknowledgement certain.
    """
    try:
        with Plug(address) as client:
            client.consume(QUEUE, 30)
            noted: list[bytes] = []
            while True:
                kind, packages = client.hear()
                if kind == 5:
                    history.acked_for_good.add(noted.pop(0))
                    continue
                content = packages[2]
                history.delivered[content] += 1
                if content in history.acked_for_good:
                    history.returned.append(content)
                history.acked.add(content)
                noted.append(content)
                client.ack(QUEUE, packages[3])
                client.send(DONE, content)
    except GONE:
        return


def drain(address: tuple[str, int]) -> list[bytes]:
    """Return all remaining messages in order. A last message marks the end."""
    with Plug(address) as client:
        client.send(QUEUE, b"the end")
        client.hear_ids(1)
        client.consume(QUEUE, 1000)
        left: list[bytes] = []
        while True:
            ((content, message_id),) = client.hear_messages(1)
            if content == b"the end":
                return left
            left.append(content)
            client.ack(QUEUE, message_id)


@pytest.mark.kill
def test_no_confirmed_message_is_lost_and_no_acknowledged_one_returns(
    tmp_path: Path, rounds: Callable[[int, int], int]
) -> None:
    """T-022, T-035, T-036, T-042."""
    kills = rounds(4, 200)
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance, history, numbers = random.Random(seed), History(), [[0], [0]]
    data = ("--data", str(tmp_path / "data"), "--log-level", "error")
    for _ in range(kills):
        with TextServer(tmp_path, *data) as server:
            clients = [
                threading.Thread(target=produce, args=(server.address, name, history, place), daemon=True)
                for name, place in zip("ab", numbers, strict=True)
            ] + [threading.Thread(target=work, args=(server.address, history), daemon=True) for _ in range(2)]
            for client in clients:
                client.start()
            clients[0].join(chance.uniform(0.05, 0.5))
            server.kill()
            for client in clients:
                client.join(30)
    with TextServer(tmp_path, *data) as server:
        left = drain(server.address)
        assert server.stop() == 0
    remaining = set(left)
    assert history.confirmed - remaining - history.acked == set()
    assert history.acked_for_good & remaining == set()
    assert history.returned == []
    assert remaining | set(history.delivered) <= history.attempted
    assert len(remaining) == len(left)
    for name in (b"a", b"b"):
        mine = [content for content in left if content.startswith(name)]
        assert mine == sorted(mine)
    assert len(history.confirmed) > 100 * kills
    assert len(history.acked_for_good) > 10 * kills

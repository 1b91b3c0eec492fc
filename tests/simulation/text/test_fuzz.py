"""Fuzzing of the whole door: random bytes, random cuts and mutated sessions, on connections without a network.

No exception escapes, nothing hangs, the memory of a connection is bounded, and the door delivers accepted messages
exactly as they were sent. Hypothesis draws the cases in `make test`. `make nightly` runs many more, and atheris.
"""

from __future__ import annotations

import asyncio
import logging
import platform
import random
import subprocess
import sys
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from penstock.doors.text.connection import TextConnection
from penstock.doors.text.options import TextOptions
from penstock.doors.text.server import TextDoor
from penstock.engine.async_queue import AsyncMessageQueue
from penstock.journal.memory import MemoryJournal
from tests.conftest import NIGHTLY
from tests.doors.text.harness import UNLIMITED, ack, consume, frame, give_back, send
from tests.simulation.text.reference import Stored, stored

LIMITS = TextOptions(message_bytes_max=500, window_max=50, dispatch_messages=3)  # windows are larger than a block
ID = b"0123456789abcdef" * 2


class Wire:
    """A transport that keeps the written bytes, for a connection without a network."""

    def __init__(self) -> None:
        self.written = bytearray()
        self.closed = False
        self.paused = False

    def get_extra_info(self, name: str) -> Any:
        return ("127.0.0.1", 1) if name == "peername" else None

    def set_write_buffer_limits(self, high: int) -> None: ...

    def get_write_buffer_size(self) -> int:
        return 0

    def write(self, data: bytes) -> None:
        assert not self.closed
        self.written += data

    def is_closing(self) -> bool:
        return self.closed

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        self.closed = True

    def close(self) -> None:
        self.closed = True

    abort = close

    def pause_reading(self) -> None:
        self.paused = True

    def resume_reading(self) -> None:
        self.paused = False


class Alarm(logging.Handler):
    """A log handler that fails the test when the door logs an error, which means that it caught an internal bug."""

    def __init__(self) -> None:
        super().__init__(logging.ERROR)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


async def attack(*sessions: list[bytes]) -> None:
    """Let clients send these bytes in turn, and then check the queues with a normal client."""
    queue = AsyncMessageQueue(MemoryJournal(), limits=UNLIMITED)
    await queue.start()
    log, alarm = logging.getLogger("fuzz"), Alarm()
    log.handlers[:] = [alarm]
    door = TextDoor(host="", port=0, queue=queue, project="p", log=log, options=LIMITS)
    failures: list[Any] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: failures.append(context))
    expected: dict[bytes, list[Stored]] = {}
    for pieces in sessions:
        await one_client(door, pieces, expected)
    await compare(queue, expected)
    assert (alarm.lines, failures) == ([], [])
    await queue.close()


async def one_client(door: TextDoor, pieces: list[bytes], expected: dict[bytes, list[Stored]]) -> None:
    connection, wire = TextConnection(door), Wire()
    connection.connection_made(cast(asyncio.Transport, wire))
    for piece in pieces:
        if wire.closed or connection._ending:
            break
        connection.data_received(piece)
        assert held_bytes(connection) <= 100 * 1024 + LIMITS.message_bytes_max
        await asyncio.sleep(0)
    for message in stored(b"".join(pieces), LIMITS.message_bytes_max):
        expected.setdefault(message.queue, []).append(message)
    check_answers(bytes(wire.written))
    connection.connection_lost(None)
    await door.queues.wait_for_returns()


def held_bytes(connection: TextConnection) -> int:
    reader = connection._decoder._reader
    return reader._held_bytes + sum(len(content) for _, content in reader._packages)


def check_answers(data: bytes) -> None:
    """Check that the answers of the door are whole messages in one framing."""
    gap = 1 if data[8:9] == b"\n" else 0
    at = 0
    while at < len(data):
        assert data[at : at + 1] == b"H", data[at : at + 50]
        packages = int(data[at + 6 : at + 8])
        at += 8 + gap
        for _ in range(packages):
            at += 36 + gap + int(data[at + 3 : at + 36]) + gap
    assert at == len(data)


async def compare(queue: AsyncMessageQueue, expected: dict[bytes, list[Stored]]) -> None:
    for name, messages in expected.items():
        subscription = f"projects/p/subscriptions/{name.decode()}"
        if not any(message.certain for message in messages) and await queue.find_subscription(subscription) is None:
            continue
        left = [each.message.data for each in await queue.pull(subscription, 10_000)]
        acked = queue.engine.statistics().subscriptions
        settled = next(each.counts.acked for each in acked if each.subscription == subscription)
        assert sum(message.certain for message in messages) <= len(left) + settled <= len(messages)
        assert is_subsequence(left, [message.content for message in messages])


def is_subsequence(some: list[bytes], of: list[bytes]) -> bool:
    rest = iter(of)
    return all(any(each == other for other in rest) for each in some)


# ---------------------------------------------------------------------- cases

NAMES = st.sampled_from([b"q", b"r", "é".encode(), b"%s%d"])
CONTENTS = st.binary(max_size=60)


def frames(line: bool) -> st.SearchStrategy[bytes]:
    version = st.sampled_from([1, 2])
    return st.one_of(
        st.builds(lambda q, c, v: send(q, c, v, line), NAMES, CONTENTS, version),
        st.builds(lambda q, n, v: consume(q, n, v, line), NAMES, st.integers(0, 100), version),
        st.builds(lambda q, n, v: ack(q, b"%032x" % n, v, line), NAMES, st.integers(0, 1 << 45), version),
    )


@st.composite
def sessions(draw: st.DrawFn) -> list[bytes]:
    """Generate a valid session, sometimes with some bytes changed, and cut it anywhere."""
    line = draw(st.booleans())
    data = bytearray(b"".join(draw(st.lists(frames(line), max_size=12))))
    for _ in range(draw(st.integers(0, 3))):
        if data:
            place = draw(st.integers(0, len(data) - 1))
            change = draw(st.sampled_from(["set", "delete", "insert"]))
            if change == "set":
                data[place] = draw(st.integers(0, 255))
            elif change == "delete":
                del data[place : place + draw(st.integers(1, 40))]
            else:
                data[place:place] = draw(st.binary(max_size=40))
    return cut(bytes(data), draw(st.lists(st.integers(0, len(data)), max_size=12)))


def cut(data: bytes, places: list[int]) -> list[bytes]:
    marks = [0, *sorted(set(places)), len(data)]
    return [data[start:end] for start, end in pairwise(marks) if start < end]


EXAMPLES = 4000 if NIGHTLY else 150


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.lists(sessions(), min_size=1, max_size=3))
def test_mutated_sessions_neither_break_the_door_nor_lose_accepted_messages(cases: list[list[bytes]]) -> None:
    """T-008, T-055."""
    asyncio.run(attack(*cases))


@settings(deadline=None, max_examples=EXAMPLES)
@given(st.lists(st.binary(max_size=100), max_size=6))
def test_random_bytes_do_not_break_the_door(pieces: list[bytes]) -> None:
    """T-052, T-054."""
    asyncio.run(attack(pieces, cut(send(b"q", b"x"), [5])))


def test_many_random_sessions_from_one_seed(rounds: Callable[[int, int], int]) -> None:
    """T-008, T-055: the long run, without shrinking."""
    seed = random.randrange(1 << 30)
    print(f"seed {seed}")
    chance = random.Random(seed)

    async def run(count: int) -> None:
        for _ in range(count):
            await attack(*(random_session(chance) for _ in range(chance.randrange(1, 4))))

    asyncio.run(run(rounds(200, 100_000)))


def random_session(chance: random.Random) -> list[bytes]:
    line = chance.random() < 0.5
    parts = []
    for _ in range(chance.randrange(12)):
        queue, version = chance.choice([b"q", b"r", b"q", b"r", b".", b" r", b"q\xc2\xa0"]), chance.choice([1, 2, 2])
        parts.append(
            chance.choice(
                [
                    send(queue, chance.randbytes(chance.randrange(80)), version, line) * chance.randrange(1, 4),
                    consume(queue, chance.randrange(20), version, line),
                    ack(queue, b"%032x" % (chance.randrange(4) << 39 | chance.randrange(5)), version, line),
                    frame(version, chance.randrange(9), (1, queue), (chance.randrange(9), b"5"), line=line),
                    give_back(queue, ID, b"1"),
                ]
            )
        )
    data = bytearray(b"".join(parts))
    for _ in range(chance.randrange(3) if data else 0):
        data[chance.randrange(len(data))] = chance.randrange(256)
    return cut(bytes(data), [chance.randrange(len(data) + 1) for _ in range(chance.randrange(8))])


SEEDS = [
    send(b"q", b"1") * 3 + consume(b"q", 5) + ack(b"q", ID) * 2,
    send(b"q", b"1", 1, True) * 3 + consume(b"r", 5, 1, True) + ack(b"q", ID, 1, True),
    give_back(b"q", ID, b"500") + frame(2, 9, (1, b"q")) + send(b"q", b""),
]


HAS_ATHERIS = sys.platform == "linux" and platform.machine() == "x86_64" and sys.version_info < (3, 14)


@pytest.mark.nightly
@pytest.mark.skipif(not HAS_ATHERIS, reason="there is no package of atheris for this machine")
def test_a_coverage_guided_fuzzer_finds_nothing(tmp_path: Path) -> None:
    """T-008: the codec under atheris, compared with the reference."""
    for number, seed in enumerate(SEEDS):
        (tmp_path / f"seed-{number}").write_bytes(seed)
    flags = ["-max_total_time=300", "-max_len=600", "-rss_limit_mb=0", "-print_final_stats=1", str(tmp_path)]
    command = [sys.executable, "-m", "tests.simulation.text.fuzz_codec", *flags]
    done = subprocess.run(command, capture_output=True, text=True, timeout=600)
    assert done.returncode == 0, done.stderr[-2000:]

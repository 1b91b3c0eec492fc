"""The life of a server process, with parts that the tests control."""

from __future__ import annotations

import asyncio
import errno
import io
import json
import logging
import os
import signal
import stat
import sys
from pathlib import Path

import pytest

from penstock import server as server_module
from penstock.doors.port import Condition
from penstock.errors import DamagedStoreError, InternalError
from penstock.server import ServeError, Server, run
from penstock.settings import Settings


class FakeQueue:
    def __init__(self, story: list[str]) -> None:
        self.failed: asyncio.Future[InternalError] = asyncio.get_running_loop().create_future()
        self._story = story

    def stop_waiting(self) -> None:
        self._story.append("waiting ends")

    async def close(self) -> None:
        self._story.append("queue closed")


class FakeDoor:
    def __init__(self, name: str, parts: FakeParts, *, error: Exception | None = None) -> None:
        self.name = name
        self.address = ""
        self.hints = [f"export {name.upper()}=here"]
        self.counts: dict[str, int] = {}
        self.guarded = name == "text"
        self._parts = parts
        self._error = error

    async def start(self) -> None:
        if self._error is not None:
            raise self._error
        self.address = f"127.0.0.1:{len(self.name)}"
        self._parts.story.append(f"{self.name} open")

    async def stop(self, grace_seconds: float) -> None:
        self._parts.story.append(f"{self.name} closed, ready={self._parts.condition.ready}, grace={grace_seconds > 5}")


class FakeParts:
    faults = None

    def __init__(self, *, second_door: Exception | None = None) -> None:
        self.story: list[str] = []
        self.condition = Condition()
        self.queue = FakeQueue(self.story)
        self.doors = [FakeDoor("http", self), FakeDoor("text", self, error=second_door)]

    def undo(self) -> None:
        self.story.append("undone")


class Harness:
    """A server whose parts are accessible once it is ready."""

    def __init__(self, settings: Settings | None = None, second_door: Exception | None = None) -> None:
        self.out = io.StringIO()
        self.exits: list[int] = []
        self.ready = asyncio.Event()
        self._second_door = second_door
        self.server = Server(settings or Settings(memory=True), self.open, out=self.out, exit_now=self.exits.append)

    def open(self, settings: Settings) -> FakeParts:
        self.parts = FakeParts(second_door=self._second_door)
        return self.parts

    async def begin(self) -> asyncio.Task[int]:
        task = asyncio.create_task(self.server.serve())
        while not (hasattr(self, "parts") and self.parts.condition.ready) and not task.done():
            await asyncio.sleep(0)
        return task


def test_a_signal_drains_and_ends_with_0() -> None:
    async def story() -> None:
        harness = Harness()
        task = await harness.begin()
        harness.server.signalled(signal.SIGTERM)
        assert await task == 0
        assert harness.parts.story == [
            "http open",
            "text open",
            "text closed, ready=False, grace=True",
            "waiting ends",  # after the doors have begun to close, and have told their clients
            "http closed, ready=False, grace=True",  # last, so that it can say that the server is stopping
            "queue closed",
        ]

    asyncio.run(story())


def test_a_second_signal_leaves_at_once(tmp_path: Path) -> None:
    async def story() -> None:
        ready_file = tmp_path / "ready.json"
        harness = Harness(Settings(memory=True, ready_file=str(ready_file)))
        task = await harness.begin()
        harness.server.signalled(signal.SIGINT)
        harness.server.signalled(signal.SIGINT)
        assert harness.exits == [130]
        assert not ready_file.exists()
        await task

    asyncio.run(story())


def test_a_failed_journal_ends_with_3_and_one_log_line(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        harness = Harness()
        task = await harness.begin()
        harness.parts.queue.failed.set_result(InternalError("fsync: input/output error"))
        assert await task == 3
        assert harness.parts.condition.failed
        assert harness.parts.story[-1] == "queue closed"

    asyncio.run(story())
    (line,) = [record.getMessage() for record in caplog.records if record.levelno >= logging.ERROR]
    assert line == "the journal failed, and the server stops: fsync: input/output error"


def test_a_door_that_cannot_open_closes_the_others() -> None:
    async def story() -> None:
        harness = Harness(second_door=OSError(errno.EACCES, "a long sentence of asyncio"))
        with pytest.raises(ServeError) as refusal:
            await harness.server.serve()
        assert str(refusal.value) == (
            "cannot open text: 127.0.0.1:9123: Permission denied; choose another with --text-port"
        )
        assert harness.parts.story == [
            "http open",
            "waiting ends",
            "http closed, ready=False, grace=True",
            "undone",  # when no client can reach the queue any more
            "queue closed",
        ]

    asyncio.run(story())


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (DamagedStoreError("The store in d is damaged: row 7."), "penstock: The store in d is damaged: row 7.\n"),
        (PermissionError(13, "x"), "penstock: cannot use the data folder ./d: Permission denied\n"),
        (DamagedStoreError("a\nb\x1b[31m"), "penstock: a\\nb\\x1b[31m\n"),
    ],
)
def test_a_store_that_cannot_be_opened_is_one_sentence_and_exit_1(error: Exception, sentence: str) -> None:
    def open_parts(settings: Settings) -> FakeParts:
        raise error

    complaints = io.StringIO()
    assert run(Settings(data="./d"), open_parts, out=io.StringIO(), err=complaints) == 1
    assert complaints.getvalue() == sentence


def test_parts_may_be_opened_by_a_coroutine() -> None:
    async def open_parts(settings: Settings) -> FakeParts:
        parts = FakeParts()
        parts.queue.failed.set_result(InternalError())
        return parts

    assert run(Settings(memory=True), open_parts, out=io.StringIO()) == 3


def test_the_banner_says_where_everything_is() -> None:
    async def story() -> None:
        harness = Harness()
        task = await harness.begin()
        harness.server.signalled(signal.SIGTERM)
        await task
        lines = harness.out.getvalue().splitlines()
        assert lines[0].startswith("Penstock ")
        assert "  data  memory only: a restart loses all messages" in lines
        assert "  http  127.0.0.1:4" in lines
        assert "export HTTP=here" in lines, "a command to paste begins its line"
        assert lines[-1] == "Ready. Ctrl-C stops."

    asyncio.run(story())


def test_the_ready_file_names_every_door_and_is_removed_at_the_stop(tmp_path: Path) -> None:
    async def story() -> None:
        ready_file = tmp_path / "ready.json"
        harness = Harness(Settings(memory=True, ready_file=str(ready_file)))
        task = await harness.begin()
        content = json.loads(ready_file.read_text())
        assert content.pop("pid") > 0
        assert content == {"http": "127.0.0.1:4", "text": "127.0.0.1:4"}
        harness.server.signalled(signal.SIGTERM)
        await task
        assert list(tmp_path.iterdir()) == []

    asyncio.run(story())


def test_a_ready_file_that_cannot_be_written_is_reported(tmp_path: Path) -> None:
    async def story() -> None:
        harness = Harness(Settings(memory=True, ready_file=str(tmp_path / "absent" / "ready.json")))
        with pytest.raises(ServeError, match=r"cannot write the ready file .*: No such file or directory"):
            await harness.server.serve()
        assert harness.parts.story[-1] == "queue closed"

    asyncio.run(story())


@pytest.mark.parametrize(
    ("pid", "stays"), [(os.getppid(), True), (os.getpid(), False), (2**22 + 1, False)], ids=["another", "this", "none"]
)
def test_only_the_ready_file_of_a_living_server_stays(tmp_path: Path, pid: int, stays: bool) -> None:
    """A failed start does not remove the ready file of another server."""
    ready_file = tmp_path / "ready.json"
    ready_file.write_text(json.dumps({"pid": pid, "http": "127.0.0.1:1"}))
    harness: list[Harness] = []

    async def story() -> None:
        harness.append(
            Harness(Settings(memory=True, ready_file=str(ready_file)), second_door=OSError(errno.EACCES, ""))
        )
        with pytest.raises(ServeError):
            await harness[0].server.serve()

    asyncio.run(story())
    assert ready_file.exists() is stays


def test_listening_beyond_this_machine_is_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    async def story() -> None:
        harness = Harness(Settings(memory=True, host="0.0.0.0"))
        task = await harness.begin()
        harness.server.signalled(signal.SIGTERM)
        await task

    asyncio.run(story())
    assert "listening on 0.0.0.0: these ports need no authentication: http" in caplog.text


def test_the_ready_file_can_be_changed_by_its_owner_only(tmp_path: Path) -> None:
    """Programs that wait for the file must be able to trust its addresses, even at umask 0."""

    async def story() -> None:
        harness = Harness(Settings(memory=True, ready_file=str(tmp_path / "ready")))
        task = await harness.begin()
        assert stat.S_IMODE((tmp_path / "ready").stat().st_mode) == 0o644
        harness.server.signalled(signal.SIGTERM)
        await task

    before = os.umask(0)
    try:
        asyncio.run(story())
    finally:
        os.umask(before)


def test_the_server_runs_without_uvloop(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "uvloop", None)
    assert server_module._loop_factory() is None

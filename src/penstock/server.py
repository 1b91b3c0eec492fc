"""The server process: it opens the store and the doors, waits for a signal, and closes everything in order.

    open the parts -> start the doors -> banner and ready file -> wait for a signal or a journal failure
    -> no longer ready -> stop the doors -> close the queue

Every failure ends with one sentence and an exit code (1 operational, 3 the journal failed). Everything that was opened
is closed, and a failed start leaves no files behind.
"""

from __future__ import annotations

import asyncio
import errno
import gc
import json
import logging
import os
import signal
import sys
import time
from collections.abc import Awaitable, Callable, Coroutine, Mapping, Sequence
from contextlib import suppress
from functools import partial
from inspect import isawaitable
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, TypeAlias

from penstock.banner import banner, recovery_sentence
from penstock.doors.port import OPEN, STARTING, STOPPING, Door, join_address
from penstock.errors import PenstockError, where
from penstock.memory import calm_collector, trim_when_quiet
from penstock.seeding.topology import SeedError
from penstock.settings import SETTINGS, Settings
from penstock.terminal import safe_text
from penstock.wire.hosts import is_loopback
from penstock.wire.probe import is_penstock, listens

if TYPE_CHECKING:
    from penstock.assembly import Parts

EXIT_OPERATIONAL, EXIT_USAGE, EXIT_JOURNAL_FAILED = 1, 2, 3

log = logging.getLogger("penstock.server")

OpenParts: TypeAlias = "Callable[[Settings], Parts | Awaitable[Parts]]"


class ServeError(Exception):
    """The server cannot continue. The text is the sentence that the operator sees."""

    def __init__(self, sentence: str, code: int = EXIT_OPERATIONAL) -> None:
        super().__init__(sentence)
        self.code = code


def run(
    settings: Settings,
    open_parts: OpenParts,
    *,
    out: TextIO | None = None,
    err: TextIO | None = None,
    flags: Mapping[str, str] | None = None,
    announce: Callable[[Mapping[str, str]], None] = lambda _: None,
) -> int:
    """Run until a signal or a failure, and return the exit code. The caller has set up logging.

    `flags` maps settings to the flags of this command line, if they have other names. "" for the ready file means that
    the command chose the file, and that a new server may replace it. `announce` is called with the address of every
    door when the server is ready.
    """
    server = Server(settings, open_parts, out=out or sys.stdout, flags=flags, announce=announce)
    calm_collector()
    try:
        with asyncio.Runner(loop_factory=_loop_factory()) as runner:
            code = runner.run(server.serve())
        log.info("stopped")
        return code
    except ServeError as error:
        print(f"penstock: {safe_text(str(error))}", file=err or sys.stderr)
        return error.code


class Server:
    def __init__(
        self,
        settings: Settings,
        open_parts: OpenParts,
        *,
        out: TextIO,
        exit_now: Callable[[int], Any] = os._exit,
        flags: Mapping[str, str] | None = None,
        announce: Callable[[Mapping[str, str]], None] = lambda _: None,
    ) -> None:
        self._settings = settings
        self._open_parts = open_parts
        self._out = out
        self._exit_now = exit_now
        self._tell = announce
        self._flags = {name: setting.flag for name, setting in SETTINGS.items()} | dict(flags or {})
        self._wrote_ready_file = False
        self._stop = asyncio.Event()

    async def serve(self) -> int:
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            with suppress(NotImplementedError, RuntimeError, ValueError):  # Windows, or not the main thread
                loop.add_signal_handler(number, self.signalled, number)
        await self._check_ready_file()
        parts = await self._open()
        started: list[Door] = []
        failed = False
        try:
            for door in parts.doors:
                parts.condition.doors[door.name] = STARTING
            for door in parts.doors:
                await self._start(door)
                started.append(door)
                parts.condition.doors[door.name] = OPEN
            gc.freeze()  # the garbage collector need not check these objects again
            self._announce(parts)
            return await self._wait(parts)
        except ServeError:
            failed = True
            raise
        finally:
            await self._close(parts, started, undo=failed)

    def signalled(self, number: int) -> None:
        """Stop in order after the first signal, and at once after the second. Accepted messages are durable anyway."""
        if self._stop.is_set():
            self._remove_ready_file()
            self._exit_now(128 + number)
        self._stop.set()

    async def _open(self) -> Parts:
        try:
            opened = self._open_parts(self._settings)
            return await opened if isawaitable(opened) else opened
        except SeedError as error:
            raise ServeError(error.message, EXIT_USAGE) from error
        except PenstockError as error:
            raise ServeError(error.message) from error
        except OSError as error:
            raise ServeError(f"cannot use the data folder {self._settings.data}: {_reason(error)}") from error

    async def _start(self, door: Door) -> None:
        try:
            await door.start()
        except PenstockError as error:
            raise ServeError(f"cannot open {door.name}: {error.message}") from error
        except OSError as error:
            raise ServeError(f"cannot open {door.name}: {await self._obstacle(door.name, error)}") from error

    async def _obstacle(self, door: str, error: OSError) -> str:
        """Return why a door cannot listen on its port, and the flag that changes it."""
        host, port = self._settings.host, self._settings.port_of(door) or 0
        listener, flag = join_address(host, port), self._flags[f"{door}_port"]
        if error.errno == errno.EADDRINUSE:
            holder = "another Penstock" if await is_penstock(door, host, port) else "another program"
            return f"{holder} listens on {listener}; choose another port with {flag} (0 means any free port)"
        at_fault = flag if error.errno == errno.EACCES else self._flags["host"]
        return f"{listener}: {_reason(error)}; choose another with {at_fault}"

    def _announce(self, parts: Parts) -> None:
        doors = parts.doors
        if not is_loopback(self._settings.host):
            log.warning("%s", _exposure(self._settings.host, doors))
        if not self._settings.memory:
            log.info("%s", recovery_sentence(parts.condition.recovered))
        self._write_ready_file(doors)
        with suppress(OSError):  # standard output may be closed
            self._tell({door.name: door.address for door in doors})
            self._out.write(banner(self._settings, doors, parts.condition))
            self._out.flush()
        log.info("ready: %s", ", ".join(f"{door.name} {door.address}" for door in doors) or "no port is open")

    async def _wait(self, parts: Parts) -> int:
        stop: asyncio.Future[Any] = asyncio.ensure_future(self._stop.wait())
        failed: asyncio.Future[Any] = parts.queue.failed
        trimming = asyncio.ensure_future(trim_when_quiet())
        try:
            await asyncio.wait({stop, failed}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            stop.cancel()
            trimming.cancel()
        if not failed.done():
            log.info("stopping")
            return 0
        parts.condition.failed = True
        log.critical("the journal failed, and the server stops: %s", failed.result())
        return EXIT_JOURNAL_FAILED

    async def _close(self, parts: Parts, started: Sequence[Door], *, undo: bool) -> None:
        parts.condition.stopping = True
        for door in started:
            parts.condition.doors[door.name] = STOPPING
        self._remove_ready_file()
        until = time.monotonic() + self._settings.grace_seconds
        stops = [asyncio.ensure_future(self._stop_door(door, until)) for door in started[1:]]
        await asyncio.sleep(0)  # lets every door tell its clients
        parts.queue.stop_waiting()
        if parts.faults is not None:
            parts.faults.clear()  # releases held calls
        await asyncio.gather(*stops)
        for door in started[:1]:
            await self._stop_door(door, until)
        if undo:  # after closing the doors, because open doors may have accepted messages
            parts.undo()
        await _log_failure(parts.queue.close(), "closing the queue")

    async def _stop_door(self, door: Door, until: float) -> None:
        await _log_failure(door.stop(max(0.0, until - time.monotonic())), f"closing {door.name}")

    def _write_ready_file(self, doors: Sequence[Door]) -> None:
        if self._settings.ready_file is None:
            return
        path = Path(self._settings.ready_file)
        content = {"pid": os.getpid(), **{door.name: door.address for door in doors}}
        temporary = path.with_name(f"{path.name}.{os.getpid()}.tmp")
        try:
            with open(temporary, "w", encoding="utf-8", opener=partial(os.open, mode=0o644)) as file:
                file.write(json.dumps(content) + "\n")
            temporary.replace(path)  # a reader that waits for the file never sees half of it
            self._wrote_ready_file = True
        except OSError as error:
            with suppress(OSError):
                temporary.unlink(missing_ok=True)
            raise ServeError(f"cannot write the ready file {path}: {_reason(error)}") from error

    async def _check_ready_file(self) -> None:
        """Remove the ready file of a killed server, and refuse to replace the file of a running server.

        A program that waits for the file must not find old addresses, and clients of the other server must not be sent
        to this one.
        """
        path = self._settings.ready_file
        pid, addresses = _read_ready_file(path)
        if path is None or pid is None:  # missing, or not written by a server
            return
        if pid == os.getpid() or not _is_running(pid):  # in a container every server has the same pid
            _remove(path)
            return
        flag = self._flags["ready_file"]
        for address in addresses if flag else ():  # another program may have the pid now
            if await listens(address):
                raise ServeError(
                    f"the ready file {path} belongs to a running server (process {pid}); choose another with {flag}"
                )

    def _remove_ready_file(self) -> None:
        path = self._settings.ready_file
        if path is not None and self._wrote_ready_file and _read_ready_file(path)[0] == os.getpid():
            _remove(path)


def _exposure(host: str, doors: Sequence[Door]) -> str:
    """Return a warning about the clients of a server that other machines can reach."""
    unguarded = [door.name for door in doors if not door.guarded]
    if not unguarded:
        return f"listening on {host}: every port requires authentication"
    return f"listening on {host}: these ports need no authentication: {', '.join(unguarded)}"


async def _log_failure(step: Coroutine[Any, Any, None], what: str) -> None:
    """Run one step of closing. Log a failure, so that the next steps run."""
    try:
        await step
    except PenstockError as error:
        log.error("%s: %s", what, error.message)
    except Exception as error:  # noqa: BLE001 - the next part must close, too
        log.error("%s failed: %s", what, where(error))


def _read_ready_file(path: str | None) -> tuple[int | None, list[str]]:
    """Return the pid and the addresses in a ready file. None means that there is no valid file."""
    with suppress(OSError, ValueError, AttributeError):
        content = json.loads(Path(path or "").read_bytes())
        pid = content.pop("pid", None)
        if isinstance(pid, int):
            return pid, [str(address) for address in content.values()]
    return None, []


def _remove(path: str) -> None:
    with suppress(OSError):
        Path(path).unlink(missing_ok=True)


def _is_running(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except OSError:  # a process of another user
        return True
    return True


def _reason(error: OSError) -> str:
    """Return the system's message, without the longer text that asyncio puts before it."""
    return os.strerror(error.errno) if error.errno and error.errno > 0 else str(error)


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    try:
        import uvloop
    except ImportError:
        return None
    return uvloop.new_event_loop

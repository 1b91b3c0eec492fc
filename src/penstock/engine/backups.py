"""A backup of the store while it is in use: the process that copies it, and what that says.

The copying is a process of its own so that it takes nothing of the broker's time; it ends with whoever listens to it.
"""

from __future__ import annotations

import asyncio
import logging
import sys
from collections.abc import AsyncGenerator
from contextlib import suppress

import msgspec

from penstock import errors
from penstock.journal.port import BackupProgress, BackupReport, Journal

log = logging.getLogger("penstock")


class Failure(msgspec.Struct):
    kind: str
    message: str
    where: str = ""


class Line(msgspec.Struct):
    """What the process prints: one of these."""

    progress: BackupProgress | None = None
    backup: BackupReport | None = None
    error: Failure | None = None


_decoder = msgspec.json.Decoder(Line)


class Backups:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._running = False

    async def run(self, folder: str) -> AsyncGenerator[BackupProgress | BackupReport, None]:
        """The last is the report; a failure is raised. To leave the loop early stops the backup."""
        command = self._journal.backup_command()
        if self._running:
            raise errors.FailedPreconditionError("Another backup is running; one at a time.")
        self._running, report = True, None
        try:
            process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                *command,
                folder,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.PIPE,
                start_new_session=True,  # a Ctrl-C is for the server alone
            )
            try:
                async for line in _lines_of(process):
                    report = line.backup or report
                    if line.progress is not None:
                        yield line.progress
            finally:
                await _end(process)
        finally:
            self._running = False
        if report is None:
            raise errors.UnavailableError("The process that writes the backup ended before it was done.")
        yield report  # whoever has it may begin the next one


async def _lines_of(process: asyncio.subprocess.Process) -> AsyncGenerator[Line, None]:
    assert process.stdout is not None, "it is a pipe"
    while text := await process.stdout.readline():
        line = _decoder.decode(text)
        if line.error is not None:
            raise _raised(line.error)
        yield line


def _raised(failure: Failure) -> errors.PenstockError:
    if failure.where:
        log.error("A backup met a bug: %s", failure.where)
    kind = getattr(errors, failure.kind, errors.InternalError)
    error: errors.PenstockError = kind(failure.message)
    return error


async def _end(process: asyncio.subprocess.Process) -> None:
    """Whatever it has written that is no backup yet, it removes; what it cannot, the next one does."""
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(5):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

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

END_SECONDS = 5.0  # to remove what is not finished


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
        self._running, report, failure = True, None, None
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
            ended = False
            try:
                async for line in _lines_of(process):
                    report, failure = line.backup or report, line.error or failure
                    if line.progress is not None:
                        yield line.progress
                ended = True
            finally:
                await _end(process, ended)
        finally:
            self._running = False
        if failure is not None:
            raise _raised(failure)
        if report is None:
            raise errors.UnavailableError("The process that writes the backup ended before it was done.")
        yield report  # whoever has it may begin the next one


async def _lines_of(process: asyncio.subprocess.Process) -> AsyncGenerator[Line, None]:
    assert process.stdout is not None, "it is a pipe"
    while text := await process.stdout.readline():
        yield _decoder.decode(text)


def _raised(failure: Failure) -> errors.PenstockError:
    if failure.where:
        log.error("A backup met a bug: %s", failure.where)
    kind = getattr(errors, failure.kind, errors.InternalError)
    error: errors.PenstockError = kind(failure.message)
    return error


async def _end(process: asyncio.subprocess.Process, ended: bool) -> None:
    """Whatever it has written that is no backup yet, it removes; what it cannot, the next one does."""
    if not ended:  # asking one that has ended by itself could take its exit code from whoever waits for it
        with suppress(ProcessLookupError):
            process.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

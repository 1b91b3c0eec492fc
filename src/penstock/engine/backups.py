"""Backups of a store in use: the process that copies the store, and its output.

The copy runs in its own process, so that it takes none of the broker's time. It ends when its caller stops listening.
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

END_SECONDS = 5.0  # for the process to remove an unfinished backup


class Failure(msgspec.Struct):
    kind: str
    message: str
    where: str = ""


class Line(msgspec.Struct):
    """A line that the process prints. One field is set."""

    progress: BackupProgress | None = None
    backup: BackupReport | None = None
    error: Failure | None = None


_decoder = msgspec.json.Decoder(Line)


class Backups:
    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._running = False

    async def run(self, folder: str) -> AsyncGenerator[BackupProgress | BackupReport, None]:
        """Yield the progress, and the report at the end. Leaving the loop early stops the backup."""
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
            raise _error_of(failure)
        if report is None:
            raise errors.UnavailableError("The process that writes the backup ended before it was done.")
        yield report  # after it the caller may begin the next backup


async def _lines_of(process: asyncio.subprocess.Process) -> AsyncGenerator[Line, None]:
    assert process.stdout is not None, "it is a pipe"
    while text := await process.stdout.readline():
        yield _decoder.decode(text)


def _error_of(failure: Failure) -> errors.PenstockError:
    if failure.where:
        log.error("A backup met a bug: %s", failure.where)
    kind = getattr(errors, failure.kind, errors.InternalError)
    error: errors.PenstockError = kind(failure.message)
    return error


async def _end(process: asyncio.subprocess.Process, ended: bool) -> None:
    """Stop the process, which removes an unfinished backup. The next backup removes what is left."""
    if not ended:  # signalling a process that has ended could take its exit code from the waiting caller
        with suppress(ProcessLookupError):
            process.terminate()
    try:
        async with asyncio.timeout(END_SECONDS):
            await process.wait()
    except TimeoutError:
        with suppress(ProcessLookupError):
            process.kill()
        await process.wait()

"""Backups over the admin API: the server writes one where the caller says, within what the operator allows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import msgspec

from penstock.doors.http.admin.access import from_here
from penstock.doors.http.admin.calls import NDJSON_TYPE, Call, NoQuery, Route
from penstock.doors.http.admin.records import Count
from penstock.doors.http.errors import status_of
from penstock.engine.port import BackupProgress, BackupReport
from penstock.errors import InvalidArgumentError, PenstockError, PermissionDeniedError
from penstock.wire.http1 import Response

NOT_BELOW = "This server writes backups below the folder of its setting backup_folder only; name one below it."
NOT_FROM_AFAR = (
    "From another machine a folder can be named below the one of the setting backup_folder, which is not set."
)


class BackupBody(msgspec.Struct, forbid_unknown_fields=True):
    """`folder` is below the setting backup_folder, or without that setting a folder of the caller's machine, which is
    the server's: a whole path, or one from `working_folder` on."""

    folder: str
    working_folder: str = ""


class Progress(msgspec.Struct):
    step: str
    bytes: Count
    total_bytes: Count


class Backup(msgspec.Struct):
    number: Count
    time: str
    commit: Count
    topics: Count
    messages: Count
    files: Count
    copied_bytes: Count
    taken_over_bytes: Count


class Failure(msgspec.Struct):
    code: int
    message: str


class BackupLine(msgspec.Struct, omit_defaults=True):
    """One of these: lines of progress, at the end the backup or why there is none."""

    progress: Progress | None = None
    backup: Backup | None = None
    error: Failure | None = None


async def make_backup(call: Call[NoQuery, BackupBody]) -> Response:
    folder = allowed_folder(call.body, call.context.backup_folder, local=from_here(call.request))
    news = call.queue.backup(str(folder))
    try:
        first = await anext(news)  # so that most refusals are answers of their own
    except BaseException:
        await news.aclose()
        raise
    return Response(200, (("Content-Type", NDJSON_TYPE), ("Cache-Control", "no-store")), parts=_lines(first, news))


def allowed_folder(given: BackupBody, below: str | None, *, local: bool) -> Path:
    """Where a caller may have a backup written; links count by where they lead."""
    if not given.folder.strip() or not (given.folder + given.working_folder).isprintable():
        raise InvalidArgumentError("folder must be the path of a folder")
    if below is None:
        if not local:
            raise PermissionDeniedError(NOT_FROM_AFAR)
        folder = Path(given.working_folder) / given.folder
        if not folder.is_absolute():
            raise InvalidArgumentError("folder must be a whole path, from the root on")
        return folder
    try:
        root = Path(below).resolve()
        folder = (root / given.folder).resolve()
    except (OSError, RuntimeError):  # links that lead in a circle, a name that is too long
        raise InvalidArgumentError("folder must be the path of a folder") from None
    if not folder.is_relative_to(root):
        raise PermissionDeniedError(NOT_BELOW)
    return folder


async def _lines(
    first: BackupProgress | BackupReport, news: AsyncGenerator[BackupProgress | BackupReport, None]
) -> AsyncGenerator[bytes, None]:
    async with aclosing(news):
        yield _line(first)
        try:
            async for each in news:
                yield _line(each)
        except PenstockError as error:
            yield _encoded(BackupLine(error=Failure(status_of(error) or 500, error.message)))


def _line(news: BackupProgress | BackupReport) -> bytes:
    if isinstance(news, BackupReport):
        return _encoded(BackupLine(backup=Backup(*news)))
    return _encoded(BackupLine(progress=Progress(*news)))


def _encoded(line: BackupLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


ROUTES = (
    Route(
        "POST",
        "/backup",
        make_backup,
        "Back up the store into a folder of the server's machine, while it runs.",
        BackupLine,
        body=BackupBody,
        media=NDJSON_TYPE,
    ),
)

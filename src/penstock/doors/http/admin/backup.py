"""Backups over the admin API: the server writes one into a folder that the operator allows."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import msgspec

from penstock.doors.http.admin.calls import NDJSON_TYPE, Call, NoQuery, route
from penstock.doors.http.admin.records import Count
from penstock.doors.http.errors import status_of
from penstock.engine.port import BackupProgress, BackupReport
from penstock.errors import InvalidArgumentError, PenstockError, PermissionDeniedError
from penstock.wire.hosts import is_from_here
from penstock.wire.http1 import Response

NOT_BELOW = "This server writes backups only below the folder of its setting backup_folder; name a folder below it."
NOT_FROM_AFAR = "Backups from another machine need the setting backup_folder, which is not set."


class BackupBody(msgspec.Struct, forbid_unknown_fields=True):
    """`folder`: a folder below the setting backup_folder. Without that setting, the client must be on the server's
    machine, and `folder` is an absolute path, or relative to `working_folder`."""

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
    """A line of the answer: progress, and at the end the backup or an error."""

    progress: Progress | None = None
    backup: Backup | None = None
    error: Failure | None = None


async def make_backup(call: Call[NoQuery, BackupBody]) -> Response:
    folder = allowed_folder(call.body, call.context.backup_folder, local=is_from_here(call.request))
    news = call.queue.backup(str(folder))
    try:
        first = await anext(news)  # so that most errors have their own status
    except BaseException:
        await news.aclose()
        raise
    return Response(200, (("Content-Type", NDJSON_TYPE), ("Cache-Control", "no-store")), parts=_lines(first, news))


def allowed_folder(given: BackupBody, below: str | None, *, local: bool) -> Path:
    """Return the folder for a backup, if the caller may write one there. Symbolic links are resolved."""
    if not given.folder.strip() or not (given.folder + given.working_folder).isprintable():
        raise InvalidArgumentError("folder must be the path of a folder")
    if below is None:
        if not local:
            raise PermissionDeniedError(NOT_FROM_AFAR)
        folder = Path(given.working_folder) / given.folder
        if not folder.is_absolute():
            raise InvalidArgumentError("folder must be an absolute path")
        return folder
    try:
        root = Path(below).resolve()
        folder = (root / given.folder).resolve()
    except (OSError, RuntimeError):  # circular links, or a name that is too long
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
            async for event in news:
                yield _line(event)
        except PenstockError as error:
            yield _encode(BackupLine(error=Failure(status_of(error) or 500, error.message)))


def _line(news: BackupProgress | BackupReport) -> bytes:
    if isinstance(news, BackupReport):
        return _encode(BackupLine(backup=Backup(*news)))
    return _encode(BackupLine(progress=Progress(*news)))


def _encode(line: BackupLine) -> bytes:
    return msgspec.json.encode(line) + b"\n"


ROUTES = (
    route(
        "POST",
        "/backup",
        make_backup,
        "Back up the store to a folder on the server's machine while the server runs.",
        answer=BackupLine,
        media=NDJSON_TYPE,
    ),
)

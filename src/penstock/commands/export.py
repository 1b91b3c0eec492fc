"""`penstock export` and `penstock import`: messages of a topic as JSON lines or Parquet, with their exact bytes.

The publish-once keys of an import follow from the content of the file up to each message. An import that was
interrupted can be started again, also after a wrong line was corrected, and publishes no message twice.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, BinaryIO

import click

from penstock.commands.batch_publisher import BatchPublisher
from penstock.commands.exit_codes import FAILED, PARTLY_DONE, WrongUsageError, complain
from penstock.commands.help import command
from penstock.commands.messages import messages, start_option
from penstock.commands.output import chunks
from penstock.commands.parameters import argument, count_option, retry_option
from penstock.commands.parquet import parquet_drafts, parquet_writer
from penstock.commands.progress import Progress
from penstock.commands.prompts import confirm
from penstock.commands.session import Session, on_server, path_of, topic_argument, with_conditions
from penstock.commands.value_parsers import Window, parse_duration, parse_window, utc_now
from penstock.errors import FailedPreconditionError, InvalidArgumentError, PenstockError
from penstock.terminal import safe_json
from penstock.wording import counted

ROWS = 1000
OWNER_ONLY = 0o600  # mode of an exported file
LINE_BYTES_MAX = 64 << 20  # enough for a message of 10 MiB, however it is escaped
FIELDS = {"data", "data_base64", "attributes", "ordering_key", "delay_seconds", "ttl_seconds"}

parquet_option = click.option("--parquet", is_flag=True, help="Use Parquet even if FILE does not end with .parquet.")

overwrite_option = click.option("overwrite", "--yes", "-y", "--force", is_flag=True, help="Replace FILE if it exists.")


@command()
@on_server
@topic_argument
@argument("file", metavar="FILE", default="-", help="File to write. - means standard output.")
@start_option
@count_option("most", "--count", "-c", "-n")
@parquet_option
@overwrite_option
@with_conditions
def export(
    session: Session,
    topic: str,
    file: str,
    *,
    start: tuple[str, ...],
    most: int,
    parquet: bool,
    overwrite: bool,
    **conditions: str | None,
) -> None:
    """Write messages of a topic to a file, without consuming them.

    The format is one JSON object per line, or Parquet. A body is in data if it is UTF-8, else in data_base64. The
    export is written to FILE.part and renamed when it is complete. Only the owner can read the file. An existing file
    is replaced only with --yes.

      penstock export orders orders.jsonl -o @-1d
      penstock export orders orders.parquet
      penstock export orders - | gzip > orders.jsonl.gz
    """
    _check_target(file, _is_parquet(file, parquet), overwrite)
    record = session.get(path_of("topics", topic))
    query = parse_window(start, utc_now(), Window(first=0)).query(record["next_offset"])
    query |= {**conditions, "max": most}
    written = 0
    with ExitStack() as stack:
        out = stack.enter_context(_target(file))
        write = stack.enter_context(parquet_writer(out)) if _is_parquet(file, parquet) else _json_writer(out)
        bar = stack.enter_context(Progress("Exporting", record["next_offset"] - record["first_offset"]))
        rows = stack.enter_context(closing(messages(session, topic, query, bar=bar)))
        for batch in chunks(rows, ROWS):
            write(batch)
            written += len(batch)
    if file != "-":
        session.output.say(f"Exported {counted(written, 'message')} to {file}", {"exported": written, "file": file})


def _is_parquet(file: str, is_forced: bool) -> bool:
    return is_forced or file.endswith(".parquet")


def _json_writer(out: BinaryIO) -> Callable[[list[dict[str, Any]]], None]:
    import msgspec

    encoder = msgspec.json.Encoder()
    shown = out is sys.stdout.buffer and sys.stdout.isatty()

    def write(rows: list[dict[str, Any]]) -> None:
        lines = encoder.encode_lines(rows)
        out.write(safe_json(lines.decode()).encode() if shown else lines)

    return write


def _check_target(file: str, parquet: bool, overwrite: bool) -> None:
    """Refuse a target that cannot or should not be written, before the server is called."""
    if file == "-":
        if parquet and sys.stdout.isatty():
            raise WrongUsageError("Parquet is a binary format. Give a FILE, or redirect the output")
        return
    target = Path(file)
    if target.is_dir():
        raise WrongUsageError(f"Cannot write {file}: it is a folder")
    if target.exists() and not target.is_file():
        raise WrongUsageError(f"Cannot write {file}: it is not a regular file. Use - for standard output")
    if target.exists() or target.is_symlink():
        confirm(f"Overwrite {file}?", overwrite)


@contextmanager
def _target(file: str) -> Iterator[BinaryIO]:
    """Open FILE.part, and rename it to FILE at the end. `-` is standard output."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = Path(f"{file}.part")
    try:
        part.unlink(missing_ok=True)  # left by an export that was killed, or a link to another file
        out = os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, OWNER_ONLY), "wb")
    except OSError as error:
        raise WrongUsageError(f"Cannot write {part}: {error.strerror}") from None
    try:
        with out:
            yield out
            out.flush()
            os.fsync(out.fileno())
        part.replace(file)
    except OSError as error:
        raise FailedPreconditionError(f"Cannot write {part}: {error.strerror}") from None
    finally:
        part.unlink(missing_ok=True)


# ---------------------------------------------------------------------- import


@command("import")
@on_server
@topic_argument
@argument("file", metavar="FILE", default="-", help="File to read. - means standard input.")
@parquet_option
@click.option(
    "--again", is_flag=True, help="Publish all messages again, including those that an earlier import published."
)
@retry_option
def import_(session: Session, topic: str, file: str, *, parquet: bool, again: bool, retry: str) -> None:
    """Publish the messages of a file in the format of penstock export.

    A line is a JSON object with data or data_base64, and optionally attributes and ordering_key. Other fields are
    ignored. The import stops at the first invalid line, with exit code 5 if messages were published before it. Run the
    same command again to continue: messages that were already imported from this file are not published twice. Messages
    from standard input are always published.
    """
    next_offset = session.get(path_of("topics", topic))["next_offset"]
    by_content = not again and file != "-"
    patience = parse_duration(retry, "--retry")
    publisher = BatchPublisher(session, topic, retry_seconds=patience, by_content=by_content, exported=True)
    before = 0
    try:
        with Progress("Importing", _lines_in(file, parquet)) as bar:
            for ids in publisher.send_all(_drafts(file, parquet)):
                bar.add(len(ids))
                before += len(ids) if publisher.first_offset < next_offset else 0
    except (PenstockError, KeyboardInterrupt) as error:
        if not publisher.sent:
            raise
        goes_on = ". Run the same command again to continue" if by_content else ""
        sentence = getattr(error, "message", "Interrupted")
        complain(f"{sentence}. Imported {counted(publisher.sent, 'message')} before that{goes_on}")
        raise click.exceptions.Exit(PARTLY_DONE) from None
    done = {"imported": publisher.sent - before, "there_before": before}
    was_there = f", {before:,} were imported earlier" if before else ""
    session.output.say(f"Imported {counted(publisher.sent - before, 'message')}{was_there}", done)
    if not publisher.sent:
        complain(f"{file} contains no messages")
        raise click.exceptions.Exit(FAILED)


def _lines_in(file: str, parquet: bool) -> int | None:
    if file == "-":
        return None
    try:
        with Path(file).open("rb") as lines:
            return sum(1 for _ in lines) if not _is_parquet(file, parquet) else None
    except OSError as error:
        raise WrongUsageError(f"Cannot read {file}: {error.strerror}") from None


def _drafts(file: str, parquet: bool) -> Iterator[dict[str, Any]]:
    if _is_parquet(file, parquet):
        yield from parquet_drafts(file)
        return
    with ExitStack() as stack:
        lines = sys.stdin.buffer if file == "-" else stack.enter_context(Path(file).open("rb"))
        for number, line in enumerate(iter(partial(lines.readline, LINE_BYTES_MAX + 1), b""), 1):
            if len(line) > LINE_BYTES_MAX:
                raise InvalidArgumentError(f"Line {number} is longer than {LINE_BYTES_MAX >> 20} MiB")
            if line.strip():
                yield read_line(line, number)


def read_line(line: bytes, number: int) -> dict[str, Any]:
    """Return the message in a line as the admin API takes it. Errors name the line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidArgumentError(f"Line {number} is not JSON") from None
    if not isinstance(row, dict):
        raise InvalidArgumentError(f"Line {number} is not an object")
    kept = {name: row[name] for name in FIELDS if row.get(name) is not None}
    if not isinstance(kept.get("data", ""), str):
        raise InvalidArgumentError(f"Line {number}: data must be text. Use data_base64 for binary data")
    if ("data" in kept) == ("data_base64" in kept):
        raise InvalidArgumentError(f"Line {number} must have either data or data_base64")
    return kept

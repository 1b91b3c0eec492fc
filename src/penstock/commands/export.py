"""`penstock export` and `penstock import`: messages of a topic as JSON lines or Parquet, with their exact bytes.

An import is published under keys that follow from the content of the file up to there, so that one that was broken off
can be started again, also after what stopped it was corrected: what is there already is not published twice.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import partial
from pathlib import Path
from typing import Annotated, Any, BinaryIO

import typer

from penstock.commands.exits import FAILED, PARTLY_DONE, WrongUsageError, complain
from penstock.commands.output import chunks
from penstock.commands.parquet import parquet_drafts, parquet_writer
from penstock.commands.progress import Progress
from penstock.commands.reading import Start, messages
from penstock.commands.sending import Sender
from penstock.commands.session import Conditions, Session, Topic, on_server, path_of, with_conditions
from penstock.commands.times import Window, local_now, seconds, window
from penstock.errors import FailedPreconditionError, InvalidArgumentError, PenstockError
from penstock.wording import counted

ROWS = 1000
LINE_BYTES_MAX = 64 << 20  # a message of 10 MiB is below it, however it is escaped
FIELDS = {"data", "data_base64", "attributes", "ordering_key", "delay_seconds", "ttl_seconds"}

FileArgument = Annotated[str, typer.Argument(metavar="FILE", help="- is standard output or input.")]
Parquet = Annotated[bool, typer.Option("--parquet", help="As Parquet, also where FILE does not end with .parquet.")]


@on_server
@with_conditions
def export(
    session: Session,
    topic: Topic,
    file: FileArgument = "-",
    *,
    start: Start = None,
    most: Annotated[int, typer.Option("--count", "-c", "-n", metavar="N", help="At most so many; 0: all.", min=0)] = 0,
    parquet: Parquet = False,
    conditions: Conditions,
) -> None:
    """Write messages of a topic to a file, and consume nothing.

    JSON lines: data where the body is UTF-8, else data_base64. A file is complete when it has its name; until then it
    is called FILE.part.

      penstock export orders orders.jsonl -o @-1d
      penstock export orders orders.parquet
      penstock export orders - | gzip > orders.jsonl.gz
    """
    known = session.get(path_of("topics", topic))
    query = window(start or [], local_now(), Window(first=0)).query(known["next_offset"])
    query |= {**conditions, "max": most}
    written = 0
    with ExitStack() as stack:
        out = stack.enter_context(_target(file))
        write = stack.enter_context(parquet_writer(out)) if _is_parquet(file, parquet) else _json_writer(out)
        bar = stack.enter_context(Progress("Exporting", known["next_offset"] - known["first_offset"]))
        found = stack.enter_context(closing(messages(session, topic, query, bar=bar)))
        for some in chunks(found, ROWS):
            write(some)
            written += len(some)
    if file != "-":
        session.output.say(f"Exported {counted(written, 'message')} to {file}", {"exported": written, "file": file})


def _is_parquet(file: str, asked: bool) -> bool:
    return asked or file.endswith(".parquet")


def _json_writer(out: BinaryIO) -> Callable[[list[dict[str, Any]]], None]:
    import msgspec

    encoder = msgspec.json.Encoder()

    def write(rows: list[dict[str, Any]]) -> None:
        out.write(encoder.encode_lines(rows))

    return write


@contextmanager
def _target(file: str) -> Iterator[BinaryIO]:
    """A file that gets its name when all is written; standard output for `-`."""
    if file == "-":
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    part = Path(f"{file}.part")
    if Path(file).is_dir():
        raise WrongUsageError(f"Cannot write {file}: it is a folder")
    try:
        out = part.open("wb")
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


@on_server
def import_(
    session: Session,
    topic: Topic,
    file: FileArgument = "-",
    *,
    parquet: Parquet = False,
    again: Annotated[
        bool, typer.Option("--again", help="Publish also what an earlier import of this file published.")
    ] = False,
    retry: Annotated[
        str, typer.Option(metavar="DURATION", help="While the server is away, try again for so long.")
    ] = "30s",
) -> None:
    """Publish what a file holds, as JSON lines or Parquet.

    The form is that of penstock export.

    A line is an object with data or data_base64 and perhaps attributes and ordering_key; what else export wrote is left
    aside. At a wrong line it stops, with exit code 5 where something was imported before it. Started again with the
    file and the topic it goes on where it stopped, also when that line was corrected: what was imported of a file that
    begins alike is not published twice. What comes from standard input is always published.
    """
    known = session.get(path_of("topics", topic))
    by_content = not again and file != "-"
    sender = Sender(session, topic, retry_seconds=seconds(retry, "--retry"), by_content=by_content)
    before = 0
    try:
        with Progress("Importing", _lines_in(file, parquet)) as bar:
            for ids in sender.send_all(_drafts(file, parquet)):
                bar.add(len(ids))
                before += len(ids) if sender.first_offset < known["next_offset"] else 0
    except (PenstockError, KeyboardInterrupt) as error:
        if not sender.sent:
            raise
        goes_on = ", which are not published again if you start again" if by_content else ""
        sentence = getattr(error, "message", "Interrupted")
        complain(f"{sentence}; imported before that: {counted(sender.sent, 'message')}{goes_on}")
        raise typer.Exit(PARTLY_DONE) from None
    done = {"imported": sender.sent - before, "there_before": before}
    was_there = f"; {before:,} were there before" if before else ""
    session.output.say(f"Imported {counted(sender.sent - before, 'message')}{was_there}", done)
    if not sender.sent:
        complain(f"{file} holds no messages")
        raise typer.Exit(FAILED)


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
    """A message as the API takes it. What is wrong names the line."""
    try:
        row = json.loads(line)
    except (ValueError, RecursionError):
        raise InvalidArgumentError(f"Line {number} is not JSON") from None
    if not isinstance(row, dict):
        raise InvalidArgumentError(f"Line {number} is not an object")
    kept = {name: row[name] for name in FIELDS if row.get(name) is not None}
    if not isinstance(kept.get("data", ""), str):
        raise InvalidArgumentError(f"Line {number}: data is text; other bytes go into data_base64")
    if ("data" in kept) == ("data_base64" in kept):
        raise InvalidArgumentError(f"Line {number} must have data or data_base64, and not both")
    return kept

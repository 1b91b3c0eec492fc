"""`penstock publish`: messages from arguments, standard input or files, one by one or by the million."""

from __future__ import annotations

import random
import sys
import time
import uuid
from collections.abc import Iterator
from io import BufferedReader
from itertools import chain, repeat
from pathlib import Path
from threading import Event
from typing import Annotated, Any, NamedTuple, cast

import typer

from penstock.commands.exits import WrongUsageError
from penstock.commands.progress import Progress
from penstock.commands.sending import Sender, draft
from penstock.commands.session import Session, Topic, on_server, path_of
from penstock.commands.templates import fill, pairs, parse_template, render
from penstock.commands.times import local_now, seconds

READ_BYTES = 1 << 16
DAYS_MAX = 365  # of a delay, and of a time to live
BODY_BYTES_MAX = 16 << 20  # of one message; the server has a lower limit


class Keyed(NamedTuple):
    body: bytes
    key: str


@on_server
def publish(
    session: Session,
    topic: Topic,
    bodies: Annotated[
        list[str] | None,
        typer.Argument(metavar="BODY", help="One message each; - or none: lines of standard input."),
    ] = None,
    *,
    attribute: Annotated[
        list[str] | None, typer.Option("--attribute", "-H", metavar="KEY=VALUE", help="Repeat for more.")
    ] = None,
    key: Annotated[str, typer.Option("--key", "-k", metavar="KEY", help="Ordering key.")] = "",
    file: Annotated[
        list[str] | None, typer.Option("--file", metavar="FILE", help="The whole file is a message; repeat for more.")
    ] = None,
    delimiter: Annotated[
        str, typer.Option("--delimiter", "-D", metavar="TEXT", help="Between messages on standard input; '': one.")
    ] = "\\n",
    key_delimiter: Annotated[
        str, typer.Option("--key-delimiter", "-K", metavar="TEXT", help="A line is KEY, this, and the body.")
    ] = "",
    count: Annotated[int, typer.Option(metavar="N", help="Publish all of them so many times.", min=1)] = 1,
    rate: Annotated[float, typer.Option(metavar="N", help="So many a second; 0: as fast as it goes.", min=0)] = 0,
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Not delivered before so long.")] = None,
    ttl: Annotated[str | None, typer.Option(metavar="DURATION", help="Not delivered after so long.")] = None,
    raw: Annotated[bool, typer.Option("--raw", help="Leave {n} and the like in BODY as they are.")] = False,
    retry: Annotated[
        str, typer.Option(metavar="DURATION", help="While the server is away, try again for so long.")
    ] = "30s",
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="Do not print the ids.")] = False,
) -> None:
    """Publish messages and print their ids once they are durable.

    In BODY, {n} is a number that counts from 1, {uuid} a new one each time, {now} and {ms} the time, {random} a number.
    A publish that has to be tried again is taken once, whatever became of the first try.

      penstock publish orders 'hello' -H kind=greeting
      penstock publish orders '{"n": {n}, "id": "{uuid}"}' --count 1000 --rate 100
      seq 1000 | penstock publish orders -
      penstock publish photos --file a.jpg --file b.jpg -k album
    """
    _check_sources(bodies or [], file or [])
    times = {"delay_seconds": delay, "ttl_seconds": ttl}
    options = {name: _life(text, f"--{name[:-8]}") for name, text in times.items() if text is not None}
    attributes = pairs(attribute, "An attribute")
    found = _bodies(bodies or [], file or [], count, _bytes(delimiter), raw)
    keyed = _keyed(found, _bytes(key_delimiter), "File" if file else "Body" if bodies not in (None, ["-"]) else "Line")
    drafts = (draft(each.body, attributes, each.key or key, options) for each in keyed)
    known = len(bodies or file or []) * count if (bodies and "-" not in bodies) or file else None
    sender = Sender(session, topic, retry_seconds=seconds(retry, "--retry"))
    session.get(path_of("topics", topic))  # a wrong address or name is said at once, and not after the retries
    with Progress("Publishing", known) as bar:
        for ids in sender.send_all(_paced(drafts, rate), largest=_batch(rate), at_once=rate > 0):
            bar.add(len(ids))
            if not quiet:
                bar.hide()
                _print_ids(session, ids)
    if not sender.sent:
        raise WrongUsageError("There was nothing to publish: standard input is empty")


def _print_ids(session: Session, ids: list[str]) -> None:
    if session.output.json:
        for each in ids:
            session.output.line({"id": each})
    else:
        sys.stdout.write("\n".join(ids) + "\n")
        sys.stdout.flush()


def _batch(rate: float) -> int:
    """Slow publishes go one by one, fast ones ten times a second."""
    return max(1, min(1000, int(rate / 10))) if rate else 1000


def _paced(drafts: Iterator[Any], rate: float) -> Iterator[Any]:
    if not rate:
        yield from drafts
        return
    began, never = time.monotonic(), Event()
    for number, each in enumerate(drafts):
        early = began + number / rate - time.monotonic()
        if early > 0:
            never.wait(early)
        yield each


def _check_sources(bodies: list[str], files: list[str]) -> None:
    if files and bodies:
        raise WrongUsageError("Give bodies or --file, not both")
    if len(bodies) > 1 and "-" in bodies:
        raise WrongUsageError("- is standard input and stands alone: give it without other bodies")


def _life(text: str, option: str) -> float:
    found = seconds(text, option)
    if found > DAYS_MAX * 86400:
        raise WrongUsageError(f"{option} is at most {DAYS_MAX}d, not {text[:40]}")
    return found


def _bytes(text: str) -> bytes:
    """A delimiter as typed: `\\n`, `\\0`, `;`."""
    return render(parse_template(text.replace("%", "%%")), {})


def _bodies(bodies: list[str], files: list[str], count: int, delimiter: bytes, raw: bool) -> Iterator[bytes]:
    if files:
        whole = [_read_file(each) for each in files]
        yield from chain.from_iterable(repeat(whole, count))
    elif not bodies or bodies == ["-"]:
        if not bodies and sys.stdin.isatty():
            raise WrongUsageError("Give a body, or - to type messages, one a line, ended by Ctrl-D")
        if count != 1:
            raise WrongUsageError("--count needs a body or --file; standard input is read once")
        yield from _standard_input(delimiter)
    elif raw:
        yield from (each.encode() for _ in range(count) for each in bodies)
    else:
        chance = random.Random()  # noqa: S311 - to fill bodies
        for number in range(1, count + 1):
            for each in bodies:
                filled = fill(each, number, local_now(), lambda: str(uuid.uuid4()), lambda: chance.getrandbits(32))
                yield filled.encode("utf-8", "surrogateescape")


def _read_file(path: str) -> bytes:
    try:
        with Path(path).open("rb") as file:
            data = file.read(BODY_BYTES_MAX + 1)
    except OSError as error:
        raise WrongUsageError(f"Cannot read {path}: {error.strerror}") from None
    if len(data) > BODY_BYTES_MAX:
        raise WrongUsageError(f"{path} is larger than {BODY_BYTES_MAX >> 20} MiB")
    return data


def _standard_input(delimiter: bytes) -> Iterator[bytes]:
    """What stands between delimiters, as it comes; an end without one counts, an empty end does not."""
    rest, given = bytearray(), cast(BufferedReader, sys.stdin.buffer)
    while part := given.read1(READ_BYTES):
        seen = max(0, len(rest) - len(delimiter) + 1)
        rest += part
        if delimiter and rest.find(delimiter, seen) >= 0:
            *whole, rest = rest.split(delimiter)
            yield from map(bytes, whole)
        if len(rest) > BODY_BYTES_MAX:
            raise WrongUsageError(f"A message on standard input is larger than {BODY_BYTES_MAX >> 20} MiB")
    if rest or not delimiter:
        yield bytes(rest)


def _keyed(bodies: Iterator[bytes], delimiter: bytes, what: str) -> Iterator[Keyed]:
    for number, each in enumerate(bodies, 1):
        key, found, body = each.partition(delimiter) if delimiter else (b"", b"", each)
        if delimiter and not found:
            raise WrongUsageError(f"{what} {number} has no {delimiter.decode(errors='replace')!r} after its key")
        yield Keyed(body, key.decode("utf-8", "replace"))

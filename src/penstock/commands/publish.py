"""`penstock publish`: messages from arguments, standard input or files."""

from __future__ import annotations

import random
import sys
import time
import uuid
from collections.abc import Iterator, Sequence
from io import BufferedReader
from itertools import chain, repeat
from pathlib import Path
from threading import Event
from typing import Any, NamedTuple, cast

import click

from penstock.commands.batch_publisher import BatchPublisher, draft
from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.help import command
from penstock.commands.parameters import WholeNumber, argument, count_option, rate_option, retry_option
from penstock.commands.progress import Progress
from penstock.commands.session import Session, on_server, path_of, topic_argument
from penstock.commands.templates import fill, pairs, parse_template, render
from penstock.commands.value_parsers import parse_duration, utc_now
from penstock.terminal import tell

READ_BYTES = 1 << 16
STANDARD_INPUT = ("-",)  # instead of bodies
DAYS_MAX = 365  # of a delay and a time to live
BODY_BYTES_MAX = 16 << 20  # the server's own limit is lower


class Keyed(NamedTuple):
    body: bytes
    key: str


@command()
@on_server
@topic_argument
@argument(
    "bodies",
    metavar="BODY",
    nargs=-1,
    help="Body of a message. Without BODY, or with -, each line of standard input is a message.",
)
@click.option(
    "--attribute", "-H", metavar="KEY=VALUE", multiple=True, help="Attribute of the messages. Can be repeated."
)
@click.option("--key", "-k", metavar="KEY", default="", help="Ordering key of the messages.")
@click.option(
    "--file", metavar="FILE", multiple=True, help="Publish the content of this file as one message. Can be repeated."
)
@click.option(
    "--delimiter",
    "-D",
    metavar="TEXT",
    default="\\n",
    help="Separator of messages on standard input. '' reads one message.",
)
@click.option(
    "--key-delimiter",
    "-K",
    metavar="TEXT",
    default="",
    help="Separator between the ordering key and the body in each line.",
)
@count_option("--count", default=1, type=WholeNumber(min=1), help="Publish the messages N times.")
@rate_option
@click.option("--delay", metavar="DURATION", help="Deliver the messages after this time.")
@click.option("--ttl", metavar="DURATION", help="Drop messages that are not acked within this time.")
@click.option("--raw", is_flag=True, help="Do not replace {n} and other variables in BODY.")
@retry_option
@click.option("--quiet", "-q", is_flag=True, help="Do not print the ids.")
def publish(
    session: Session,
    topic: str,
    bodies: tuple[str, ...],
    *,
    attribute: tuple[str, ...],
    key: str,
    file: tuple[str, ...],
    delimiter: str,
    key_delimiter: str,
    count: int,
    rate: float,
    delay: str | None,
    ttl: str | None,
    raw: bool,
    retry: str,
    quiet: bool,
) -> None:
    """Publish messages and print their ids once they are durable.

    Variables in BODY: {n} counts from 1, {uuid} is a new UUID, {now} and {ms} are the time, {random} is a random
    number. A message is stored once, even if a failed publish is retried.

      penstock publish orders 'hello' -H kind=greeting
      penstock publish orders '{"n": {n}, "id": "{uuid}"}' --count 1000 --rate 100
      seq 1000 | penstock publish orders -
      penstock publish photos --file a.jpg --file b.jpg -k album
    """
    _check_sources(bodies, file)
    times = {"delay_seconds": delay, "ttl_seconds": ttl}
    options = {name: _read_days(text, f"--{name[:-8]}") for name, text in times.items() if text is not None}
    attributes = pairs(attribute, "An attribute")
    contents = _bodies(bodies, file, count, _bytes(delimiter), raw)
    keyed = _split_keys(
        contents, _bytes(key_delimiter), "File" if file else "Line" if bodies in ((), STANDARD_INPUT) else "Body"
    )
    drafts = (draft(message.body, attributes, message.key or key, options) for message in keyed)
    total = len(bodies or file) * count if (bodies and "-" not in bodies) or file else None
    publisher = BatchPublisher(session, topic, retry_seconds=parse_duration(retry, "--retry"))
    session.get(path_of("topics", topic))  # so that a wrong address or name fails at once, without retries
    with Progress("Publishing", total) as bar:
        for ids in publisher.send_all(_limit_rate(drafts, rate), largest=_batch(rate), at_once=rate > 0):
            bar.add(len(ids))
            if not quiet:
                bar.hide()
                _print_ids(session, ids)
    if not publisher.sent:
        raise WrongUsageError("Nothing to publish: standard input is empty")


def _print_ids(session: Session, ids: list[str]) -> None:
    if session.output.json:
        for message_id in ids:
            session.output.line({"id": message_id})
    else:
        tell("\n".join(ids), keep="\n")


def _batch(rate: float) -> int:
    """Return the size of a batch: one message at a low rate, a tenth of a second's messages at a high rate."""
    return max(1, min(1000, int(rate / 10))) if rate else 1000


def _limit_rate(drafts: Iterator[Any], rate: float) -> Iterator[Any]:
    if not rate:
        yield from drafts
        return
    began, never = time.monotonic(), Event()
    for number, item in enumerate(drafts):
        early = began + number / rate - time.monotonic()
        if early > 0:
            never.wait(early)
        yield item


def _check_sources(bodies: Sequence[str], files: Sequence[str]) -> None:
    if files and bodies:
        raise WrongUsageError("Give bodies or --file, not both")
    if len(bodies) > 1 and "-" in bodies:
        raise WrongUsageError("- means standard input and cannot be combined with other bodies")


def _read_days(text: str, option: str) -> float:
    duration = parse_duration(text, option)
    if duration > DAYS_MAX * 86400:
        raise WrongUsageError(f"{option} is at most {DAYS_MAX}d, not {text[:40]}")
    return duration


def _bytes(text: str) -> bytes:
    """Return the bytes of a delimiter as typed: `\\n`, `\\0`, `;`."""
    return render(parse_template(text.replace("%", "%%")), {})


def _bodies(bodies: Sequence[str], files: Sequence[str], count: int, delimiter: bytes, raw: bool) -> Iterator[bytes]:
    if files:
        whole = [_read_file(body) for body in files]
        yield from chain.from_iterable(repeat(whole, count))
    elif not bodies or bodies == STANDARD_INPUT:
        if not bodies and sys.stdin.isatty():
            raise WrongUsageError("Give a BODY, or - to type one message per line and end with Ctrl-D")
        if count != 1:
            raise WrongUsageError("--count needs BODY or --file. Standard input can be read only once")
        yield from _standard_input(delimiter)
    elif raw:
        yield from (body.encode() for _ in range(count) for body in bodies)
    else:
        chance = random.Random()  # noqa: S311 - to fill bodies
        for number in range(1, count + 1):
            for body in bodies:
                filled = fill(body, number, utc_now(), lambda: str(uuid.uuid4()), lambda: chance.getrandbits(32))
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
    """Yield the parts between delimiters as they arrive. The last part needs no delimiter."""
    rest, stdin = bytearray(), cast(BufferedReader, sys.stdin.buffer)
    while part := stdin.read1(READ_BYTES):
        seen = max(0, len(rest) - len(delimiter) + 1)
        rest += part
        if delimiter and rest.find(delimiter, seen) >= 0:
            *whole, rest = rest.split(delimiter)
            yield from map(bytes, whole)
        if len(rest) > BODY_BYTES_MAX:
            raise WrongUsageError(f"A message on standard input is larger than {BODY_BYTES_MAX >> 20} MiB")
    if rest or not delimiter:
        yield bytes(rest)


def _split_keys(bodies: Iterator[bytes], delimiter: bytes, what: str) -> Iterator[Keyed]:
    for number, line in enumerate(bodies, 1):
        key, separator, body = line.partition(delimiter) if delimiter else (b"", b"", line)
        if delimiter and not separator:
            raise WrongUsageError(
                f"{what} {number} has no {delimiter.decode(errors='replace')!r} after its ordering key"
            )
        yield Keyed(body, key.decode("utf-8", "replace"))

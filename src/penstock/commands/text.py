"""`penstock text send` and `penstock text consume`, for shell scripts.

Only ids or message contents go to standard output. An error is one sentence on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator

import click

from penstock.commands.help import group
from penstock.commands.parameters import Number, WholeNumber, argument
from penstock.terminal import tell, write_body

app = group(help="Send and consume over the text protocol.")

address_option = click.option(
    "--address",
    metavar="HOST:PORT|unix:PATH",
    default="127.0.0.1:9123",
    envvar="PENSTOCK_TEXT_ADDRESS",
    help="Address of the text protocol.",
)
queue_argument = argument("queue", help="Queue name.")

EXIT_FAILED = 1


@app.command()
@queue_argument
@argument("messages", nargs=-1, help="Content of a message. Without MESSAGES, standard input is one message.")
@address_option
@click.option("--lines", is_flag=True, help="Send each line of standard input as a message.")
@click.option("--quiet", is_flag=True, help="Do not print the ids.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    default=30,
    type=Number(),
    help="Stop if the server does not answer within this time.",
)
def send(queue: str, messages: tuple[str, ...], *, address: str, lines: bool, quiet: bool, timeout: float) -> None:
    """Send messages and print their ids once they are durable.

    Without MESSAGES, standard input is one message, or one message per line with --lines.
    """
    from penstock.text import Client

    contents = iter([message.encode() for message in messages]) if messages else _input(lines)
    with Client(address, timeout_seconds=timeout) as client:
        for message_id in client.send_many(queue, contents):
            if not quiet:
                tell(message_id)


@app.command()
@queue_argument
@address_option
@click.option(
    "--count", "-n", metavar="N", default=0, type=WholeNumber(), help="Stop after N messages. 0 means no limit."
)
@click.option(
    "--wait", metavar="SECONDS", type=Number(), help="Stop if no message arrives within this time. Default: never."
)
@click.option("--null", "-0", is_flag=True, help="End each message with a zero byte instead of a line feed.")
@click.option(
    "--timeout",
    metavar="SECONDS",
    default=30,
    type=Number(),
    help="Stop if the server cannot be reached within this time.",
)
def consume(queue: str, *, address: str, count: int, wait: float | None, null: bool, timeout: float) -> None:
    """Write messages to standard output, and ack each message after it is written.

    The exit code is 1 if fewer than --count messages arrive.
    """
    from penstock.text import Client

    written, end = 0, b"\0" if null else b"\n"
    with Client(address, timeout_seconds=timeout) as client:
        messages = client.consume(queue, window=min(count or 100, 100), wait_seconds=wait, away_seconds=timeout)
        for message in messages:
            write_body(message.content, end)
            message.ack()
            written += 1
            if written == count:
                break
        messages.close()
    raise click.exceptions.Exit(EXIT_FAILED if written < count else 0)


def _input(lines: bool) -> Iterator[bytes]:
    if not lines:
        yield sys.stdin.buffer.read()
        return
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")

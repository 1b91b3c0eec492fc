"""`penstock text send` and `penstock text consume`: the broker for shell scripts.

Standard output carries ids or contents and nothing else; an error is one sentence on standard error.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from typing import Annotated

import typer

from penstock.commands.help import Commands

app = Commands("Send and consume over the text protocol.")

Address = Annotated[
    str,
    typer.Option(metavar="HOST:PORT|unix:PATH", help="Where the server is.", envvar="PENSTOCK_TEXT_ADDRESS"),
]
Queue = Annotated[str, typer.Argument(help="Name of the queue.")]

EXIT_FAILED = 1


@app.command()
def send(
    queue: Queue,
    messages: Annotated[list[str] | None, typer.Argument(help="One message each; without any, standard input.")] = None,
    *,
    address: Address = "127.0.0.1:9123",
    lines: Annotated[bool, typer.Option("--lines", help="Every line of standard input is a message.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", help="Do not print the ids.")] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Give up after so long.")] = 30,
) -> None:
    """Send messages and print their ids once they are durable.

    Without MESSAGES, standard input is one message, or one per line with --lines.
    """
    from penstock.text import Client

    contents = iter([message.encode() for message in messages]) if messages else _input(lines)
    with Client(address, timeout_seconds=timeout) as client:
        for message_id in client.send_many(queue, contents):
            if not quiet:
                print(message_id)


@app.command()
def consume(
    queue: Queue,
    *,
    address: Address = "127.0.0.1:9123",
    count: Annotated[int, typer.Option("--count", "-n", metavar="N", help="Stop after N; 0: never.")] = 0,
    wait: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="Stop when none came for so long. Default: never.")
    ] = None,
    null: Annotated[
        bool, typer.Option("--null", "-0", help="End each content with a zero byte, not a line feed.")
    ] = False,
    timeout: Annotated[float, typer.Option(metavar="SECONDS", help="Give up connecting after so long.")] = 30,
) -> None:
    """Write the contents of messages to standard output, each acknowledged once it is written.

    The exit code is 1 if --count was given and fewer came.
    """
    from penstock.text import Client

    written, end = 0, b"\0" if null else b"\n"
    with Client(address, timeout_seconds=timeout) as client:
        messages = client.consume(queue, window=min(count or 100, 100), wait_seconds=wait)
        for message in messages:
            sys.stdout.buffer.write(message.content + end)
            sys.stdout.buffer.flush()
            message.ack()
            written += 1
            if written == count:
                break
        messages.close()
    raise typer.Exit(EXIT_FAILED if written < count else 0)


def _input(lines: bool) -> Iterator[bytes]:
    if not lines:
        yield sys.stdin.buffer.read()
        return
    for line in sys.stdin.buffer:
        yield line.removesuffix(b"\n")

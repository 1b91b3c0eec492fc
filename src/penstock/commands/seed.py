"""`penstock seed`: create the resources of a seed file on a server, or write a seed file from a server."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from penstock.commands.exit_codes import PARTLY_DONE, WrongUsageError, complain
from penstock.commands.help import command
from penstock.commands.output import Column, count, write
from penstock.commands.parameters import argument
from penstock.commands.progress import waiting
from penstock.commands.prompts import confirm
from penstock.commands.session import Session, dry_run_option, on_server, yes_option
from penstock.errors import InvalidArgumentError
from penstock.terminal import safe_json, tell

if TYPE_CHECKING:
    from penstock.seeding.source import Source

COLUMNS = [Column("", "what"), Column("KIND", "kind"), Column("NAME", "name"), Column("WHY", "reason")]
LISTS = {"created": "created", "changed": "changed", "conflicts": "left unchanged"}
STANDARD = "-"


@command()
@on_server
@argument(
    "file",
    metavar="FILE",
    required=False,
    help="Seed file, TOML or JSON. - reads standard input, env reads variables such as PUBSUB_PROJECT1.",
)
@click.option(
    "--from-server",
    is_flag=True,
    help="Write the server's topics, subscriptions, queues and schemas to FILE or standard output.",
)
@click.option("--update", is_flag=True, help="Also change existing resources that differ from the file.")
@dry_run_option
@yes_option
def seed(session: Session, file: str | None, *, from_server: bool, update: bool, dry_run: bool, yes: bool) -> None:
    """Create the topics, subscriptions, queues, schemas and first messages of a file.

    Only missing resources are created, and first messages are published once, so the same file can be applied again. An
    invalid file changes nothing. The exit code is 5 if existing resources differ from the file and were not changed.
    """
    if from_server:
        if update or dry_run:
            raise WrongUsageError("--from-server cannot be combined with --update or --dry-run")
        _write(session, file or STANDARD, yes)
    elif file is None:
        raise WrongUsageError("Give the FILE to seed from, or --from-server")
    else:
        source = _read(file)
        for note in source.notes:
            complain(note)
        outcome = _apply(session, source, update=update, dry_run=dry_run)
        _show(session, outcome)
        if outcome["conflicts"]:
            raise click.exceptions.Exit(PARTLY_DONE)


def _read(file: str) -> Source:
    from penstock.seeding.files import read_seed
    from penstock.seeding.topology import SeedError

    try:
        return read_seed(file, os.environ)
    except SeedError as error:
        raise WrongUsageError(error.message) from None


def _apply(session: Session, source: Source, **how: bool) -> Mapping[str, Any]:
    """Apply the document. An error names the line of the file."""
    document = {**session.project, **source.document}
    try:
        with waiting("Seeding"):
            answer: Mapping[str, Any] = session.client.post("/topology", document | how)
    except InvalidArgumentError as error:
        raise WrongUsageError(source.locate(error.message)) from None
    return answer


def _show(session: Session, outcome: Mapping[str, Any]) -> None:
    if session.output.json:
        session.output.line(outcome)
        return
    session.output.table(_rows(outcome, on_terminal=session.output.terminal), COLUMNS)
    if session.output.terminal:
        numbers = [f"{count(len(outcome[name]))} {words}" for name, words in LISTS.items()]
        numbers += [f"{count(len(outcome['unchanged']))} unchanged", f"{count(outcome['messages'])} messages published"]
        tell(f"{'Dry run: ' if outcome['dry_run'] else ''}{', '.join(numbers)}.")


def _rows(outcome: Mapping[str, Any], *, on_terminal: bool) -> Iterator[dict[str, Any]]:
    for name, words in LISTS.items():
        for change in outcome[name]:
            yield {"reason": "", **change, "what": words}
    if outcome["messages"] and not on_terminal:  # where a sentence has their number
        yield {"what": "published", "kind": "messages", "name": outcome["messages"], "reason": ""}


def _write(session: Session, file: str, yes: bool) -> None:
    document = session.get("/topology")
    _ = document["project"]  # an answer of another server raises here
    if session.output.json:
        text = f"{_json(document)}\n"
    else:
        from penstock.seeding.writing import to_toml

        text = to_toml(document)
    if file == STANDARD:
        write((safe_json(text) if session.output.terminal else text).encode())
        return
    if Path(file).exists():
        confirm(f"Overwrite {file}?", yes)
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongUsageError(f"Cannot write {file}: {error.strerror}") from None
    tell(f"Wrote {file}", file=sys.stderr)


def _json(document: object) -> str:
    import json

    return json.dumps(document, indent=2, ensure_ascii=False)

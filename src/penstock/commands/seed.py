"""`penstock seed`: make the topology of a file on a running server, or write the file of what a server has."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from penstock.commands.exits import PARTLY_DONE, WrongUsageError, complain
from penstock.commands.output import Column, count, write
from penstock.commands.progress import waiting
from penstock.commands.questions import ask
from penstock.commands.session import DryRun, Session, Yes, on_server
from penstock.errors import InvalidArgumentError

if TYPE_CHECKING:
    from penstock.seeding.source import Source

COLUMNS = [Column("", "what"), Column("KIND", "kind"), Column("NAME", "name"), Column("WHY", "reason")]
LISTS = {"created": "created", "changed": "changed", "conflicts": "left as it is"}
STANDARD = "-"


@on_server
def seed(
    session: Session,
    file: Annotated[
        str | None,
        typer.Argument(metavar="FILE", help="TOML or JSON; env: variables such as PUBSUB_PROJECT1; -: standard input."),
    ] = None,
    *,
    from_server: Annotated[
        bool, typer.Option("--from-server", help="Write FILE, or standard output, from what the server has.")
    ] = False,
    update: Annotated[bool, typer.Option("--update", help="Also change what is there and differs.")] = False,
    dry_run: DryRun = False,
    yes: Yes = False,
) -> None:
    """Make the topics, subscriptions, queues, schemas and first messages of a file.

    Only what is missing is made, and first messages are published once, so that the same file can be given again and
    again. A file that is wrong changes nothing. The exit code is 5 if something is there that differs, and was left.
    """
    if from_server:
        if update or dry_run:
            raise WrongUsageError("--from-server changes nothing on the server; it takes no --update and no --dry-run")
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
            raise typer.Exit(PARTLY_DONE)


def _read(file: str) -> Source:
    from penstock.seeding.files import read_seed
    from penstock.seeding.topology import SeedError

    try:
        return read_seed(file, os.environ)
    except SeedError as error:
        raise WrongUsageError(error.message) from None


def _apply(session: Session, source: Source, **how: bool) -> Mapping[str, Any]:
    """A refusal names the place in the document; here it becomes a line of the file."""
    document = {**session.project, **source.document}
    try:
        with waiting("Seeding"):
            answer: Mapping[str, Any] = session.client.post("/topology", document | how)
    except InvalidArgumentError as error:
        raise WrongUsageError(source.located(error.message)) from None
    return answer


def _show(session: Session, outcome: Mapping[str, Any]) -> None:
    if session.output.json:
        session.output.line(outcome)
        return
    session.output.table(_rows(outcome, on_terminal=session.output.terminal), COLUMNS)
    if session.output.terminal:
        numbers = [f"{count(len(outcome[name]))} {said}" for name, said in LISTS.items()]
        numbers += [f"{count(len(outcome['unchanged']))} unchanged", f"{count(outcome['messages'])} messages published"]
        print(f"{'A dry run: ' if outcome['dry_run'] else ''}{', '.join(numbers)}.")


def _rows(outcome: Mapping[str, Any], *, on_terminal: bool) -> Iterator[dict[str, Any]]:
    for name, said in LISTS.items():
        for each in outcome[name]:
            yield {"reason": "", **each, "what": said}
    if outcome["messages"] and not on_terminal:  # where a sentence has their number
        yield {"what": "published", "kind": "messages", "name": outcome["messages"], "reason": ""}


def _write(session: Session, file: str, yes: bool) -> None:
    document = session.get("/topology")
    if session.output.json:
        text = f"{_json(document)}\n"
    else:
        from penstock.seeding.writing import to_toml

        text = to_toml(document)
    if file == STANDARD:
        write(text.encode())
        return
    if Path(file).exists():
        ask(f"Overwrite {file}?", yes)
    try:
        Path(file).write_text(text, encoding="utf-8")
    except OSError as error:
        raise WrongUsageError(f"Cannot write {file}: {error.strerror}") from None
    print(f"Wrote {file}", file=sys.stderr)


def _json(document: object) -> str:
    import json

    return json.dumps(document, indent=2, ensure_ascii=False)

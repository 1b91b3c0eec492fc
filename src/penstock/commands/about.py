"""`penstock info` and `penstock settings`: what runs there, and how it is set."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from penstock.commands.output import Column, moment, size
from penstock.commands.session import Session, on_server
from penstock.errors import NotFoundError
from penstock.logs import escape_controls

FIELDS = [
    Column("version", "version"),
    Column("started", "started_at", moment),
    Column("durability", "durability.sentence"),
    Column("data", "data"),
    Column("default project", "default_project"),
    Column("memory", "memory_bytes", size),
    Column("store", "journal.bytes", size),
    Column("log of the store", "journal.wal_bytes", size),
    Column("free space", "journal.free_bytes", size),
]
SETTINGS = [Column("SETTING", "name"), Column("VALUE", "value"), Column("DEFAULT", "default"), Column("", "help")]


@on_server
def info(session: Session) -> None:
    """Show what runs: version, doors, store, durability.

    In a pipe a door is a line of its own: door, its name, address, state, and whether it asks callers who they are.
    """
    server = session.client.get("/server")
    if session.output.json:
        return session.output.line(server)
    session.output.record({name: value for name, value in server.items() if name in _SHOWN}, FIELDS)
    for door in server["doors"]:
        _print_door(session, door)


_SHOWN = {column.key.partition(".")[0] for column in FIELDS}


def _print_door(session: Session, door: dict[str, Any]) -> None:
    if not session.output.terminal:
        print("\t".join(["door", door["name"], door["address"] or "", door["state"], str(door["guarded"]).lower()]))
        return
    guard = "asks callers who they are" if door["guarded"] else "open to all who reach it"
    state = f"{door['address']}, {guard}" if door["address"] else f"{door['state']} {door['note']}".strip()
    title = f"{door['name']} door"
    print(f"{session.output.style(f'{title:<20}', 'bold')} {escape_controls(state)}")


@on_server
def settings(
    session: Session,
    name: Annotated[str | None, typer.Argument(metavar="SETTING", help="Only this one.")] = None,
    *,
    changed: Annotated[bool, typer.Option("--changed", help="Only those that are not at their default.")] = False,
) -> None:
    """Show every setting as it is in force; secrets are hidden.

    In a pipe: name, value, default, help.
    """
    rows = session.client.get("/settings")["settings"]
    found = [each for each in rows if name in (None, each["name"]) and (each["changed"] or not changed)]
    if name is not None and not found and not changed:
        raise NotFoundError(f"There is no setting {name}")
    session.table(found, SETTINGS, "Every setting is at its default.")

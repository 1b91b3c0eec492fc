"""`penstock info` and `penstock settings`."""

from __future__ import annotations

from typing import Any

import click

from penstock.commands.help import command
from penstock.commands.output import Column, moment, plain, size
from penstock.commands.parameters import argument
from penstock.commands.session import Session, on_server
from penstock.errors import NotFoundError

FIELDS = [
    Column("version", "version"),
    Column("started", "started_at", moment),
    Column("durability", "durability.sentence"),
    Column("data", "data"),
    Column("default project", "default_project"),
    Column("memory", "memory_bytes", size),
    Column("store", "journal.bytes", size),
    Column("write-ahead log", "journal.wal_bytes", size),
    Column("free space", "journal.free_bytes", size),
]
SETTINGS = [Column("SETTING", "name"), Column("VALUE", "value"), Column("DEFAULT", "default"), Column("", "help")]


@command()
@on_server
def info(session: Session) -> None:
    """Show the server's version, addresses, store and durability.

    In a pipe each protocol is a line: protocol, its name, address, state, and true if clients must authenticate.
    """
    server = session.client.get("/server")
    if session.output.json:
        return session.output.line(server)
    session.output.record({name: server[name] for name in _SHOWN}, FIELDS)
    for door in server["doors"]:
        _print_door(session, door)


_SHOWN = {column.key.partition(".")[0] for column in FIELDS}


def _print_door(session: Session, door: dict[str, Any]) -> None:
    if not session.output.terminal:
        print("\t".join(map(plain, ["protocol", door["name"], door["address"], door["state"], door["guarded"]])))
        return
    access = "authentication required" if door["guarded"] else "no authentication"
    state = f"{door['address']}, {access}" if door["address"] else f"{door['state']} {door['note']}".strip()
    session.output.titled(door["name"], state)


@command()
@on_server
@argument("name", metavar="SETTING", required=False, help="Show only this setting.")
@click.option("--changed", is_flag=True, help="Show only settings that differ from their default.")
def settings(session: Session, name: str | None, *, changed: bool) -> None:
    """Show the server's settings. Secrets are hidden.

    Fields in a pipe: name, value, default, description.
    """
    rows = session.client.get("/settings")["settings"]
    chosen = [row for row in rows if name in (None, row["name"]) and (row["changed"] or not changed)]
    if name is not None and not chosen and not changed:
        raise NotFoundError(f"Unknown setting: {name}")
    session.table(chosen, SETTINGS, "All settings have their default values.")

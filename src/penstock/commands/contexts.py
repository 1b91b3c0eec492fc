"""`penstock context`: named servers, each an address with a token and a project.

Contexts are stored in `~/.config/penstock/contexts.toml` (below XDG_CONFIG_HOME if that is set). Only the owner can
read the file.
"""

from __future__ import annotations

import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import NamedTuple

import click
import tomli_w

from penstock.commands.exit_codes import WrongUsageError, complain
from penstock.commands.help import group
from penstock.commands.output import Column, Output
from penstock.commands.parameters import argument
from penstock.commands.prompts import confirm
from penstock.errors import NotFoundError

app = group(help="Name servers: an address, a token and a project for each.")

name_argument = argument("name", metavar="CONTEXT", help="Name of the context.")
json_option = click.option("as_json", "--json", "-J", is_flag=True, help="Print one JSON object per line.")


class Context(NamedTuple):
    address: str
    token: str = ""
    project: str = ""


class Contexts(NamedTuple):
    current: str
    by_name: dict[str, Context]

    def find(self, name: str) -> Context:
        if name not in self.by_name:
            names = ", ".join(sorted(self.by_name)) or "none"
            raise NotFoundError(f"Context not found: {name} (existing contexts: {names})")
        return self.by_name[name]


def contexts_file(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(home) / "penstock" / "contexts.toml"


def read_contexts(file: Path) -> Contexts:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        if file.stat().st_mode & 0o077:
            complain(f"Other users can read {file}, which may hold tokens. Run chmod 600 on it")
        contexts = {str(name): _context(table) for name, table in dict(data.get("contexts", {})).items()}
        return Contexts(str(data.get("current", "")), contexts)
    except FileNotFoundError:
        return Contexts("", {})
    except OSError as error:
        raise WrongUsageError(f"Cannot read {file}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise WrongUsageError(f"{file} is not a valid contexts file: {error}") from None
    except RecursionError:
        raise WrongUsageError(f"{file} is not a valid contexts file: it is nested too deeply") from None


def _context(table: object) -> Context:
    if not isinstance(table, dict) or not set(table) <= set(Context._fields) or not table.get("address"):
        raise ValueError("a context needs an address, and may have a token and a project")
    return Context(**{name: str(value) for name, value in table.items()})


def write_contexts(file: Path, contexts: Contexts) -> None:
    """Replace the file in one step, so that readers never see half of it."""
    tables = {
        name: {key: text for key, text in context._asdict().items() if text}
        for name, context in contexts.by_name.items()
    }
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as new:
            new.write(tomli_w.dumps({"current": contexts.current, "contexts": tables}))
        fresh.replace(file)
    except OSError as error:
        raise WrongUsageError(f"Cannot write {file}: {error.strerror}") from None


@app.command("ls")
@json_option
def list_contexts(*, as_json: bool) -> None:
    """List contexts. The current context has a star, tokens are hidden."""
    contexts = read_contexts(contexts_file(os.environ))
    columns = [Column("", "current"), Column("NAME", "name"), Column("ADDRESS", "address"), Column("TOKEN", "token")]
    Output(json=as_json).table(_rows(contexts), [*columns, Column("PROJECT", "project")], "No contexts.")


def _rows(contexts: Contexts) -> Iterator[dict[str, str]]:
    for name, context in sorted(contexts.by_name.items()):
        shown = context._replace(token="***" if context.token else "")
        yield {"current": "*" if name == contexts.current else "", "name": name, **shown._asdict()}


@app.command()
@name_argument
@argument("address", metavar="HOST:PORT", help="Address of the server's HTTP port.")
@click.option("--token", metavar="TOKEN", default="", help="Token for the server. - reads it from standard input.")
@click.option("--project", metavar="PROJECT", default="", help="Project of short names.")
@click.option(
    "--use", is_flag=True, help="Make it the current context. The first context always becomes the current one."
)
def add(name: str, address: str, *, token: str, project: str, use: bool) -> None:
    """Add a context, or replace the context with this name."""
    from penstock.admin.client import Client

    Client(address)  # raises if the address is invalid
    if token == "-":  # noqa: S105 - stands for standard input
        import sys

        token = sys.stdin.readline().strip()
    file = contexts_file(os.environ)
    before = read_contexts(file)
    current = name if use or not before.by_name else before.current
    write_contexts(
        file, Contexts(current, before.by_name | {name: Context(address=address, token=token, project=project)})
    )


@app.command("use")
@name_argument
def use_context(name: str) -> None:
    """Make a context the current context."""
    file = contexts_file(os.environ)
    contexts = read_contexts(file)
    contexts.find(name)
    write_contexts(file, contexts._replace(current=name))


@app.command()
@name_argument
@click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
def rm(name: str, *, yes: bool) -> None:
    """Remove a context."""
    file = contexts_file(os.environ)
    contexts = read_contexts(file)
    contexts.find(name)
    confirm(f"Remove the context {name}?", yes)
    left = {other: context for other, context in contexts.by_name.items() if other != name}
    write_contexts(file, Contexts("" if contexts.current == name else contexts.current, left))

"""`penstock context`: names for servers, each an address with a token and a project.

They are kept in `~/.config/penstock/contexts.toml` (below XDG_CONFIG_HOME where that is set), which only its owner can
read.
"""

from __future__ import annotations

import json
import os
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Annotated, NamedTuple

import typer

from penstock.commands.exits import WrongUsageError, complain
from penstock.commands.help import Commands
from penstock.commands.output import Column, Output
from penstock.commands.questions import ask
from penstock.errors import NotFoundError

app = Commands("Names for servers: an address with a token and a project.")

Name = Annotated[str, typer.Argument(metavar="CONTEXT", help="Its name.")]
Json = Annotated[bool, typer.Option("--json", "-J", help="JSON lines.")]


class Context(NamedTuple):
    address: str
    token: str = ""
    project: str = ""


class Contexts(NamedTuple):
    current: str
    known: dict[str, Context]

    def find(self, name: str) -> Context:
        if name not in self.known:
            there = f"; there are {', '.join(sorted(self.known))}" if self.known else "; there is none yet"
            raise NotFoundError(f"Context not found: {name}{there}")
        return self.known[name]


def contexts_file(environment: Mapping[str, str]) -> Path:
    home = environment.get("XDG_CONFIG_HOME") or str(Path(environment.get("HOME", "~")).expanduser() / ".config")
    return Path(home) / "penstock" / "contexts.toml"


def read_contexts(file: Path) -> Contexts:
    try:
        data = tomllib.loads(file.read_text(encoding="utf-8"))
        if file.stat().st_mode & 0o077:
            complain(f"Others can read {file}, which may hold tokens; run chmod 600 on it")
        known = {str(name): _context(each) for name, each in dict(data.get("contexts", {})).items()}
        return Contexts(str(data.get("current", "")), known)
    except FileNotFoundError:
        return Contexts("", {})
    except OSError as error:
        raise WrongUsageError(f"Cannot read {file}: {error.strerror}") from None
    except (ValueError, TypeError) as error:
        raise WrongUsageError(f"{file} is not a file of contexts: {error}") from None


def _context(each: object) -> Context:
    if not isinstance(each, dict) or not set(each) <= set(Context._fields) or not each.get("address"):
        raise ValueError("a context has an address, and perhaps a token and a project")
    return Context(**{name: str(value) for name, value in each.items()})


def write_contexts(file: Path, contexts: Contexts) -> None:
    """All or nothing: readers see the file of before or the new one."""
    lines = [f"current = {json.dumps(contexts.current)}"]
    for name, each in sorted(contexts.known.items()):
        lines += ["", f"[contexts.{json.dumps(name)}]"]
        lines += [f"{key} = {json.dumps(value)}" for key, value in each._asdict().items() if value]
    fresh = file.with_name(f"{file.name}.{os.getpid()}")
    try:
        file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8") as new:
            new.write("\n".join(lines) + "\n")
        fresh.replace(file)
    except OSError as error:
        raise WrongUsageError(f"Cannot write {file}: {error.strerror}") from None


@app.command("ls")
def list_contexts(*, as_json: Json = False) -> None:
    """List the contexts; the current one has a star. Tokens are not shown."""
    known = read_contexts(contexts_file(os.environ))
    columns = [Column("", "current"), Column("NAME", "name"), Column("ADDRESS", "address"), Column("TOKEN", "token")]
    Output(json=as_json).table(_rows(known), [*columns, Column("PROJECT", "project")], "There is no context yet.")


def _rows(known: Contexts) -> Iterator[dict[str, str]]:
    for name, each in sorted(known.known.items()):
        shown = each._replace(token="***" if each.token else "")
        yield {"current": "*" if name == known.current else "", "name": name, **shown._asdict()}


@app.command()
def add(
    name: Name,
    address: Annotated[str, typer.Argument(metavar="HOST:PORT", help="Of the server's HTTP door.")],
    *,
    token: Annotated[str, typer.Option(metavar="TOKEN", help="That the server wants; - reads it from stdin.")] = "",
    project: Annotated[str, typer.Option(metavar="NAME", help="Where short names live.")] = "",
    use: Annotated[bool, typer.Option("--use", help="Make it the current one; the first one always is.")] = False,
) -> None:
    """Add a context, or write one of the same name anew."""
    from penstock.admin.client import Client

    Client(address)  # says so, if it is none
    if token == "-":  # noqa: S105 - stands for standard input
        import sys

        token = sys.stdin.readline().strip()
    file = contexts_file(os.environ)
    before = read_contexts(file)
    current = name if use or not before.known else before.current
    write_contexts(file, Contexts(current, before.known | {name: Context(address, token, project)}))


@app.command("use")
def use_context(name: Name) -> None:
    """Make a context the current one."""
    file = contexts_file(os.environ)
    known = read_contexts(file)
    known.find(name)
    write_contexts(file, known._replace(current=name))


@app.command()
def rm(name: Name, *, yes: Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")] = False) -> None:
    """Remove a context."""
    file = contexts_file(os.environ)
    known = read_contexts(file)
    known.find(name)
    ask(f"Remove the context {name}?", yes)
    left = {other: each for other, each in known.known.items() if other != name}
    write_contexts(file, Contexts("" if known.current == name else known.current, left))

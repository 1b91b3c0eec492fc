"""The session of a command with a server: its address, token and project, the client, and the output.

    @app.command()
    @on_server
    @topic_argument
    def show(session: Session, topic: str) -> None: ...

The address comes from --address, --context, PENSTOCK_ADDRESS, PENSTOCK_CONTEXT or the current context, the ready file
in PENSTOCK_READY_FILE, or is 127.0.0.1:8090. A context's token is sent to that context's address only.
"""

from __future__ import annotations

import json as json_text
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cached_property, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

import click

from penstock.commands.exit_codes import WrongUsageError
from penstock.commands.output import Column, Output, Row
from penstock.commands.parameters import argument, option, with_all
from penstock.errors import InvalidArgumentError, UnavailableError

if TYPE_CHECKING:
    from penstock.admin.client import Client
    from penstock.commands.contexts import Context

DEFAULT_ADDRESS = "127.0.0.1:8090"
PAGE = 1000
PANEL = "Common options"

address_option = option(
    "--address",
    metavar="HOST:PORT",
    section=PANEL,
    help="Address of the server's HTTP port. Also PENSTOCK_ADDRESS. Default 127.0.0.1:8090.",
)
token_option = option(
    "--token",
    metavar="TOKEN",
    section=PANEL,
    help="Token for the server. Also PENSTOCK_TOKEN, or PENSTOCK_TOKEN_FILE for a file with it.",
)
context_option = option(
    "--context",
    metavar="CONTEXT",
    section=PANEL,
    help="Use the address, token and project of this context. See penstock context.",
)
project_option = option(
    "--project", "-P", metavar="PROJECT", section=PANEL, help="Project of short names. Also PENSTOCK_PROJECT."
)
json_option = option("as_json", "--json", "-J", is_flag=True, section=PANEL, help="Print one JSON object per line.")

OPTION_OF = {  # parameter of the API: the option that sets it
    "delay_seconds": "--delay",
    "from": "-o",
    "json": "--where",
    "lease_seconds": "--lease",
    "message_retention_duration": "--retention",
    "rate": "--rate",
    "retention_seconds": "--retention",
    "seconds": "--by",
    "sort": "--sort",
}
NO_DEAD_LETTER_TOPIC = "dead_letter_policy needs a dead_letter_topic"

# Arguments and options of several commands.
topic_argument = argument("topic", metavar="TOPIC", help="Topic name, or projects/P/topics/T.")
subscription_argument = argument(
    "subscription", metavar="SUBSCRIPTION", help="Subscription name, or projects/P/subscriptions/S."
)
queue_argument = argument("queue", metavar="QUEUE", help="Queue name.")
yes_option = click.option("--yes", "-y", is_flag=True, help="Do not ask for confirmation.")
dry_run_option = click.option("--dry-run", "-n", is_flag=True, help="Show what would happen, and change nothing.")
template_option = click.option(
    "template",
    "--format",
    "-f",
    "-F",
    metavar="TEMPLATE",
    help="Format of each message, such as '%o %k %s\\n': offset, ordering key, body.",
)
filter_option = click.option(
    "--filter", metavar="FILTER", help="Only messages whose attributes match, such as 'attributes.kind = \"a\"'."
)
text_option = click.option("--text", metavar="TEXT", help="Only messages with this text in the body or an attribute.")
json_path_option = click.option(
    "json", "--where", metavar="PATH[=VALUE]", help="Only messages whose JSON body has this value, such as '$.a.b=5'."
)


class Place(NamedTuple):
    """The server of a command, and the token and project that go with its requests."""

    address: str
    token: str | None
    project: str | None
    is_guess: bool = False  # True if the address is only the default


class Session:
    def __init__(self, place: Place, output: Output) -> None:
        self.place = place
        self.output = output

    @cached_property
    def client(self) -> Client:
        from penstock.admin.client import Client

        try:
            return Client(self.place.address, self.place.token)
        except InvalidArgumentError as error:
            raise WrongUsageError(error.message) from None

    def table(self, rows: Iterable[Row], columns: Sequence[Column], empty: str = "") -> None:
        if self.output.terminal and not self.output.json:
            self.output.home = self.home
        self.output.table(rows, columns, empty)

    @cached_property
    def home(self) -> str:
        """The project of short names."""
        return self.place.project or str(self.client.get("/server")["default_project"])

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    @property
    def project(self) -> dict[str, str]:
        """The project for a query or a body, or nothing if it is the server's default project."""
        return {"project": self.place.project} if self.place.project else {}

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(path, **self.project, **query)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self.client.post(path, dict(body or {}), **self.project)

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """Post a body with a name. The project of a full name goes before the session's project."""
        parts = str(body.get("name", "")).split("/")
        inside = {"project": parts[1]} if len(parts) == 4 else self.project
        return self.client.post(path, inside | dict(body))

    def patch(self, path: str, body: Mapping[str, Any]) -> Any:
        return self.client.patch(path, dict(body), **self.project)

    def delete(self, path: str) -> Any:
        return self.client.delete(path, **self.project)

    def stream(self, path: str, **query: Any) -> Iterator[Any]:
        return self.client.stream(path, **self.project, **query)

    def pages(self, path: str, key: str, **query: Any) -> Iterator[dict[str, Any]]:
        return self.client.pages(path, key, **self.project, **query, page_size=PAGE)


def path_of(kind: str, name: str, *more: object) -> str:
    """Return `/topics/NAME/messages`, with the name as one segment."""
    from penstock.admin.client import path_of as client_path_of

    if not name:
        raise WrongUsageError("A name cannot be empty")
    return client_path_of(kind, name, *more)


def on_server(run: Callable[..., None]) -> Callable[..., None]:
    """Hand a command a Session, and give it the options that every command on a server has."""

    @wraps(run)
    def command(
        *,
        address: str | None,
        token: str | None,
        context: str | None,
        project: str | None,
        as_json: bool,
        **values: Any,
    ) -> None:
        server = find_place(os.environ, address=address, token=token, context=context, project=project)
        with closing(Session(server, Output(json=as_json, template=values.get("template")))) as session:
            try:
                run(session, **values)
            except UnavailableError as error:
                if not server.is_guess:
                    raise
                raise type(error)(f"{error.message}; penstock serve starts a server, --address names one") from None
            except InvalidArgumentError as error:
                raise _in_words_of_the_command(error) from None

    return with_all(address_option, token_option, context_option, project_option, json_option)(command)


def _in_words_of_the_command(error: InvalidArgumentError) -> InvalidArgumentError:
    """Name the option instead of the parameter of the API, if an option sets it."""
    parameter, must, rest = error.message.partition(" must ")
    if error.message == NO_DEAD_LETTER_TOPIC:
        return WrongUsageError("--max-attempts needs --dead-letter-topic")
    if not must or parameter not in OPTION_OF:
        return error
    if parameter.endswith("seconds"):
        rest = f"{rest.replace('a number, ', '')} seconds"
    return WrongUsageError(f"{OPTION_OF[parameter]}{must}{rest}")


Conditions = Mapping[str, str | None]  # on messages, as the API takes them
with_conditions = with_all(json_path_option, text_option, filter_option)


# ---------------------------------------------------------------------- the address of the server


def find_place(
    environment: Mapping[str, str],
    *,
    address: str | None = None,
    token: str | None = None,
    context: str | None = None,
    project: str | None = None,
) -> Place:
    chosen = _context(environment, context, address)
    address = address or (chosen.address if chosen else environment.get("PENSTOCK_ADDRESS"))
    token = token or (chosen.token if chosen and context else "") or _token(environment)
    token = token or (chosen.token if chosen else "")
    if not (token.isascii() and token.isprintable()):
        raise WrongUsageError("The token has characters that are not allowed in a token")
    address = address or _from_ready_file(environment)
    return Place(
        address or DEFAULT_ADDRESS,
        token or None,
        project or environment.get("PENSTOCK_PROJECT") or (chosen.project if chosen else None) or None,
        is_guess=not address,
    )


def _context(environment: Mapping[str, str], name: str | None, address: str | None) -> Context | None:
    if address and name:
        raise WrongUsageError("Give --address or --context, not both")
    if address or (environment.get("PENSTOCK_ADDRESS") and not name):
        return None
    from penstock.commands.contexts import contexts_file, read_contexts

    contexts = read_contexts(contexts_file(environment))
    chosen = name or environment.get("PENSTOCK_CONTEXT") or contexts.current
    return contexts.find(chosen) if chosen else None


def _token(environment: Mapping[str, str]) -> str:
    file = environment.get("PENSTOCK_TOKEN_FILE")
    if environment.get("PENSTOCK_TOKEN") or not file:
        return environment.get("PENSTOCK_TOKEN", "")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise WrongUsageError(f"Cannot read the token in {file}: {error.strerror}") from None


def _from_ready_file(environment: Mapping[str, str]) -> str | None:
    """Return the HTTP address in the ready file, or None if the file is missing or not complete yet."""
    file = environment.get("PENSTOCK_READY_FILE")
    if file:
        with suppress(OSError, ValueError, AttributeError):
            address = json_text.loads(Path(file).read_text(encoding="utf-8")).get("http")
            return str(address) if address else None
    return None

"""What every command on a server shares: how the server is found, who asks, which project, and how answers look.

    @app.command()
    @on_server
    def show(session: Session, topic: Topic) -> None: ...

Address: --address, --context, PENSTOCK_ADDRESS, PENSTOCK_CONTEXT or the current context, the ready file that
PENSTOCK_READY_FILE names, 127.0.0.1:8090. A context's token goes to that context's address only.
"""

from __future__ import annotations

import json as json_text
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, suppress
from functools import cached_property
from inspect import Parameter, Signature, signature
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, cast

import typer

from penstock.commands.exits import WrongUsageError
from penstock.commands.output import Column, Output, Row
from penstock.errors import InvalidArgumentError, UnavailableError

if TYPE_CHECKING:
    from penstock.admin.client import Client
    from penstock.commands.contexts import Context

DEFAULT_ADDRESS = "127.0.0.1:8090"
PAGE = 1000
PANEL = "Options of every command on a server"

AddressOption = Annotated[
    str | None, typer.Option(metavar="HOST:PORT", help="Of the server's HTTP door.", rich_help_panel=PANEL)
]
TokenOption = Annotated[
    str | None,
    typer.Option(metavar="TOKEN", help="Also PENSTOCK_TOKEN, PENSTOCK_TOKEN_FILE.", rich_help_panel=PANEL),
]
ContextOption = Annotated[str | None, typer.Option(metavar="NAME", help="See penstock context.", rich_help_panel=PANEL)]
ProjectOption = Annotated[
    str | None,
    typer.Option(
        "--project", "-P", metavar="NAME", help="Where short names live. Also PENSTOCK_PROJECT.", rich_help_panel=PANEL
    ),
]
JsonOption = Annotated[bool, typer.Option("--json", "-J", help="JSON lines.", rich_help_panel=PANEL)]

SHARED: dict[str, tuple[Any, object]] = {
    "address": (AddressOption, None),
    "token": (TokenOption, None),
    "context": (ContextOption, None),
    "project": (ProjectOption, None),
    "as_json": (JsonOption, False),
}

OPTION_OF = {  # what the API calls the value of an option
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

# Arguments and options that several commands take.
Topic = Annotated[str, typer.Argument(metavar="TOPIC", help="Its short name, or projects/P/topics/T.")]
Subscription = Annotated[str, typer.Argument(metavar="SUB", help="Its short name, or projects/P/subscriptions/S.")]
Queue = Annotated[str, typer.Argument(metavar="QUEUE", help="Name of the queue.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask before doing it.")]
DryRun = Annotated[bool, typer.Option("--dry-run", "-n", help="Say what would be done, and do nothing.")]
Template = Annotated[
    str | None,
    typer.Option("--format", "-f", "-F", metavar="TEMPLATE", help="How to write a message: '%t %o %k %s\\n'."),
]
Filter = Annotated[
    str | None,
    typer.Option("--filter", metavar="FILTER", help="Only with these attributes: 'attributes.kind = \"a\"'."),
]
Text = Annotated[str | None, typer.Option("--text", metavar="TEXT", help="Only with this in body or attributes.")]
JsonPath = Annotated[
    str | None, typer.Option("--where", metavar="PATH[=VALUE]", help="Only where the JSON body has it: '$.a.b=5'.")
]


class Place(NamedTuple):
    """Where the server is and what to say to it."""

    address: str
    token: str | None
    project: str | None
    is_guess: bool = False  # nobody has said where


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
        """The project in which short names live."""
        return self.place.project or str(self.client.get("/server")["default_project"])

    def close(self) -> None:
        if "client" in self.__dict__:
            self.client.close()

    @property
    def project(self) -> dict[str, str]:
        """For a query or a body; empty where the server's own default project is meant."""
        return {"project": self.place.project} if self.place.project else {}

    def get(self, path: str, **query: Any) -> Any:
        return self.client.get(path, **self.project, **query)

    def post(self, path: str, body: Mapping[str, Any] | None = None) -> Any:
        return self.client.post(path, dict(body or {}), **self.project)

    def create(self, path: str, body: Mapping[str, Any]) -> Any:
        """As `post`, for what names a thing in its body; a full name says its project itself."""
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
    """`/topics/NAME/messages`, with the name as one segment."""
    from penstock.admin.client import path_of as client_path_of

    if not name:
        raise WrongUsageError("A name cannot be empty")
    return client_path_of(kind, name, *more)


def on_server(run: Callable[..., None]) -> Callable[..., None]:
    """A command that is handed a Session and has the shared options besides its own."""

    def command(**given: Any) -> None:
        options = {name: given.pop(name) for name in SHARED}
        as_json = options.pop("as_json")
        place = find_place(os.environ, **options)
        with closing(Session(place, Output(json=as_json, template=given.get("template")))) as session:
            try:
                run(session, **given)
            except UnavailableError as error:
                if not place.is_guess:
                    raise
                raise type(error)(f"{error.message}; penstock serve starts a server, --address names one") from None
            except InvalidArgumentError as error:
                raise _in_words_of_the_command(error) from None

    return _shown_as(command, run, "session", SHARED)


def _in_words_of_the_command(error: InvalidArgumentError) -> InvalidArgumentError:
    """What the server says of a parameter that is an option here."""
    parameter, must, rest = error.message.partition(" must ")
    if error.message == NO_DEAD_LETTER_TOPIC:
        return WrongUsageError("--max-attempts needs --dead-letter-topic")
    if not must or parameter not in OPTION_OF:
        return error
    if parameter.endswith("seconds"):
        rest = f"{rest.replace('a number, ', '')} seconds"
    return WrongUsageError(f"{OPTION_OF[parameter]}{must}{rest}")


def sharing(options: Mapping[str, tuple[Any, object]], name: str, make: Callable[..., Any]) -> Callable[..., Any]:
    """A command with options that others have as well; it is handed what `make` makes of them, as `name`."""

    def decorate(run: Callable[..., None]) -> Callable[..., None]:
        def command(session: Session, **given: Any) -> None:
            run(session, **{name: make(**{each: given.pop(each) for each in options})}, **given)

        return _shown_as(command, run, name, options)

    return decorate


def _shown_as(
    command: Callable[..., None], run: Callable[..., None], name: str, options: Mapping[str, tuple[Any, object]]
) -> Callable[..., None]:
    """Typer reads the options of a command from its signature: those of `run`, with `options` in place of `name`."""
    own = [each for each in signature(run, eval_str=True).parameters.values() if each.name != name]
    more = [
        Parameter(each, Parameter.KEYWORD_ONLY, default=default, annotation=kind)
        for each, (kind, default) in options.items()
    ]
    command.__doc__, command.__name__ = run.__doc__, run.__name__
    cast(Any, command).__signature__ = Signature([*own, *more])
    command.__annotations__ = {each.name: each.annotation for each in [*own, *more]}
    return command


Conditions = Mapping[str, str | None]  # on messages, as the API takes them
CONDITIONS: dict[str, tuple[Any, object]] = {"json": (JsonPath, None), "text": (Text, None), "filter": (Filter, None)}
with_conditions = sharing(CONDITIONS, "conditions", dict)


# ---------------------------------------------------------------------- where the server is


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
        raise WrongUsageError("The token has characters that no token has")
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

    known = read_contexts(contexts_file(environment))
    wanted = name or environment.get("PENSTOCK_CONTEXT") or known.current
    return known.find(wanted) if wanted else None


def _token(environment: Mapping[str, str]) -> str:
    file = environment.get("PENSTOCK_TOKEN_FILE")
    if environment.get("PENSTOCK_TOKEN") or not file:
        return environment.get("PENSTOCK_TOKEN", "")
    try:
        return Path(file).read_text(encoding="utf-8").strip()
    except OSError as error:
        raise WrongUsageError(f"Cannot read the token in {file}: {error.strerror}") from None


def _from_ready_file(environment: Mapping[str, str]) -> str | None:
    """Of a server that is running; a file that is not there, or not whole yet, says nothing."""
    file = environment.get("PENSTOCK_READY_FILE")
    if file:
        with suppress(OSError, ValueError, AttributeError):
            found = json_text.loads(Path(file).read_text(encoding="utf-8")).get("http")
            return str(found) if found else None
    return None

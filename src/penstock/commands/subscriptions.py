"""`penstock subs`: list, create, show, change and delete subscriptions, their leases, and settling by receipt."""

from __future__ import annotations

from itertools import islice
from typing import Annotated, Any, NamedTuple

import typer

from penstock.commands.exits import FAILED, WrongUsageError
from penstock.commands.help import Commands
from penstock.commands.output import Column, age, count, moment, rate, size, yes_no
from penstock.commands.questions import ask
from penstock.commands.session import Session, Subscription, Yes, on_server, path_of, sharing
from penstock.commands.templates import pairs
from penstock.commands.times import instant, local_now, rfc3339, seconds
from penstock.commands.topics import Limit, Search
from penstock.wording import counted

app = Commands("List, create, show, change and delete subscriptions; leases; acks.")

COLUMNS = [
    Column("SUBSCRIPTION", "name", resource=True),
    Column("TOPIC", "topic", resource=True),
    Column("KIND", "kind"),
    Column("BACKLOG", "backlog_messages", count, right=True),
    Column("IN FLIGHT", "in_flight_messages", count, right=True),
    Column("OLDEST", "oldest_age_seconds", age, right=True),
    Column("ACKED/S", "ack_rate", rate, right=True),
]
FIELDS = [
    Column("name", "name"),
    Column("topic", "topic"),
    Column("kind", "kind"),
    Column("detached", "detached", yes_no),
    Column("created", "created_at", moment),
    Column("backlog", "backlog_messages", count),
    Column("backlog size", "backlog_bytes", size),
    Column("in flight", "in_flight_messages", count),
    Column("in flight size", "in_flight_bytes", size),
    Column("oldest", "oldest_age_seconds", age),
    Column("delivered/s", "deliver_rate", rate),
    Column("acked/s", "ack_rate", rate),
    Column("last used", "last_used_at", moment),
]
LEASES = [
    Column("OFFSET", "offset", right=True),
    Column("ID", "id"),
    Column("UNTIL", "deadline", moment),
    Column("ATTEMPTS", "attempts", count, right=True),
    Column("EXTENDED", "extensions", count, right=True),
    Column("DOOR", "door"),
    Column("HOLDER", "holder"),
    Column("SINCE", "leased_at", moment),
]

CONSUMERS = [
    Column("DOOR", "door"),
    Column("HOLDER", "holder"),
    Column("KIND", "kind"),
    Column("ADDRESS", "address"),
    Column("SINCE", "since", moment),
    Column("WINDOW", "window", count, right=True),
    Column("HAS", "leases", count, right=True),
    Column("UNTIL", "next_deadline", moment),
]
CURSORS = [
    Column("CONSUMER", "consumer"),
    Column("TOPIC", "topic", resource=True),
    Column("OFFSET", "offset", right=True),
    Column("LAG", "lag_messages", count, right=True),
    Column("LAG SIZE", "lag_bytes", size, right=True),
    Column("LAST BATCH", "last_batch.at", moment),
    Column("FROM", "last_batch.first_offset", right=True),
    Column("UNTIL", "last_batch.next_offset", right=True),
    Column("SUBSCRIPTION", "subscription", resource=True),
]


class Flag(NamedTuple):
    """A flag of `create` and `change`, and the option of the API that it sets; `whole.part` is a part of an object."""

    option: str
    kind: str  # duration, text, count, switch, labels
    help: str


FLAGS = {
    "ack_deadline": Flag("ack_deadline_seconds", "duration", "How long a lease lasts unless a pull says."),
    "filter": Flag("filter", "text", "Only messages with these attributes."),
    "ordering": Flag("enable_message_ordering", "switch", "Messages of a key one after the other."),
    "exactly_once": Flag("enable_exactly_once_delivery", "switch", "Refuse acks that come late."),
    "dead_letter_topic": Flag("dead_letter_policy.dead_letter_topic", "text", "Where what fails too often goes."),
    "max_attempts": Flag("dead_letter_policy.max_delivery_attempts", "count", "So many deliveries before it does."),
    "retry_min": Flag("retry_policy.minimum_backoff", "duration", "Pause before the second delivery."),
    "retry_max": Flag("retry_policy.maximum_backoff", "duration", "Longest pause between deliveries."),
    "flow_messages": Flag("flow_control.max_messages", "count", "At most so many in flight."),
    "flow_bytes": Flag("flow_control.max_bytes", "count", "At most so many bytes in flight."),
    "retention": Flag("message_retention_duration", "duration", "Give up what was not acked for so long."),
    "retain_acked": Flag("retain_acked_messages", "switch", "Keep what was acked, so that a seek reaches it."),
    "expires": Flag("expiration_policy.ttl", "duration", "Delete the subscription when unused for so long."),
    "label": Flag("labels", "labels", "Repeat for more."),
}
METAVARS = {"duration": "DURATION", "text": "TEXT", "count": "N", "labels": "KEY=VALUE", "switch": None}
KINDS: dict[str, Any] = {"labels": list[str] | None, "switch": bool | None, "count": int | None}


def _option(name: str, flag: Flag) -> Any:
    words = name.replace("_", "-")
    declaration = f"--{words}/--no-{words}" if flag.kind == "switch" else f"--{words}"
    option = typer.Option(declaration, metavar=METAVARS[flag.kind], help=flag.help, show_default=False)
    return Annotated[KINDS.get(flag.kind, str | None), option]


def api_options(**given: Any) -> dict[str, Any]:
    """Those that were given, as the API takes them."""
    options: dict[str, Any] = {}
    for name, value in given.items():
        if value is None:
            continue
        flag = FLAGS[name]
        if flag.kind == "duration":
            value = seconds(value, f"--{name.replace('_', '-')}")
        elif flag.kind == "labels":
            value = pairs(value, "A label")
        whole, _, part = flag.option.partition(".")
        if part:
            options.setdefault(whole, {})[part] = value
        else:
            options[whole] = value
    return options


with_options = sharing({name: (_option(name, flag), None) for name, flag in FLAGS.items()}, "options", api_options)


@app.command()
@on_server
def ls(
    session: Session,
    *,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only those that read this topic.")] = None,
    search: Search = None,
    sort: Annotated[
        str | None, typer.Option(metavar="KEY", help="name, backlog, oldest, rate ...; -backlog: most first.")
    ] = None,
    limit: Limit = 0,
) -> None:
    """List subscriptions.

    In a pipe: name, topic, kind, backlog, in flight, age of the oldest in seconds, acked a second.
    """
    rows = session.pages("/subscriptions", "subscriptions", topic=topic, search=search, sort=sort)
    session.table(islice(rows, limit or None), COLUMNS, "There is no subscription.")


@app.command()
@on_server
@with_options
def create(
    session: Session,
    subscription: Subscription,
    topic: Annotated[str, typer.Argument(metavar="TOPIC", help="That it reads.")],
    *,
    start: Annotated[
        str, typer.Option("--start", "-o", metavar="START", help="end, beginning, an offset or @TIME.")
    ] = "end",
    options: dict[str, Any],
) -> None:
    """Create a subscription."""
    body = {"name": subscription, "topic": topic, "start": _start(start), "options": options}
    made = session.create("/subscriptions", body)
    session.output.say(made["name"], made)


def _start(text: str) -> str | int:
    if text in ("beginning", "end"):
        return text
    if text.isascii() and text.isdigit():
        return int(text)
    if text.startswith("@"):
        return rfc3339(instant(text[1:], local_now()))
    raise WrongUsageError(f"--start is beginning, end, an offset or @TIME, not {text!r}")


@app.command()
@on_server
def show(session: Session, subscription: Subscription) -> None:
    """Show all about a subscription, and who is connected to it."""
    known, there = (session.get(path_of("subscriptions", subscription, *part)) for part in ((), ("consumers",)))
    who = {"connected": there["consumers"], "cursor": there["cursor"]}
    if not session.output.terminal or session.output.json:
        session.output.record(known | who, FIELDS)
        return
    session.output.record(known, FIELDS)
    if there["cursor"] is not None:
        session.table([there["cursor"]], CURSORS)
    else:
        session.table(there["consumers"], CONSUMERS, "Nobody is connected, and nobody has messages of it.")


@app.command()
@on_server
@with_options
def change(session: Session, subscription: Subscription, *, options: dict[str, Any]) -> None:
    """Change options of a subscription; what is not given stays as it is."""
    session.output.record(session.patch(path_of("subscriptions", subscription), {"options": options}), FIELDS)


@app.command()
@on_server
def delete(session: Session, subscription: Subscription, *, yes: Yes = False) -> None:
    """Delete a subscription; the messages stay in the topic."""
    known = session.get(path_of("subscriptions", subscription))
    waiting = known["backlog_messages"]
    ask(f"Delete {known['name']} with {counted(waiting, 'message')} waiting?", yes)
    session.delete(path_of("subscriptions", subscription))
    session.output.say(f"Deleted {known['name']}", {"deleted": known["name"]})


@app.command()
@on_server
def consumers(session: Session, subscription: Subscription) -> None:
    """Show who is connected to a subscription, or has messages of it.

    In a pipe: door, holder, kind, address, since when, window, leases, first deadline.
    """
    found = session.get(path_of("subscriptions", subscription, "consumers"))
    session.table(found["consumers"], CONSUMERS, "Nobody is connected, and nobody has messages of it.")


@app.command()
@on_server
def cursors(
    session: Session,
    *,
    topic: Annotated[str | None, typer.Option(metavar="TOPIC", help="Only of this topic.")] = None,
    limit: Limit = 0,
) -> None:
    """Show the readers of the log, such as Spark: where they are and how far behind.

    In a pipe: consumer, topic, offset, messages behind, bytes behind, last batch: when, from, until; subscription.
    """
    rows = session.pages("/cursors", "cursors", topic=topic)
    session.table(islice(rows, limit or None), CURSORS, "There is no cursor.")


@app.command()
@on_server
def leases(session: Session, subscription: Subscription, *, limit: Limit = 0) -> None:
    """Show which messages are in flight, with whom and until when.

    In a pipe: offset, id, deadline, attempts, extensions, door, holder, since when.
    """
    rows = session.pages(path_of("subscriptions", subscription, "leases"), "leases")
    session.table(islice(rows, limit or None), LEASES, "Nothing is in flight.")


Receipts = Annotated[list[str], typer.Argument(metavar="RECEIPT", help="As pull --json shows them.")]


@app.command()
@on_server
def ack(session: Session, subscription: Subscription, receipts: Receipts) -> None:
    """Settle deliveries by their receipts."""
    _settle(session, subscription, "ack", {"receipts": receipts})


@app.command()
@on_server
def nack(
    session: Session,
    subscription: Subscription,
    receipts: Receipts,
    *,
    delay: Annotated[str | None, typer.Option(metavar="DURATION", help="Not before so long.")] = None,
) -> None:
    """Give deliveries back, to be delivered again."""
    wait = {} if delay is None else {"delay_seconds": seconds(delay, "--delay")}
    _settle(session, subscription, "nack", {"receipts": receipts, **wait})


@app.command()
@on_server
def extend(
    session: Session,
    subscription: Subscription,
    receipts: Receipts,
    *,
    by: Annotated[str, typer.Option(metavar="DURATION", help="From now.")] = "60s",
) -> None:
    """Let leases end later."""
    _settle(session, subscription, "extend", {"receipts": receipts, "seconds": seconds(by, "--by")})


def _settle(session: Session, subscription: str, verb: str, body: dict[str, Any]) -> None:
    answer = session.post(path_of("subscriptions", subscription, verb), body)
    stale, malformed = len(answer["stale"]), len(answer["malformed"])
    counts = {"no longer good": stale, "no receipt of this subscription": malformed}
    said = [f"{answer['settled']} done", *(f"{what}: {number}" for what, number in counts.items() if number)]
    session.output.say(", ".join(said), answer)
    if stale or malformed:
        raise typer.Exit(FAILED)

"""The reader of seed documents, from files and the admin API. Its errors name the place in the document."""

from __future__ import annotations

import base64
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, TypeVar

from penstock.broker.filters import compile_filter
from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.broker.topology import check_name, check_subscription_options
from penstock.doors.resources import QUEUE_OPTIONS, SUBSCRIPTIONS, TOPICS, full_name, parts_of, subscription_name
from penstock.engine import options as o
from penstock.errors import InvalidArgumentError, PenstockError
from penstock.seeding.topology import (
    SEEDED,
    SUBSCRIPTION,
    TOPIC,
    Document,
    Place,
    QueueSeed,
    SeedError,
    SubscriptionSeed,
    TopicSeed,
    Topology,
    Vendors,
    format_place,
)

T = TypeVar("T", TopicOptions, SubscriptionOptions)

PARTS = ("schemas", "topics", "queues", "subscriptions")
SCHEMAS = "schemas"
ITEMS_MAX, MESSAGES_MAX = 10_000, 1000
ORDERING_WINDOW = 1000  # outstanding messages of a key, as for subscriptions that Pub/Sub clients create

MISSING = "Schemas and options of the Pub/Sub API need its packages: install penstock-broker[google]"

MESSAGE_KEYS = {"data", "data_base64", "attributes", "ordering_key", "delay_seconds", "ttl_seconds"}


_EXTRAS = {"extras": o.Option(o.strings, "extras")}
TOPIC_OPTIONS = o.Options("option of a topic", o.public_options(TopicOptions) | _EXTRAS)
SUBSCRIPTION_OPTIONS = o.Options(
    "option of a subscription",
    o.public_options(SubscriptionOptions) | _EXTRAS,
    unknown_part="Unknown part of {0}: {1}",
)


def default_options(*, ordering: bool, exactly_once: bool) -> SubscriptionOptions:
    """Return the defaults of a subscription: those of a Pub/Sub client, but without expiration."""
    return SubscriptionOptions(
        exactly_once=exactly_once,
        ordering=ordering,
        ordering_window=ORDERING_WINDOW if ordering else 1,
    )


def check_parts(document: Mapping[str, Any]) -> None:
    for key, value in document.items():
        if key not in (*PARTS, "project"):
            raise SeedError.at((key,), f"Unknown key; a seed has project, {', '.join(PARTS)}")
        if key in PARTS and not isinstance(value, list):
            raise SeedError.at((key,), f"{key} must be a list; in TOML: [[{key}]]")
    if "project" in document:
        _check_project(document["project"], ("project",))


@contextmanager
def at(place: Place) -> Iterator[None]:
    """Add the place to errors that are raised inside."""
    try:
        yield
    except SeedError:
        raise
    except o.NotOfKindError as error:
        raise SeedError.at(place, error.plain) from None
    except PenstockError as error:
        raise SeedError.at(place, error.message) from None


class Reader:
    def __init__(self, default_project: str, vendors: Vendors) -> None:
        self._default = default_project
        self._vendors = vendors.by_name
        self._schema_vendor = vendors.schemas

    def read(self, document: Mapping[str, Any]) -> Topology:
        check_parts(document)
        project = self._project(document, self._default, ())
        items = {part: list(_items(document, part)) for part in PARTS}
        if sum(map(len, items.values())) > ITEMS_MAX:
            raise SeedError(f"A seed may have at most {ITEMS_MAX} topics, subscriptions, queues and schemas")
        topology = Topology(
            [self._schema(place, item, project) for place, item in items["schemas"]],
            [self._topic(place, item, project) for place, item in items["topics"]],
            [self._queue(place, item, project) for place, item in items["queues"]],
            [self._subscription(place, item, project) for place, item in items["subscriptions"]],
        )
        readers = [*topology.subscriptions, *(queue.subscription for queue in topology.queues)]
        for kind in (topology.schemas, topology.all_topics(), readers):
            _check_unique([(item.name, item.place) for item in kind])
        return topology

    # ------------------------------------------------------------------ items

    def _schema(self, place: Place, given: Mapping[str, Any], project: str) -> Document:
        name = self._name(given, SCHEMAS, self._project(given, project, place), place)
        if self._schema_vendor is None:
            raise SeedError.at(place, MISSING)
        with at(place):
            body = self._schema_vendor.read_schema(name, _without(given, "name", "project"))
        return Document(self._schema_vendor.schemas, name, body, place)

    def _topic(self, place: Place, given: Mapping[str, Any], project: str) -> TopicSeed:
        project = self._project(given, project, place)
        name = self._name(given, TOPICS, project, place)
        own = _without(given, "name", "project", "messages")
        options, names = self._options(place, own, TOPIC_OPTIONS, TopicOptions())
        options, names = self._with_extras(place, TOPIC, given, project, options, names)
        return TopicSeed(name, options, names, _drafts(given, place), place)

    def _subscription(self, place: Place, given: Mapping[str, Any], project: str) -> SubscriptionSeed:
        project = self._project(given, project, place)
        name = self._name(given, SUBSCRIPTIONS, project, place)
        if "topic" not in given:
            raise SeedError.at(place, "A subscription needs a topic")
        project = parts_of(name, SUBSCRIPTIONS)[0]
        topic = self._name(given, TOPICS, project, place, key="topic")
        own = _without(given, "name", "project", "topic", "start")
        options, names = self._read_subscription(place, own, project, SubscriptionOptions())
        options, names = self._with_extras(place, SUBSCRIPTION, given, project, options, names)
        return SubscriptionSeed(name, topic, options, names, _starts_at_head(given, place), place)

    def _queue(self, place: Place, given: Mapping[str, Any], project: str) -> QueueSeed:
        """Read a queue. Its options belong to its subscription, and the tables of doors to its topic."""
        topics = ("name", "project", "messages", *self._vendors)
        topic = self._topic(place, {name: given[name] for name in topics if name in given}, project)
        own, project = _without(given, *topics), parts_of(topic.name)[0]
        options, names = self._read_subscription(place, own, project, QUEUE_OPTIONS)
        name = subscription_name(*parts_of(topic.name))
        return QueueSeed(topic, SubscriptionSeed(name, topic.name, options, names, at_head=True, place=place))

    # ------------------------------------------------------------------ parts of items

    def _read_subscription(
        self, place: Place, given: Mapping[str, Any], project: str, start: SubscriptionOptions
    ) -> tuple[SubscriptionOptions, frozenset[str]]:
        """Read the options of a subscription, with full topic names. Return them, and the names of the given fields."""
        given = _without(given, "strict_receipts")  # files of earlier releases have it; it has no effect
        options, names = self._options(place, given, SUBSCRIPTION_OPTIONS, start)
        default = default_options(ordering=options.ordering, exactly_once=options.exactly_once)
        if "ordering_window" not in names:
            options = replace(options, ordering_window=default.ordering_window)
        with at((*place, "dead_letter_policy")):
            dead = options.dead_letter_topic and full_name(project, TOPICS, options.dead_letter_topic)
        with at((*place, "expired_topic")):
            expired = options.expired_topic and full_name(project, TOPICS, options.expired_topic)
        options = replace(options, dead_letter_topic=dead, expired_topic=expired)
        with at((*place, "filter")):
            compile_filter(options.filter)
        with at(place):
            check_subscription_options(options)
        return options, names

    def _options(
        self, place: Place, given: Mapping[str, Any], known: o.Options, options: T
    ) -> tuple[T, frozenset[str]]:
        """Read options one by one, so that errors have a place. Return them, and the names of the given fields."""
        fields = set()
        for name, value in _without(given, *self._vendors).items():
            with at((*place, name)):
                options = known.read({name: value}, options)
                if SEEDED in options.extras:
                    raise InvalidArgumentError(f"{SEEDED} is reserved for the server")
            fields |= {
                field
                for field, option in known.options.items()
                if name in (option.name, option.alias) or option.name.startswith(f"{name}.")
            }
        return options, frozenset(fields)

    def _with_extras(
        self, place: Place, kind: str, given: Mapping[str, Any], project: str, options: T, names: frozenset[str]
    ) -> tuple[T, frozenset[str]]:
        """Add the extras from the tables of doors to the options."""
        extras = dict(options.extras)
        for name, vendor in self._vendors.items():
            if vendor is not None and (theirs := [key for key in extras if key in vendor.keys]):
                raise SeedError.at((*place, "extras"), f"{theirs[0]} belongs in the table {name}")
            if name in given:
                if vendor is None:
                    raise SeedError.at((*place, name), MISSING)
                with at((*place, name)):
                    extras |= vendor.read(kind, _table(given[name], (*place, name)), project, options)
                names |= {"extras"}
        return replace(options, extras=extras), names

    def _project(self, given: Mapping[str, Any], default: str, place: Place) -> str:
        return _check_project(given.get("project", default), (*place, "project"))

    def _name(self, given: Mapping[str, Any], kind: str, project: str, place: Place, key: str = "name") -> str:
        name = given.get(key)
        if not isinstance(name, str) or not name:
            raise SeedError.at((*place, key) if key in given else place, f"{key} must be a non-empty string")
        with at((*place, key)):
            full = full_name(project, kind, name)
            check_name(full)
        return full


# ---------------------------------------------------------------------- values


def _check_project(project: object, place: Place) -> str:
    if not isinstance(project, str) or not project or "/" in project:
        raise SeedError.at(place, "A project is a name without slashes")
    return project


def _items(document: Mapping[str, Any], part: str) -> Iterator[tuple[Place, Mapping[str, Any]]]:
    for number, item in enumerate(document.get(part, [])):
        yield (part, number), _table(item, (part, number))


def _table(value: object, place: Place) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise SeedError.at(place, "Expected a table")
    return value


def _without(given: Mapping[str, Any], *names: str) -> dict[str, Any]:
    return {name: value for name, value in given.items() if name not in names}


def _starts_at_head(given: Mapping[str, Any], place: Place) -> bool:
    start = given.get("start", "end")
    if start not in ("end", "beginning"):
        raise SeedError.at((*place, "start"), "start must be end or beginning")
    return bool(start == "beginning")


def _drafts(given: Mapping[str, Any], place: Place) -> tuple[Draft, ...]:
    messages, place = given.get("messages", []), (*place, "messages")
    if not isinstance(messages, list):
        raise SeedError.at(place, "messages must be a list of strings or tables")
    if len(messages) > MESSAGES_MAX:
        raise SeedError.at(place, f"A topic may have at most {MESSAGES_MAX} first messages")
    return tuple(_draft(message, (*place, number)) for number, message in enumerate(messages))


def _draft(given: object, place: Place) -> Draft:
    table = {"data": given} if isinstance(given, str) else _table(given, place)
    if unknown := [key for key in table if key not in MESSAGE_KEYS]:
        raise SeedError.at((*place, unknown[0]), f"Unknown key of a message: {unknown[0]}")
    if "data" in table and "data_base64" in table:
        raise SeedError.at(place, "data and data_base64 exclude each other")
    with at(place):
        try:
            encoded = o.text(table.get("data_base64", ""), "data_base64")
            data = (
                o.text(table["data"], "data").encode() if "data" in table else base64.b64decode(encoded, validate=True)
            )
        except ValueError:
            raise SeedError.at(place, "Message data must be a string, or Base64 in data_base64") from None
        return Draft(
            data,
            o.strings(table.get("attributes", {}), "attributes"),
            o.text(table.get("ordering_key", ""), "ordering_key"),
            o.seconds(table.get("delay_seconds", 0), "delay_seconds"),
            o.seconds(table.get("ttl_seconds", 0), "ttl_seconds"),
        )


def _check_unique(named: Sequence[tuple[str, Place]]) -> None:
    seen: dict[str, Place] = {}
    for name, place in named:
        if name in seen:
            raise SeedError.at(place, f"{name} is already defined at {format_place(seen[name])}")
        seen[name] = place

"""The writer of seed documents: it exports the topology of a server, without defaults."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, TypeVar

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.doors.resources import QUEUE_OPTIONS, SUBSCRIPTIONS, TOPICS, parts_of
from penstock.engine.options import Options
from penstock.engine.port import Kind, Queue, SubscriptionMetadata, TopicMetadata
from penstock.names import prefix
from penstock.seeding.document_reader import SCHEMAS, SUBSCRIPTION_OPTIONS, TOPIC_OPTIONS, default_options
from penstock.seeding.topology import SEEDED, SUBSCRIPTION, TOPIC, Vendors
from penstock.wire.turns import Share

T = TypeVar("T")

CHUNK_NAMES = 100  # names between two looks at the clock


class Writer:
    """The export of one project or of all. Names in the project `home` are short."""

    def __init__(self, queue: Queue, home: str, vendors: Vendors, share: Share) -> None:
        self._queue = queue
        self._share = share
        self._home = home
        self._vendors = vendors.by_name
        self._schemas = vendors.schemas

    async def document(self, project: str | None) -> dict[str, Any]:
        """Return the document. It is made in slices of the share, because thousands of resources take long."""
        subscriptions = await self._load(SUBSCRIPTIONS, project, self._queue.find_subscriptions)
        found = await self._load(TOPICS, project, self._queue.find_topics)  # second, so that no topic is missing
        topics = {topic.name: topic for topic in found}

        def is_read(sub: SubscriptionMetadata) -> bool:
            return not sub.detached and (sub.topic in topics or not _within(sub.topic, TOPICS, project))

        share = self._share
        readers = await share.filter(is_read, subscriptions)
        queues = {sub.topic: sub for sub in await share.filter(lambda sub: self._is_queue(topics, sub), readers)}
        stored = await self._queue.documents(self._schemas.schemas) if self._schemas is not None else {}
        schemas = [schema for schema in sorted(stored.items()) if _within(schema[0], SCHEMAS, project)]
        document: dict[str, Any] = {
            "project": self._home,
            "schemas": await share.map(self._schema, schemas),
            "topics": await share.map(self._topic, [topic for topic in found if topic.name not in queues]),
            "queues": await share.map(self._queue_item, [(topics[name], queues[name]) for name in sorted(queues)]),
            "subscriptions": await share.map(
                self._subscription, [sub for sub in readers if queues.get(sub.topic) is not sub]
            ),
        }
        return {name: part for name, part in document.items() if part}

    async def _load(
        self, kind: Kind, project: str | None, find: Callable[[Sequence[str]], Awaitable[Sequence[T]]]
    ) -> list[T]:
        names = (await self._queue.names(kind, prefix(project, kind) if project else "")).names
        within = await self._share.filter(lambda name: _within(name, kind, project), names)
        return await self._share.map_chunks(find, within, CHUNK_NAMES)

    # ------------------------------------------------------------------ items

    def _schema(self, stored: tuple[str, bytes]) -> dict[str, Any]:
        assert self._schemas is not None, "a schema was found"
        name, body = stored
        return {**self._name_fields(name, SCHEMAS), **self._schemas.show_schema(body)}

    def _topic(self, topic: TopicMetadata) -> dict[str, Any]:
        options, tables = self._split_extras(TOPIC, topic.options)
        return {**self._name_fields(topic.name, TOPICS), **_changes(TOPIC_OPTIONS, options, TopicOptions()), **tables}

    def _subscription(self, subscription: SubscriptionMetadata) -> dict[str, Any]:
        options, tables = self._split_extras(SUBSCRIPTION, subscription.options)
        default = default_options(ordering=options.ordering, exactly_once=options.exactly_once)
        start = replace(default, ordering=False, exactly_once=False)
        project = parts_of(subscription.name, SUBSCRIPTIONS)[0]
        named = {
            **self._name_fields(subscription.name, SUBSCRIPTIONS),
            "topic": _short(subscription.topic, TOPICS, project),
        }
        return {**named, **_reading_options(options, start, project), **tables}

    def _queue_item(self, queue: tuple[TopicMetadata, SubscriptionMetadata]) -> dict[str, Any]:
        topic, subscription = queue
        _, tables = self._split_extras(TOPIC, topic.options)
        options, _ = self._split_extras(SUBSCRIPTION, subscription.options)
        own = _reading_options(options, QUEUE_OPTIONS, parts_of(topic.name)[0])
        return {**self._name_fields(topic.name, TOPICS), **own, **tables}

    def _is_queue(self, topics: Mapping[str, TopicMetadata], reader: SubscriptionMetadata) -> bool:
        """Return whether the subscription and its topic are what a door creates for a queue."""
        topic = topics.get(reader.topic)
        if topic is None or parts_of(topic.name) != parts_of(reader.name, SUBSCRIPTIONS):
            return False
        of_topic, _ = self._split_extras(TOPIC, topic.options)
        of_reader, tables = self._split_extras(SUBSCRIPTION, reader.options)
        is_plain = of_topic == TopicOptions() and not tables and not of_reader.ordering and not of_reader.exactly_once
        return is_plain and of_reader.retention_seconds == 0

    # ------------------------------------------------------------------ parts of items

    def _name_fields(self, name: str, kind: str) -> dict[str, Any]:
        project, last = parts_of(name, kind)
        return {"name": last} if project == self._home else {"name": last, "project": project}

    def _split_extras(self, kind: str, options: Any) -> tuple[Any, dict[str, Any]]:
        """Return the options without the extras of doors, and these extras as a table for each door."""
        if not options.extras:
            return options, {}
        extras = {name: value for name, value in options.extras.items() if value and name != SEEDED}
        tables: dict[str, Any] = {}
        for name, vendor in self._vendors.items():
            own = {key: extras[key] for key in extras if vendor is not None and key in vendor.keys}
            if vendor is not None and own:
                tables[name] = dict(vendor.show(kind, own))
                extras = {key: value for key, value in extras.items() if key not in own}
        return replace(options, extras=extras), {name: table for name, table in tables.items() if table}


def _short(name: str, kind: str, home: str) -> str:
    """Return the short name of a resource in the project `home`, or else its full name."""
    project, last = parts_of(name, kind)
    return last if project == home else name


def _within(name: str, kind: str, project: str | None) -> bool:
    own = parts_of(name, kind)[0]
    return own == project if project else bool(own)


def _reading_options(options: SubscriptionOptions, start: SubscriptionOptions, project: str) -> dict[str, Any]:
    if options.dead_letter_topic or options.expired_topic:
        dead, expired = (_short(name, TOPICS, project) for name in (options.dead_letter_topic, options.expired_topic))
        options = replace(options, dead_letter_topic=dead, expired_topic=expired)
    return _changes(SUBSCRIPTION_OPTIONS, options, start)


def _changes(table: Options, options: Any, default: Any) -> dict[str, Any]:
    values, defaults = table.show(options), table.show(default)
    return {name: value for name, value in values.items() if value != defaults[name]}

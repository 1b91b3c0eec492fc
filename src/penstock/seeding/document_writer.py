"""The writer of seed documents: it exports the topology of a server, without defaults."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.doors.resources import QUEUE_OPTIONS, SUBSCRIPTIONS, TOPICS, parts_of
from penstock.engine.options import Options
from penstock.engine.port import Queue, SubscriptionMetadata, TopicMetadata
from penstock.seeding.document_reader import SCHEMAS, SUBSCRIPTION_OPTIONS, TOPIC_OPTIONS, default_options
from penstock.seeding.topology import SEEDED, SUBSCRIPTION, TOPIC, Vendors


class Writer:
    """The export of one project or of all. Names in the project `home` are short."""

    def __init__(self, queue: Queue, home: str, vendors: Vendors) -> None:
        self._queue = queue
        self._home = home
        self._vendors = vendors.by_name
        self._schemas = vendors.schemas

    async def document(self, project: str | None) -> dict[str, Any]:
        resources = await self._queue.topics(), await self._queue.subscriptions()
        schemas = await self._queue.documents(self._schemas.schemas) if self._schemas is not None else {}
        return await asyncio.to_thread(self._describe, *resources, schemas, project)  # thousands of records take long

    def _describe(
        self,
        all_topics: Sequence[TopicMetadata],
        subscriptions: Sequence[SubscriptionMetadata],
        schemas: Mapping[str, bytes],
        project: str | None,
    ) -> dict[str, Any]:
        topics = {topic.name: topic for topic in all_topics if _within(topic.name, TOPICS, project)}
        readers = [sub for sub in subscriptions if not sub.detached and _within(sub.name, SUBSCRIPTIONS, project)]
        queues = {sub.topic: sub for sub in readers if self._is_queue(topics.get(sub.topic), sub)}
        document: dict[str, Any] = {
            "project": self._home,
            "schemas": [
                self._schema(name, schemas[name]) for name in sorted(schemas) if _within(name, SCHEMAS, project)
            ],
            "topics": [self._topic(topics[name]) for name in sorted(topics) if name not in queues],
            "queues": [self._queue_item(topics[name], queues[name]) for name in sorted(queues)],
            "subscriptions": [self._subscription(sub) for sub in sorted(readers) if queues.get(sub.topic) is not sub],
        }
        return {name: part for name, part in document.items() if part}

    # ------------------------------------------------------------------ items

    def _schema(self, name: str, body: bytes) -> dict[str, Any]:
        assert self._schemas is not None, "a schema was found"
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

    def _queue_item(self, topic: TopicMetadata, subscription: SubscriptionMetadata) -> dict[str, Any]:
        _, tables = self._split_extras(TOPIC, topic.options)
        options, _ = self._split_extras(SUBSCRIPTION, subscription.options)
        own = _reading_options(options, QUEUE_OPTIONS, parts_of(topic.name)[0])
        return {**self._name_fields(topic.name, TOPICS), **own, **tables}

    def _is_queue(self, topic: TopicMetadata | None, reader: SubscriptionMetadata) -> bool:
        """Return whether the topic and the subscription are what a door creates for a queue."""
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

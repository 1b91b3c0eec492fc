"""From a server to the document that would make its topology again: short, with nothing that is a default."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.doors.resources import QUEUE_OPTIONS, SUBSCRIPTIONS, TOPICS, parts_of
from penstock.engine.options import Options
from penstock.engine.port import Queue, SubscriptionMetadata, TopicMetadata
from penstock.seeding.reading import SCHEMAS, SUBSCRIPTION_OPTIONS, TOPIC_OPTIONS, default_options
from penstock.seeding.topology import SEEDED, SUBSCRIPTION, TOPIC, Vendors


class Show:
    """The document of one project, or of all; names in `home` are short."""

    def __init__(self, queue: Queue, home: str, vendors: Vendors) -> None:
        self._queue = queue
        self._home = home
        self._vendors = vendors.by_name
        self._schemas = vendors.schemas

    async def document(self, project: str | None) -> dict[str, Any]:
        found = await self._queue.topics(), await self._queue.subscriptions()
        schemas = await self._queue.documents(self._schemas.schemas) if self._schemas is not None else {}
        return await asyncio.to_thread(
            self._described, *found, schemas, project
        )  # thousands of records take their time

    def _described(
        self,
        found: Sequence[TopicMetadata],
        subscriptions: Sequence[SubscriptionMetadata],
        schemas: Mapping[str, bytes],
        project: str | None,
    ) -> dict[str, Any]:
        topics = {each.name: each for each in found if _within(each.name, TOPICS, project)}
        readers = [each for each in subscriptions if not each.detached and _within(each.name, SUBSCRIPTIONS, project)]
        queues = {each.topic: each for each in readers if self._is_queue(topics.get(each.topic), each)}
        document: dict[str, Any] = {
            "project": self._home,
            "schemas": [
                self._schema(name, schemas[name]) for name in sorted(schemas) if _within(name, SCHEMAS, project)
            ],
            "topics": [self._topic(topics[name]) for name in sorted(topics) if name not in queues],
            "queues": [self._queue_item(topics[name], queues[name]) for name in sorted(queues)],
            "subscriptions": [
                self._subscription(each) for each in sorted(readers) if queues.get(each.topic) is not each
            ],
        }
        return {name: part for name, part in document.items() if part}

    # ------------------------------------------------------------------ items

    def _schema(self, name: str, body: bytes) -> dict[str, Any]:
        assert self._schemas is not None, "a schema was found"
        return {**self._named(name, SCHEMAS), **self._schemas.show_schema(body)}

    def _topic(self, topic: TopicMetadata) -> dict[str, Any]:
        options, told = self._told(TOPIC, topic.options)
        return {**self._named(topic.name, TOPICS), **_changes(TOPIC_OPTIONS, options, TopicOptions()), **told}

    def _subscription(self, each: SubscriptionMetadata) -> dict[str, Any]:
        options, told = self._told(SUBSCRIPTION, each.options)
        default = default_options(ordering=options.ordering, exactly_once=options.exactly_once)
        start = replace(default, ordering=False, exactly_once=False)
        project = parts_of(each.name, SUBSCRIPTIONS)[0]
        topic = _short(each.topic, TOPICS, project)
        return {**self._named(each.name, SUBSCRIPTIONS), "topic": topic, **_reading(options, start, project), **told}

    def _queue_item(self, topic: TopicMetadata, each: SubscriptionMetadata) -> dict[str, Any]:
        _, told = self._told(TOPIC, topic.options)
        options, _ = self._told(SUBSCRIPTION, each.options)
        own = _reading(options, QUEUE_OPTIONS, parts_of(topic.name)[0])
        return {**self._named(topic.name, TOPICS), **own, **told}

    def _is_queue(self, topic: TopicMetadata | None, reader: SubscriptionMetadata) -> bool:
        """A topic with a subscription as the doors make them for queues, and nothing else to be said of the topic."""
        if topic is None or parts_of(topic.name) != parts_of(reader.name, SUBSCRIPTIONS):
            return False
        of_topic, _ = self._told(TOPIC, topic.options)
        of_reader, told = self._told(SUBSCRIPTION, reader.options)
        is_plain = of_topic == TopicOptions() and not told and not of_reader.ordering and not of_reader.exactly_once
        return is_plain and (of_reader.strict_receipts, of_reader.retention_seconds) == (False, 0)

    # ------------------------------------------------------------------ parts of items

    def _named(self, name: str, kind: str) -> dict[str, Any]:
        project, last = parts_of(name, kind)
        return {"name": last} if project == self._home else {"name": last, "project": project}

    def _told(self, kind: str, options: Any) -> tuple[Any, dict[str, Any]]:
        """The options without the extras that doors can show, and what they show."""
        if not options.extras:
            return options, {}
        extras = {name: value for name, value in options.extras.items() if value and name != SEEDED}
        told: dict[str, Any] = {}
        for name, vendor in self._vendors.items():
            own = {key: extras[key] for key in extras if vendor is not None and key in vendor.keys}
            if vendor is not None and own:
                told[name] = dict(vendor.show(kind, own))
                extras = {key: value for key, value in extras.items() if key not in own}
        return replace(options, extras=extras), {name: shown for name, shown in told.items() if shown}


def _short(name: str, kind: str, home: str) -> str:
    """A name that an item in a project mentions: short in that project."""
    project, last = parts_of(name, kind)
    return last if project == home else name


def _within(name: str, kind: str, project: str | None) -> bool:
    found = parts_of(name, kind)[0]
    return found == project if project else bool(found)


def _reading(options: SubscriptionOptions, start: SubscriptionOptions, project: str) -> dict[str, Any]:
    if options.dead_letter_topic or options.expired_topic:
        dead, expired = (_short(name, TOPICS, project) for name in (options.dead_letter_topic, options.expired_topic))
        options = replace(options, dead_letter_topic=dead, expired_topic=expired)
    return _changes(SUBSCRIPTION_OPTIONS, options, start)


def _changes(known: Options, options: Any, default: Any) -> dict[str, Any]:
    """What has to be said to get from the default to these options."""
    shown, plain = known.show(options), known.show(default)
    return {name: value for name, value in shown.items() if value != plain[name]}

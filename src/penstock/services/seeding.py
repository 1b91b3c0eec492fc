"""The application of a topology: missing resources are created, existing ones stay unless an update is requested.

Everything is checked first and then decided in one turn, so an invalid topology changes nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
from collections.abc import Awaitable, Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple, TypeVar

import msgspec

from penstock.broker.limits import ATTRIBUTES_MAX, check_draft, check_labels
from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.engine.options import public_options
from penstock.engine.port import Once, Queue, SubscriptionMetadata, TopicMetadata, refusal
from penstock.errors import InvalidArgumentError, PenstockError
from penstock.names import NEW_NAME_RULE, SUBSCRIPTIONS, TOPICS, is_new_name
from penstock.seeding.topology import (
    QUEUE,
    SCHEMA,
    SEEDED,
    SUBSCRIPTION,
    TOPIC,
    Document,
    QueueSeed,
    SeedError,
    SubscriptionSeed,
    TopicSeed,
    Topology,
    Vendors,
)
from penstock.wire.turns import Turns

T = TypeVar("T", TopicOptions, SubscriptionOptions)
Call = Callable[[], "asyncio.Future[Any]"]

OPTIONS = {TOPIC: public_options(TopicOptions), SUBSCRIPTION: public_options(SubscriptionOptions)}
CREATED, CHANGED, UNCHANGED, CONFLICT = "created", "changed", "unchanged", "conflict"


class Finding(NamedTuple):
    """The result for one part of a topology."""

    kind: str
    name: str
    what: str  # created, changed, unchanged, conflict
    reason: str = ""  # of a conflict; of a change: the options


@dataclass(slots=True)
class Plan:
    findings: list[Finding] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)  # of the port, in order
    options: dict[str, TopicOptions] = field(default_factory=dict)  # of topics, as they will be
    messages: int = 0  # to publish

    @property
    def conflicts(self) -> list[Finding]:
        return [finding for finding in self.findings if finding.what == CONFLICT]


class Applying:
    def __init__(self, queue: Queue, vendors: Vendors, *, update: bool = False) -> None:
        self._queue = queue
        self._vendors = vendors.by_name
        self._schemas = vendors.schemas
        self._update = update

    async def apply(self, topology: Topology) -> Plan:
        plan = await self.plan(topology)
        decided, turns = [], Turns()
        for call in plan.calls:
            decided.append(future := call())
            future.add_done_callback(lambda done: done.exception())  # marks every error as retrieved
            await turns.give()
        await asyncio.gather(*decided)
        await self._queue.commit()
        return plan

    async def plan(self, topology: Topology) -> Plan:
        """Return the changes to make. Raise SeedError if a named resource does not exist anywhere."""
        turns = Turns()
        await self._check(topology, turns)
        plan = Plan()
        for schema in topology.schemas:
            await self._plan_schema(plan, schema)
            await turns.give()
        for topic in topology.topics:
            plan.findings.append(await self._plan_topic(plan, topic))
            await turns.give()
        for queue in topology.queues:
            await self._plan_queue(plan, queue)
            await turns.give()
        for subscription in topology.subscriptions:
            await self._plan_subscription(plan, subscription)
            await turns.give()
        for topic in topology.all_topics():
            self._plan_messages(plan, topic)
            await turns.give()
        return plan

    # ------------------------------------------------------------------ what has to be there

    async def _check(self, topology: Topology, turns: Turns) -> None:
        made = {item.name for item in topology.all_topics()}
        documents = {(item.kind, item.name) for item in topology.schemas}
        readers = [*topology.subscriptions, *(queue.subscription for queue in topology.queues)]
        for reader in readers:
            named = {
                "topic": reader.topic,
                "dead_letter_policy": reader.options.dead_letter_topic,
                "expired_topic": reader.options.expired_topic,
            }
            for key, topic in named.items():
                if topic and topic not in made and await self._queue.find_topic(topic) is None:
                    place = (*reader.place, key)
                    raise SeedError.at(place, f"There is no topic {topic}, neither in the seed nor on the server")
            await turns.give()
        await self._check_labels([*topology.all_topics(), *readers])
        limits = replace(self._queue.limits, attributes_max=ATTRIBUTES_MAX)
        for seed in topology.all_topics():
            for number, draft in enumerate(seed.drafts):
                try:
                    check_draft(draft, limits)
                except PenstockError as error:
                    raise SeedError.at((*seed.place, "messages", number), error.message) from None
            await turns.give()
        extras = [(TOPIC, item.options.extras, item.place) for item in topology.all_topics()]
        extras += [(SUBSCRIPTION, item.options.extras, item.place) for item in readers]
        for kind, kept, place in extras:
            for vendor in filter(None, self._vendors.values()):
                for needed in vendor.needs(kind, kept):
                    if needed not in documents and await self._queue.document(*needed) is None:
                        raise SeedError.at(place, f"There is no {needed[1]}, neither in the seed nor on the server")
            await turns.give()

    async def _check_labels(self, seeds: Iterable[TopicSeed | SubscriptionSeed]) -> None:
        """Refuse labels beyond the limits, except those that the server has from before the limits."""
        for seed in seeds:
            try:
                check_labels(seed.options.labels)
            except InvalidArgumentError as error:
                find: Callable[[str], Awaitable[TopicMetadata | SubscriptionMetadata | None]] = (
                    self._queue.find_topic if isinstance(seed, TopicSeed) else self._queue.find_subscription
                )
                known = await find(seed.name)
                if known is None or known.options.labels != seed.options.labels:
                    raise SeedError.at((*seed.place, "labels"), error.message) from None

    # ------------------------------------------------------------------ kinds of things

    async def _plan_schema(self, plan: Plan, wanted: Document) -> None:
        assert self._schemas is not None, "a schema was read"
        known = await self._queue.document(wanted.kind, wanted.name)
        try:
            body = wanted.body if known is None else self._schemas.merge_schemas(known, wanted.body)
        except InvalidArgumentError as error:
            plan.findings.append(Finding(SCHEMA, wanted.name, CONFLICT, error.message))
            return
        reason = "definition" if body != known else ""
        what = self._verdict(is_new=known is None, differs=reason)
        plan.findings.append(Finding(SCHEMA, wanted.name, what, reason if known is not None else ""))
        if what in (CREATED, CHANGED):
            plan.calls.append(lambda: self._queue.put_document(wanted.kind, wanted.name, body))

    async def _plan_topic(self, plan: Plan, wanted: TopicSeed) -> Finding:
        known = await self._queue.find_topic(wanted.name)
        if known is None and not is_new_name(wanted.name, TOPICS):
            return Finding(TOPIC, wanted.name, CONFLICT, NEW_NAME_RULE)
        if known is None:
            plan.options[wanted.name] = wanted.options
            plan.calls.append(lambda: self._queue.create_topic(wanted.name, wanted.options))
            return Finding(TOPIC, wanted.name, CREATED)
        options, names = self._merge_options(TOPIC, known.options, wanted.options, wanted.given)
        what = self._verdict(is_new=False, differs=names)
        plan.options[wanted.name] = options if what == CHANGED else known.options
        if what == CHANGED:
            plan.calls.append(lambda: self._queue.change_topic(wanted.name, options))
        return Finding(TOPIC, wanted.name, what, names)

    async def _plan_queue(self, plan: Plan, wanted: QueueSeed) -> None:
        topic, reader = wanted.topic, wanted.subscription
        known = await self._queue.find_subscription(reader.name)
        if (known is None or known.detached) and not is_new_name(topic.name, TOPICS):
            plan.findings.append(Finding(QUEUE, topic.name, CONFLICT, NEW_NAME_RULE))
        elif known is None or known.detached:
            plan.options[topic.name] = topic.options
            if await self._queue.find_topic(topic.name) is not None:
                await self._plan_topic(plan, topic)
            plan.calls.append(lambda: self._queue.provide_queue(topic.name, reader.name, reader.options, topic.options))
            plan.findings.append(Finding(QUEUE, topic.name, CREATED))
        else:
            about = await self._plan_topic(plan, topic)
            what, reason = self._compare(plan, known, reader)
            worst = max(what, about.what, key=(UNCHANGED, CREATED, CHANGED, CONFLICT).index)
            reasons = ", ".join(filter(None, (reason, about.reason)))
            plan.findings.append(Finding(QUEUE, topic.name, worst, reasons))

    async def _plan_subscription(self, plan: Plan, wanted: SubscriptionSeed) -> None:
        known = await self._queue.find_subscription(wanted.name)
        if known is not None:
            what, reason = self._compare(plan, known, wanted)
            plan.findings.append(Finding(SUBSCRIPTION, wanted.name, what, reason))
        elif not is_new_name(wanted.name, SUBSCRIPTIONS):
            plan.findings.append(Finding(SUBSCRIPTION, wanted.name, CONFLICT, NEW_NAME_RULE))
        elif not await self._has_topic(plan, wanted.topic):
            plan.findings.append(Finding(SUBSCRIPTION, wanted.name, CONFLICT, f"There is no topic {wanted.topic}"))
        else:
            plan.calls.append(lambda: self._make(wanted))
            plan.findings.append(Finding(SUBSCRIPTION, wanted.name, CREATED))

    async def _has_topic(self, plan: Plan, topic: str) -> bool:
        return topic in plan.options or await self._queue.find_topic(topic) is not None

    def _make(self, wanted: SubscriptionSeed) -> asyncio.Future[SubscriptionMetadata]:
        if wanted.at_head:
            return self._queue.create_subscription_at(wanted.name, wanted.topic, 0, wanted.options)
        return self._queue.create_subscription(wanted.name, wanted.topic, wanted.options)

    def _compare(self, plan: Plan, known: SubscriptionMetadata, wanted: SubscriptionSeed) -> tuple[str, str]:
        """Return the result for an existing subscription, and the reason."""
        if known.detached:
            return CONFLICT, "The subscription is detached"
        if known.topic != wanted.topic:
            return CONFLICT, f"The subscription reads another topic: {known.topic}"
        if "ordering" in wanted.given and known.options.ordering != wanted.options.ordering:
            return CONFLICT, "enable_message_ordering cannot be changed"
        options, names = self._merge_options(SUBSCRIPTION, known.options, wanted.options, wanted.given)
        what = self._verdict(is_new=False, differs=names)
        if what == CHANGED:
            plan.calls.append(lambda: self._queue.change_subscription(wanted.name, options))
        return what, names

    def _merge_options(self, kind: str, known: T, wanted: T, given: frozenset[str]) -> tuple[T, str]:
        """Return the existing options with the options of the seed, and the names of options that differ."""
        changes = {name: getattr(wanted, name) for name in given if name != "extras"}
        differ = [OPTIONS[kind][name].name for name, value in changes.items() if value != getattr(known, name)]
        extras, others = dict(known.extras), dict(wanted.extras)
        for name, vendor in self._vendors.items() if others else ():
            if vendor is not None and (merged := vendor.merge(kind, known.extras, wanted.extras)):
                differ.append(name)
                extras |= merged
            others = {key: value for key, value in others.items() if vendor is None or key not in vendor.keys}
        if extras != extras | others:
            differ.append("extras")
        return (replace(known, **changes, extras=extras | others) if differ else known), ", ".join(sorted(differ))

    def _verdict(self, *, is_new: bool, differs: str) -> str:
        if is_new:
            return CREATED
        return UNCHANGED if not differs else CHANGED if self._update else CONFLICT

    # ------------------------------------------------------------------ first messages

    def _plan_messages(self, plan: Plan, wanted: TopicSeed) -> None:
        """Plan the first messages. A topic remembers which ones it has, so each is published once."""
        options = plan.options.get(wanted.name)
        if options is None or not wanted.drafts:
            return
        had: list[str] = msgspec.json.decode(options.extras.get(SEEDED, "[]"), type=list[str])
        new = {digest: draft for digest, draft in _by_digest(wanted.drafts).items() if digest not in had}
        if new:
            plan.messages += len(new)
            plan.calls.append(lambda: self._publish(wanted.name, options, had, new))

    def _publish(
        self, name: str, options: TopicOptions, had: list[str], new: Mapping[str, Draft]
    ) -> asyncio.Future[Any]:
        """Publish first messages under a publish-once key, in case a crash loses the record of it."""
        producer = f"seed {hashlib.sha256(' '.join(new).encode()).hexdigest()[:32]}"
        published = self._queue.publish(name, list(new.values()), Once(producer, 0, 0))
        if refusal(published) is not None:
            return published
        noted = msgspec.json.encode([*had, *new]).decode()
        options = replace(options, extras={**options.extras, SEEDED: noted})
        return asyncio.gather(published, self._queue.change_topic(name, options))


def _by_digest(drafts: tuple[Draft, ...]) -> dict[str, Draft]:
    """Return drafts by a digest of their content. Equal drafts get different digests."""
    by_digest: dict[str, Draft] = {}
    for draft in drafts:
        content = msgspec.json.encode([*draft[:1], sorted(draft.attributes.items()), *draft[2:]])
        number = 0
        while (digest := hashlib.sha256(b"%d %s" % (number, content)).hexdigest()[:16]) in by_digest:
            number += 1
        by_digest[digest] = draft
    return by_digest

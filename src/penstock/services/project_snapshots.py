"""Snapshots of a project: the unacked messages of all its subscriptions at one instant, to restore later.

A snapshot of a project consists of a snapshot of each of its subscriptions, all taken in one turn of the event loop,
and a document that lists the topics and subscriptions with their options.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Final, Literal, NamedTuple

import msgspec

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.engine.port import Queue, SnapshotDump, SubscriptionMetadata, TopicMetadata
from penstock.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, PenstockError
from penstock.names import NEW_NAME_RULE, SNAPSHOTS, SUBSCRIPTIONS, full_name, is_new_id, parts_of

DOCUMENTS = "project-snapshots"
SUBSCRIPTIONS_MAX = 10_000  # in one snapshot of a project
NAME_MAX = 100  # characters
LISTED_MAX = 100  # subscriptions listed in one answer
EXPIRED = "its snapshot has expired"

RESTORED: Final = "restored"
MADE_AGAIN: Final = "made again"
MISSING: Final = "missing"


class TopicState(msgspec.Struct):
    name: str
    identity: str
    options: TopicOptions


class SubscriptionState(msgspec.Struct):
    name: str
    topic: str
    options: SubscriptionOptions
    snapshot: str  # name of its snapshot; empty if none could be taken
    reason: str = ""  # why none could be taken


class ProjectState(msgspec.Struct):
    """The stored document of a snapshot."""

    at: int
    topics: list[TopicState]
    subscriptions: list[SubscriptionState]


class Missing(NamedTuple):
    """A subscription whose unacked messages a snapshot does not hold."""

    name: str
    topic: str
    reason: str


class ProjectSnapshot(NamedTuple):
    name: str
    project: str
    at: int
    expires_at: int  # when the first of its snapshots expires; 0 if it has none
    topics: int
    subscriptions: int
    missing: Sequence[Missing]


class RestoreOutcome(msgspec.Struct):
    name: str
    topic: str
    outcome: Literal["restored", "made again", "missing"]
    reason: str = ""


class Restored(NamedTuple):
    outcomes: Sequence[RestoreOutcome]
    untouched: Sequence[str]  # subscriptions that were created after the snapshot

    def count(self, outcome: str) -> int:
        return sum(restored.outcome == outcome for restored in self.outcomes)


class ProjectSnapshots:
    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    # ------------------------------------------------------------------ taking and deleting

    async def create(self, project: str, name: str) -> ProjectSnapshot:
        queue, key = self._queue, _key(project, name)
        if await queue.document(DOCUMENTS, key) is not None:
            raise AlreadyExistsError(f"Snapshot already exists: {name}")
        subscriptions = await self._subscriptions(project)
        read = {subscription.topic for subscription in subscriptions}
        topics = [topic for topic in await queue.topics() if parts_of(topic.name)[0] == project or topic.name in read]
        if not subscriptions and not topics:
            raise NotFoundError(f"Project not found: {project}")
        if len(subscriptions) > SUBSCRIPTIONS_MAX:
            raise InvalidArgumentError(f"A snapshot holds at most {SUBSCRIPTIONS_MAX} subscriptions")
        await self._drop(_prefix(project, name))  # left over from a snapshot that was interrupted
        at = queue.clock.now()
        # All snapshots are decided before any is awaited, so that nothing happens in between.
        taken = [queue.create_snapshot(_snapshot(project, name, reader), reader.name) for reader in subscriptions]
        answers = await asyncio.gather(*taken, return_exceptions=True)
        states = [_state_of(*pair) for pair in zip(subscriptions, answers, strict=True)]
        state = ProjectState(at, [TopicState(topic.name, topic.identity, topic.options) for topic in topics], states)
        await queue.put_document(DOCUMENTS, key, msgspec.json.encode(state))
        return _summary(key, state, await queue.snapshots())

    async def delete(self, project: str, name: str) -> None:
        await self._find(project, name)
        await self._queue.remove_document(DOCUMENTS, _key(project, name))
        await self._drop(_prefix(project, name))

    async def _drop(self, prefix: str) -> None:
        names = [snapshot.name for snapshot in await self._queue.snapshots() if snapshot.name.startswith(prefix)]
        await asyncio.gather(*map(self._queue.delete_snapshot, names), return_exceptions=True)

    async def _subscriptions(self, project: str) -> list[SubscriptionMetadata]:
        return [
            reader for reader in await self._queue.subscriptions() if parts_of(reader.name, SUBSCRIPTIONS)[0] == project
        ]

    # ------------------------------------------------------------------ looking

    async def names(self, project: str) -> list[str]:
        keys = [key.split("/", 1) for key in await self._queue.documents(DOCUMENTS)]
        return [name for owner, name in keys if owner == project]

    async def show(self, project: str, names: Sequence[str]) -> list[ProjectSnapshot]:
        states = [(name, await self._find(project, name)) for name in names]
        snapshots = await self._queue.snapshots()
        return [_summary(_key(project, name), state, snapshots) for name, state in states]

    async def _find(self, project: str, name: str) -> ProjectState:
        document = await self._queue.document(DOCUMENTS, _key(project, name))
        if document is None:
            raise NotFoundError(f"Snapshot not found: {name}")
        return msgspec.json.decode(document, type=ProjectState)

    # ------------------------------------------------------------------ restoring

    async def restore(self, project: str, name: str, *, dry_run: bool) -> Restored:
        """Seek every subscription back to its snapshot. Create deleted subscriptions and topics again."""
        queue, state = self._queue, await self._find(project, name)
        kept = {snapshot.name for snapshot in await queue.snapshots()}
        identities = {topic.name: topic.identity for topic in state.topics}
        outcomes = []
        for subscription in state.subscriptions:
            topic = await queue.find_topic(subscription.topic)
            now = await queue.find_subscription(subscription.name)
            is_same = topic is not None and topic.identity == identities.get(topic.name)
            is_kept = subscription.snapshot in kept
            outcome = _outcome(subscription, now, is_same, is_kept)
            if outcome.outcome != MISSING and not dry_run:
                await self._restore(state, subscription, topic, now, seek=is_same and is_kept)
            outcomes.append(outcome)
        held = {subscription.name for subscription in state.subscriptions}
        return Restored(
            outcomes,
            [reader.name for reader in await self._subscriptions(project) if reader.name not in held],
        )

    async def _restore(
        self,
        state: ProjectState,
        subscription: SubscriptionState,
        topic: TopicMetadata | None,
        now: SubscriptionMetadata | None,
        *,
        seek: bool,
    ) -> None:
        queue = self._queue
        if topic is None:
            options = next((stored.options for stored in state.topics if stored.name == subscription.topic), None)
            with suppress(AlreadyExistsError):
                await queue.create_topic(subscription.topic, options)
        steps: list[asyncio.Future[Any]] = []  # decided in one turn, so that no client sees the subscription in between
        if now is not None and (now.detached or now.topic != subscription.topic):
            steps.append(queue.delete_subscription(subscription.name))
            now = None
        if now is None:
            steps.append(queue.create_subscription(subscription.name, subscription.topic, subscription.options))
        if seek:
            steps.append(queue.seek_to_snapshot(subscription.name, subscription.snapshot))
        await asyncio.gather(*steps)


def _state_of(subscription: SubscriptionMetadata, answer: SnapshotDump | BaseException) -> SubscriptionState:
    state = SubscriptionState(subscription.name, subscription.topic, subscription.options, "")
    if isinstance(answer, PenstockError):
        state.reason = answer.message
    elif isinstance(answer, BaseException):
        raise answer
    else:
        state.snapshot = answer.name
    return state


def _outcome(
    subscription: SubscriptionState, now: SubscriptionMetadata | None, is_same: bool, is_kept: bool
) -> RestoreOutcome:
    """Return the outcome for a subscription. `is_same`: its topic was not deleted. `is_kept`: its snapshot is valid."""
    name, topic = subscription.name, subscription.topic
    exists = now is not None and not now.detached
    if not is_same:
        reason = "its topic was deleted, and its messages with it"
    elif not is_kept:
        reason = subscription.reason or EXPIRED
    else:
        return RestoreOutcome(name, topic, RESTORED if exists else MADE_AGAIN)
    if exists:
        return RestoreOutcome(name, topic, MISSING, f"left unchanged: {reason}")
    return RestoreOutcome(name, topic, MADE_AGAIN, f"without its unacked messages: {reason}")


def _summary(key: str, state: ProjectState, snapshots: Sequence[SnapshotDump]) -> ProjectSnapshot:
    project, _, name = key.partition("/")
    held = {subscription.snapshot for subscription in state.subscriptions if subscription.snapshot}
    expiries = {snapshot.name: snapshot.expires_at for snapshot in snapshots if snapshot.name in held}
    missing = [
        Missing(subscription.name, subscription.topic, subscription.reason or EXPIRED)
        for subscription in state.subscriptions
        if subscription.snapshot not in expiries
    ]
    expires_at = min(expiries.values(), default=0)
    return ProjectSnapshot(name, project, state.at, expires_at, len(state.topics), len(state.subscriptions), missing)


def check_new_name(name: str) -> str:
    """Return the name, or raise InvalidArgumentError if a new snapshot of a project may not have it."""
    if not is_new_id(name) or len(name) > NAME_MAX or "~" in name:
        raise InvalidArgumentError(f"{NEW_NAME_RULE}. A snapshot of a project has at most {NAME_MAX}, and no ~")
    return name


def _key(project: str, name: str) -> str:
    return f"{project}/{name}"


def _prefix(project: str, name: str) -> str:
    return full_name(project, SNAPSHOTS, f"{name}~")


def _snapshot(project: str, name: str, subscription: SubscriptionMetadata) -> str:
    return _prefix(project, name) + parts_of(subscription.name, SUBSCRIPTIONS)[1]

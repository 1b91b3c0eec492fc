"""Snapshots of a whole project: what is unacked on every subscription, and what there was, to come back to.

A snapshot of a project is a snapshot of each of its subscriptions, taken in one turn, and a document that says which
topics and subscriptions there were.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime
from typing import Annotated, Any

import msgspec

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.doors.http.admin.calls import Call, Route, project_name
from penstock.doors.http.admin.paging import Paging, page_of
from penstock.doors.http.admin.records import Count, instant, made_at
from penstock.doors.resources import SNAPSHOTS, SUBSCRIPTIONS, full_name, parts_of
from penstock.engine.port import Queue, SnapshotDump, SubscriptionMetadata, TopicMetadata
from penstock.errors import AlreadyExistsError, InvalidArgumentError, NotFoundError, PenstockError

DOCUMENTS = "project-snapshots"
SUBSCRIPTIONS_MAX = 10_000  # of a project, in one snapshot
NAME_MAX = 100

RESTORED, MADE_AGAIN, MISSING = "restored", "made again", "missing"


class TopicState(msgspec.Struct):
    name: str
    identity: str
    options: TopicOptions


class SubscriptionState(msgspec.Struct):
    name: str
    topic: str
    options: SubscriptionOptions
    snapshot: str  # empty: there is none
    reason: str = ""  # why there is none


class ProjectState(msgspec.Struct):
    """The document."""

    at: int
    topics: list[TopicState]
    subscriptions: list[SubscriptionState]


# ---------------------------------------------------------------------- over the wire


class NewProjectSnapshot(msgspec.Struct, forbid_unknown_fields=True):
    name: str


class Restore(msgspec.Struct, forbid_unknown_fields=True):
    dry_run: bool = False


class Kept(msgspec.Struct):
    name: str
    topic: str
    kept: bool
    reason: str


class ProjectSnapshot(msgspec.Struct):
    """It ends when the first of the snapshots in it does."""

    name: str
    project: str
    created_at: datetime
    expires_at: datetime | None
    topics: Count
    subscriptions: Count
    without: Annotated[list[Kept], msgspec.Meta(description="Subscriptions that it does not hold, and why.")]


class ProjectSnapshotPage(msgspec.Struct):
    snapshots: list[ProjectSnapshot]
    next_page_token: str
    total: Count


class RestoreOutcome(msgspec.Struct):
    name: str
    topic: str
    outcome: Annotated[str, msgspec.Meta(description="restored, made again, or missing.")]
    reason: str = ""


class RestoreRecord(msgspec.Struct):
    restored: Count
    made_again: Count
    missing: Count
    subscriptions: list[RestoreOutcome]
    untouched: Annotated[list[str], msgspec.Meta(description="Subscriptions that came later; the first 100.")]


# ---------------------------------------------------------------------- making


async def create_project_snapshot(call: Call[Any, NewProjectSnapshot]) -> ProjectSnapshot:
    project, name, queue = _project(call), _checked(call.body.name), call.queue
    key = _key(project, name)
    if await queue.document(DOCUMENTS, key) is not None:
        raise AlreadyExistsError(f"Snapshot already exists: {name}")
    subscriptions = [each for each in await queue.subscriptions() if parts_of(each.name, SUBSCRIPTIONS)[0] == project]
    read = {each.topic for each in subscriptions}
    topics = [each for each in await queue.topics() if parts_of(each.name)[0] == project or each.name in read]
    if not subscriptions and not topics:
        raise NotFoundError(f"Project not found: {project}")
    if len(subscriptions) > SUBSCRIPTIONS_MAX:
        raise InvalidArgumentError(f"A snapshot holds at most {SUBSCRIPTIONS_MAX} subscriptions")
    await _drop(queue, _prefix(project, name))  # of one that was broken off
    at = queue.clock.now()
    # All are decided before any is waited for, so that nothing happens in between.
    taken = [queue.create_snapshot(_snapshot(project, name, each), each.name) for each in subscriptions]
    answers = await asyncio.gather(*taken, return_exceptions=True)
    states = [_kept(each, answer) for each, answer in zip(subscriptions, answers, strict=True)]
    state = ProjectState(at, [TopicState(each.name, each.identity, each.options) for each in topics], states)
    await queue.put_document(DOCUMENTS, key, msgspec.json.encode(state))
    return _record(key, state, await queue.snapshots())


def _kept(subscription: SubscriptionMetadata, answer: SnapshotDump | BaseException) -> SubscriptionState:
    state = SubscriptionState(subscription.name, subscription.topic, subscription.options, "")
    if isinstance(answer, PenstockError):
        state.reason = answer.message
    elif isinstance(answer, BaseException):
        raise answer
    else:
        state.snapshot = answer.name
    return state


# ---------------------------------------------------------------------- coming back


async def restore_project_snapshot(call: Call[Any, Restore]) -> RestoreRecord:
    """Every subscription goes back to what was unacked; those that are gone are made again, and their topics."""
    queue, (key, state) = call.queue, await _found(call)
    kept = {each.name for each in await queue.snapshots()}
    identities = {each.name: each.identity for each in state.topics}
    outcomes = []
    for subscription in state.subscriptions:
        topic = await queue.find_topic(subscription.topic)
        now = await queue.find_subscription(subscription.name)
        same = topic is not None and topic.identity == identities.get(topic.name)
        outcome = _outcome(subscription, now, same, subscription.snapshot in kept)
        if outcome.outcome != MISSING and not call.body.dry_run:
            await _restore(queue, state, subscription, topic, now, back=same and subscription.snapshot in kept)
        outcomes.append(outcome)
    known = {each.name for each in state.subscriptions}
    project = key.partition("/")[0]
    later = [each.name for each in await queue.subscriptions() if parts_of(each.name, SUBSCRIPTIONS)[0] == project]
    counts = {each: sum(one.outcome == each for one in outcomes) for each in (RESTORED, MADE_AGAIN, MISSING)}
    untouched = [name for name in later if name not in known]
    return RestoreRecord(counts[RESTORED], counts[MADE_AGAIN], counts[MISSING], outcomes, untouched[:100])


def _outcome(
    subscription: SubscriptionState, now: SubscriptionMetadata | None, same: bool, kept: bool
) -> RestoreOutcome:
    """What becomes of a subscription, and what of it cannot come back."""
    name, topic = subscription.name, subscription.topic
    there = now is not None and not now.detached
    if not same:
        why = "its topic was deleted, and with it the messages"
    elif not kept:
        why = subscription.reason or "its snapshot has expired"
    else:
        return RestoreOutcome(name, topic, RESTORED if there else MADE_AGAIN)
    if there:
        return RestoreOutcome(name, topic, MISSING, f"left as it is: {why}")
    return RestoreOutcome(name, topic, MADE_AGAIN, f"without what was unacked: {why}")


async def _restore(
    queue: Queue,
    state: ProjectState,
    subscription: SubscriptionState,
    topic: TopicMetadata | None,
    now: SubscriptionMetadata | None,
    *,
    back: bool,
) -> None:
    if topic is None:
        options = next((each.options for each in state.topics if each.name == subscription.topic), None)
        with suppress(AlreadyExistsError):
            await queue.create_topic(subscription.topic, options)
    steps: list[asyncio.Future[Any]] = []  # decided in one turn: nobody finds it elsewhere
    if now is not None and (now.detached or now.topic != subscription.topic):
        steps.append(queue.delete_subscription(subscription.name))
        now = None
    if now is None:
        steps.append(queue.create_subscription(subscription.name, subscription.topic, subscription.options))
    if back:
        steps.append(queue.seek_to_snapshot(subscription.name, subscription.snapshot))
    await asyncio.gather(*steps)


# ---------------------------------------------------------------------- looking


async def list_project_snapshots(call: Call[Paging, None]) -> ProjectSnapshotPage:
    project = _project(call)
    documents = await call.queue.documents(DOCUMENTS)
    page = page_of([key for key in documents if key.partition("/")[0] == project], call.query)
    broker = await call.queue.snapshots()
    states = {key: msgspec.json.decode(documents[key], type=ProjectState) for key in page.items}
    records = [_record(key, state, broker) for key, state in states.items()]
    return ProjectSnapshotPage(records, page.next_page_token, page.total)


async def show_project_snapshot(call: Call[Any, None]) -> ProjectSnapshot:
    key, state = await _found(call)
    return _record(key, state, await call.queue.snapshots())


async def delete_project_snapshot(call: Call[Any, None]) -> None:
    key, _ = await _found(call)
    await call.queue.remove_document(DOCUMENTS, key)
    await _drop(call.queue, _prefix(*key.split("/", 1)))


async def _drop(queue: Queue, prefix: str) -> None:
    drops = [queue.delete_snapshot(each.name) for each in await queue.snapshots() if each.name.startswith(prefix)]
    await asyncio.gather(*drops, return_exceptions=True)


async def _found(call: Call[Any, Any]) -> tuple[str, ProjectState]:
    name = _checked(call.path["name"])
    key = _key(_project(call), name)
    document = await call.queue.document(DOCUMENTS, key)
    if document is None:
        raise NotFoundError(f"Snapshot not found: {name}")
    return key, msgspec.json.decode(document, type=ProjectState)


def _record(key: str, state: ProjectState, broker: Sequence[SnapshotDump]) -> ProjectSnapshot:
    project, _, name = key.partition("/")
    wanted = {each.snapshot for each in state.subscriptions if each.snapshot}
    expiries = {each.name: each.expires_at for each in broker if each.name in wanted}
    without = [
        Kept(each.name, each.topic, False, each.reason or "its snapshot has expired")
        for each in state.subscriptions
        if each.snapshot not in expiries
    ]
    return ProjectSnapshot(
        name,
        project,
        made_at(state.at),
        instant(min(expiries.values(), default=0)),
        len(state.topics),
        len(state.subscriptions),
        without[:100],
    )


def _project(call: Call[Any, Any]) -> str:
    return project_name(call.path["project"])


def _checked(name: str) -> str:
    if not name or len(name) > NAME_MAX or "/" in name or "~" in name or not name.isprintable():
        raise InvalidArgumentError(f"The name of a snapshot has 1 to {NAME_MAX} characters, and neither / nor ~")
    return name


def _key(project: str, name: str) -> str:
    return f"{project}/{name}"


def _prefix(project: str, name: str) -> str:
    return full_name(project, SNAPSHOTS, f"{name}~")


def _snapshot(project: str, name: str, subscription: SubscriptionMetadata) -> str:
    return _prefix(project, name) + parts_of(subscription.name, SUBSCRIPTIONS)[1]


_PATH = "/projects/{project}/snapshots"

ROUTES = (
    Route("GET", _PATH, list_project_snapshots, "Snapshots of a whole project.", ProjectSnapshotPage, Paging),
    Route(
        "POST",
        _PATH,
        create_project_snapshot,
        "Remember what is unacked on every subscription of a project.",
        ProjectSnapshot,
        body=NewProjectSnapshot,
        status=201,
    ),
    Route("GET", _PATH + "/{name}", show_project_snapshot, "A snapshot of a project.", ProjectSnapshot),
    Route("DELETE", _PATH + "/{name}", delete_project_snapshot, "Delete a snapshot of a project."),
    Route("POST", _PATH + "/{name}/restore", restore_project_snapshot, "Go back to it.", RestoreRecord, body=Restore),
)

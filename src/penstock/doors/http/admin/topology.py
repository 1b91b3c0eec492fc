"""The topology of the server as one document: shown and applied."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Annotated, Any, Protocol

import msgspec

from penstock.doors.http.admin.calls import Call, project_name, route
from penstock.errors import UnavailableError

Items = list[dict[str, Any]]


class Finding(Protocol):
    """The result for one part of a document."""

    @property
    def kind(self) -> str: ...

    @property
    def name(self) -> str: ...

    @property
    def what(self) -> str: ...

    @property
    def reason(self) -> str: ...


class Plan(Protocol):
    @property
    def findings(self) -> Sequence[Finding]: ...

    @property
    def messages(self) -> int: ...


class Topologies(Protocol):
    """The service that shows and applies topologies."""

    async def document(self, project: str | None = None) -> Mapping[str, Any]: ...

    async def apply(self, document: Mapping[str, Any], *, update: bool = False, dry_run: bool = False) -> Plan: ...


class TopologyQuery(msgspec.Struct, forbid_unknown_fields=True):
    project: Annotated[str, msgspec.Meta(description="Only this project.")] = ""


class Topology(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A topology in the format of seed files: docs/seeding.md."""

    project: Annotated[str, msgspec.Meta(description="Project of short names.")] = ""
    schemas: Items = []
    topics: Items = []
    queues: Items = []
    subscriptions: Items = []


class WantedTopology(Topology, forbid_unknown_fields=True, omit_defaults=True):
    update: Annotated[bool, msgspec.Meta(description="Change existing resources that differ.")] = False
    dry_run: Annotated[bool, msgspec.Meta(description="Preview: change nothing.")] = False


class Part(msgspec.Struct, omit_defaults=True):
    kind: str
    name: str
    reason: str = ""


class TopologyOutcome(msgspec.Struct):
    created: list[Part]
    changed: list[Part]
    unchanged: list[Part]
    conflicts: list[Part]
    messages: Annotated[int, msgspec.Meta(ge=0, description="Number of first messages that were published.")]
    dry_run: bool


async def show_topology(call: Call[TopologyQuery, None]) -> Topology:
    project = call.query.project
    return Topology(**await _topologies(call).document(project_name(project) if project else None))


async def apply_topology(call: Call[Any, WantedTopology]) -> TopologyOutcome:
    body = call.body
    document = {name: value for name in Topology.__struct_fields__ if (value := getattr(body, name))}
    plan = await _topologies(call).apply(document, update=body.update, dry_run=body.dry_run)
    outcome = TopologyOutcome([], [], [], [], plan.messages, body.dry_run)
    lists = {
        "created": outcome.created,
        "changed": outcome.changed,
        "unchanged": outcome.unchanged,
        "conflict": outcome.conflicts,
    }
    for each in plan.findings:
        lists[each.what].append(Part(each.kind, each.name, each.reason))
    return outcome


def _topologies(call: Call[Any, Any]) -> Topologies:
    if call.context.topologies is None:
        raise UnavailableError("This server cannot show its topology")
    return call.context.topologies


ROUTES = (
    route("GET", "/topology", show_topology, "Get the topics, subscriptions, queues and schemas as one document."),
    route(
        "POST",
        "/topology",
        apply_topology,
        "Create the missing resources of a document. An invalid document changes nothing.",
    ),
)

"""The topology of the server as one document: shown and applied."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Protocol

import msgspec

from penstock.broker.model import Options, SubscriptionOptions, TopicOptions
from penstock.doors.http.admin.calls import Call, project_name, route
from penstock.doors.http.admin.options import schema_of
from penstock.errors import UnavailableError
from penstock.services.seeding import Plan
from penstock.wire.turns import Share

_OBJECT, _TEXT = {"type": "object"}, {"type": "string"}
_MESSAGES = {"type": "array", "description": "First messages.", "items": {"type": ["string", "object"]}}
_DOORS = {name: {**_OBJECT, "description": f"Options of the {name} port only."} for name in ("azure", "pubsub")}


def _keys(record: type[Options] | None, **keys: Any) -> msgspec.Meta:
    """Return the schema of a table with these keys, and with the options of a record."""
    options = schema_of(record)["properties"] | _DOORS | {"extras": _OBJECT} if record is not None else {}
    properties = {"name": _TEXT, "project": _TEXT, **keys, **options}
    return msgspec.Meta(extra_json_schema={"properties": properties, "required": ["name"]})


_REVISIONS = {"type": "array", "items": _OBJECT}
Schema = Annotated[dict[str, Any], _keys(None, type=_TEXT, definition=_TEXT, revisions=_REVISIONS)]
Topic = Annotated[dict[str, Any], _keys(TopicOptions, messages=_MESSAGES)]
Queue = Annotated[dict[str, Any], _keys(SubscriptionOptions, messages=_MESSAGES)]
Subscription = Annotated[dict[str, Any], _keys(SubscriptionOptions, topic=_TEXT, start={"enum": ["beginning", "end"]})]


class Topologies(Protocol):
    """The service that shows and applies topologies."""

    async def document(self, project: str | None, share: Share) -> Mapping[str, Any]: ...

    async def apply(self, document: Mapping[str, Any], *, update: bool = False, dry_run: bool = False) -> Plan: ...


class TopologyQuery(msgspec.Struct, forbid_unknown_fields=True):
    project: Annotated[str, msgspec.Meta(description="Only this project.")] = ""


class Topology(msgspec.Struct, forbid_unknown_fields=True, omit_defaults=True):
    """A topology in the format of seed files: docs/seeding.md."""

    project: Annotated[str, msgspec.Meta(description="Project of short names.")] = ""
    schemas: list[Schema] = []
    topics: list[Topic] = []
    queues: list[Queue] = []
    subscriptions: list[Subscription] = []


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
    name = project_name(project) if project else None
    return Topology(**await _topologies(call).document(name, call.context.listing))


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
    for finding in plan.findings:
        lists[finding.what].append(Part(finding.kind, finding.name, finding.reason))
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

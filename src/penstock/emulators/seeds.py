"""Seeds in the formats of other emulators, as variables and files, converted to our documents.

PUBSUB_PROJECT1=project,topic:subscription:subscription~300+host/path     and 2, 3 ..., and PUBSUB_PROJECT_anything
PUBSUB_PROJECT=project  PUBSUB_TOPIC=a,b  PUBSUB_SUBSCRIPTION=x,y          by position
[{"project": ..., "topic": ..., "subscriptions": [{"name": ..., any field}]}]
{"projects": [{"name": ..., "topics": [{"name": ..., "subscriptions": [...]}]}]}
[[subscription]] project, topic, subscription
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import Any

from penstock.engine.options import SUBSCRIPTION as OPTIONS
from penstock.seeding.lines import Lines, line_of
from penstock.seeding.source import Source
from penstock.seeding.topology import Place, SeedError

NUMBERED, ANY = "PUBSUB_PROJECT", "PUBSUB_PROJECT_"
PUSH = "PUBSUB_PUSHENDPOINT_"
ACCOUNTS = "AZURITE_ACCOUNTS"  # the accounts of Azurite
PROJECT_ID = "PUBSUB_PROJECT_ID"  # the project of clients, set by gcloud's env-init
EXPECTED = "expected PROJECT,TOPIC1,TOPIC2:SUBSCRIPTION1:SUBSCRIPTION2"

_SECONDS = re.compile(r"(\d+(?:\.\d+)?)s")
_CAPITAL = re.compile(r"(?<=[a-z0-9])([A-Z])")
_PORTS = str.maketrans("#|", "::")  # in addresses, because a colon separates subscriptions


class Builder:
    """A collector of topics and subscriptions and of the places where they were found. Duplicates are ignored."""

    def __init__(self, label: str) -> None:
        self.label = label
        self.notes: list[str] = []
        self._topics: dict[tuple[str, str], dict[str, Any]] = {}
        self._subscriptions: dict[tuple[str, str], dict[str, Any]] = {}
        self._origins: dict[Place, str] = {}

    def topic(self, origin: str, project: str, name: str, **fields: Any) -> None:
        if "message_retention_duration" in fields:
            fields["retention_seconds"] = fields.pop("message_retention_duration")
        item = _split_fields(fields, {"labels", "retention_seconds"})
        self._add("topics", self._topics, origin, (project, name), item)

    def subscription(self, origin: str, project: str, name: str, topic: str, **fields: Any) -> None:
        if endpoint := fields.pop("push_endpoint", None):
            fields["push_config"] = {"push_endpoint": endpoint} | fields.get("push_config", {})
        item = {"topic": topic, **_split_fields(fields, OPTIONS.names)}
        self._add("subscriptions", self._subscriptions, origin, (project, name), item)

    def _add(self, part: str, known: dict[Any, Any], origin: str, name: tuple[str, str], item: dict[str, Any]) -> None:
        if name not in known:
            self._origins[part, len(known)] = origin
            known[name] = {"project": name[0], "name": name[1], **item}

    def source(self) -> Source:
        document = {"topics": list(self._topics.values()), "subscriptions": list(self._subscriptions.values())}
        return Source(self.label, document, self._origins, self.notes)


def _split_fields(fields: Mapping[str, Any], ours: Iterable[str]) -> dict[str, Any]:
    """Split fields into options of the broker, and fields that the Pub/Sub door reads."""
    own = {name: _without_units(value) for name, value in fields.items() if name in ours}
    others = {name: value for name, value in fields.items() if name not in ours}
    return own | ({"pubsub": others} if others else {})


def _without_units(value: Any) -> Any:
    """Return a duration such as `"600s"` as a number."""
    if isinstance(value, Mapping):
        return {name: _without_units(inner) for name, inner in value.items()}
    match = _SECONDS.fullmatch(value) if isinstance(value, str) else None
    return float(match[1]) if match else value


# ---------------------------------------------------------------------- variables


def names_topics(variables: Mapping[str, str]) -> bool:
    return bool(_projects(variables) or variables.get("PUBSUB_TOPIC"))


def from_variables(variables: Mapping[str, str], label: str) -> Source:
    builder = Builder(label)
    for name, value in _projects(variables):
        _read_project(builder, name, value, variables)
    if variables.get("PUBSUB_TOPIC"):
        _read_pairs(builder, variables)
    builder.notes = _notes(variables, label)
    return builder.source()


def _notes(variables: Mapping[str, str], label: str) -> list[str]:
    """Return notes about variables that look like seeds but are not read."""
    read = {name for name, _ in _projects(variables)} | {ACCOUNTS, f"{ACCOUNTS}_FILE", PROJECT_ID}
    if variables.get("PUBSUB_TOPIC"):
        read.add(NUMBERED)
    alike = [name for name in sorted(variables) if name.startswith((NUMBERED, "AZURITE_ACC")) and name not in read]
    notes = [f"{name} is not read: {_why_not(name)}" for name in alike]
    if not notes and not names_topics(variables) and not variables.keys() & {ACCOUNTS, f"{ACCOUNTS}_FILE"}:
        notes.append(f"There is nothing to seed in {label}: it has no {NUMBERED}1=PROJECT,TOPIC:SUBSCRIPTION")
    return notes


def _why_not(name: str) -> str:
    number = name.removeprefix(NUMBERED)
    if not name.startswith(NUMBERED):
        return f"accounts are in {ACCOUNTS}"
    if not number:
        return f"PUBSUB_TOPIC names its topics, or it is {NUMBERED}1"
    if number.isdigit():
        return f"the numbers begin with 1, and none may be missing or empty before {number}"
    return f"it is {NUMBERED}1, {NUMBERED}2 and so on, or {ANY}NAME"


def _projects(variables: Mapping[str, str]) -> list[tuple[str, str]]:
    """Return the numbered variables up to the first missing number, then variables with other suffixes."""
    projects: list[tuple[str, str]] = []
    while (name := f"{NUMBERED}{len(projects) + 1}") in variables and variables[name].strip():
        projects.append((name, variables[name]))
    others = [name for name in sorted(variables) if name.startswith(ANY)]
    return projects + [(name, variables[name]) for name in others if name != PROJECT_ID or "," in variables[name]]


def _read_project(builder: Builder, variable: str, value: str, variables: Mapping[str, str]) -> None:
    project, *topics = ("".join(part.split()) for part in value.split(","))
    topics = [topic for topic in topics if topic]
    if not project or not topics:
        raise SeedError(f"{variable}: {EXPECTED}")
    for text in topics:
        topic, *subscriptions = text.split(":")
        if not topic or not all(subscriptions):
            raise SeedError(f"{variable}: {EXPECTED}, not {text}")
        builder.topic(variable, project, topic)
        for subscription in subscriptions:
            name, fields = _suffixes(variable, subscription)
            if push := variables.get(PUSH + name):
                fields["push_endpoint"] = push
            builder.subscription(variable, project, name, topic, **fields)


def _suffixes(variable: str, text: str) -> tuple[str, dict[str, Any]]:
    """Read the ack deadline and the push endpoint in `name~300+host#8080/path`."""
    start, _, endpoint = text.partition("+")
    name, tilde, seconds = start.partition("~")
    fields: dict[str, Any] = {}
    if tilde:
        if not (seconds.isascii() and seconds.isdigit()):
            raise SeedError(f"{variable}: the ack deadline of {name} is a number of seconds, not {seconds!r}")
        fields["ack_deadline_seconds"] = int(seconds)
    if endpoint:
        url = endpoint.translate(_PORTS)
        fields["push_endpoint"] = url if url.startswith(("http://", "https://")) else f"http://{url}"
    return name, fields


def _read_pairs(builder: Builder, variables: Mapping[str, str]) -> None:
    project = variables.get(NUMBERED, "").strip()
    topics, subscriptions = (
        [name.strip() for name in variables.get(variable, "").split(",") if name.strip()]
        for variable in ("PUBSUB_TOPIC", "PUBSUB_SUBSCRIPTION")
    )
    if not project:
        raise SeedError("PUBSUB_TOPIC: PUBSUB_PROJECT has to name the project")
    if subscriptions and len(subscriptions) != len(topics):
        raise SeedError(f"PUBSUB_SUBSCRIPTION: {len(topics)} names are needed, one for each topic")
    for topic in topics:
        builder.topic("PUBSUB_TOPIC", project, topic)
    for name, topic in zip(subscriptions, topics, strict=False):
        builder.subscription("PUBSUB_SUBSCRIPTION", project, name, topic)


# ---------------------------------------------------------------------- files


class Foreign:
    """A seed file of another tool, with its line numbers."""

    def __init__(self, label: str, lines: Lines) -> None:
        self._builder = Builder(label)
        self._label, self._lines = label, lines

    def read(self, content: Any) -> Source | None:
        """Return the seed, or None if the format is unknown."""
        if isinstance(content, list):
            for number, item in enumerate(content):
                self._entry((number,), _table(self, (number,), item))
        elif isinstance(content, Mapping) and isinstance(content.get("projects"), list):
            for number, project in enumerate(content["projects"]):
                self._project(("projects", number), _table(self, ("projects", number), project))
        elif isinstance(content, Mapping) and isinstance(content.get("subscription"), list):
            for number, item in enumerate(content["subscription"]):
                self._row(("subscription", number), _table(self, ("subscription", number), item))
        elif isinstance(content, Mapping) and _is_nested(content.get("topics")):
            self._topics((), str(content.get("project", "")), content["topics"])
        else:
            return None
        return self._builder.source()

    def origin(self, place: Place) -> str:
        line = line_of(self._lines, place)
        return self._label if line is None else f"{self._label}, line {line}"

    def refuse(self, place: Place, reason: str) -> SeedError:
        return SeedError(f"{self.origin(place)}: {reason}")

    def _entry(self, place: Place, item: Mapping[str, Any]) -> None:
        """Read one topic of a project, with its subscriptions."""
        project, topic = (self._text(place, item, name) for name in ("project", "topic"))
        fields = {name: value for name, value in item.items() if name not in ("project", "topic", "subscriptions")}
        self._builder.topic(self.origin(place), project, topic, **fields)
        self._readers(place, project, topic, item.get("subscriptions"))

    def _project(self, place: Place, item: Mapping[str, Any]) -> None:
        project = self._text(place, item, "name")
        self._topics(place, project, item.get("topics") or [])

    def _topics(self, place: Place, project: str, topics: Any) -> None:
        for number, topic in enumerate(self._list((*place, "topics"), topics)):
            inner = (*place, "topics", number)
            item = {"name": topic} if isinstance(topic, str) else _table(self, inner, topic)
            name = self._text(inner, item, "name")
            fields = {_snake(key): value for key, value in item.items() if key not in ("name", "subscriptions")}
            self._builder.topic(self.origin(inner), project, name, **fields)
            self._readers(inner, project, name, item.get("subscriptions"))

    def _readers(self, place: Place, project: str, topic: str, subscriptions: Any) -> None:
        place = (*place, "subscriptions")
        for number, subscription in enumerate(self._list(place, [] if subscriptions is None else subscriptions)):
            inner = (*place, number)
            item = {"name": subscription} if isinstance(subscription, str) else _table(self, inner, subscription)
            name = self._text(inner, item, "name")
            fields = {_snake(key): value for key, value in item.items() if key not in ("name", "topic")}
            self._builder.subscription(self.origin(inner), project, name, topic, **fields)

    def _row(self, place: Place, item: Mapping[str, Any]) -> None:
        project, topic, name = (self._text(place, item, key) for key in ("project", "topic", "subscription"))
        self._builder.topic(self.origin(place), project, topic)
        self._builder.subscription(self.origin(place), project, name, topic)

    def _text(self, place: Place, item: Mapping[str, Any], name: str) -> str:
        value = item.get(name)
        if not isinstance(value, str) or not value:
            raise self.refuse((*place, name), f"{name} is needed, as text")
        return value

    def _list(self, place: Place, value: Any) -> list[Any]:
        if not isinstance(value, list):
            raise self.refuse(place, "a list is expected here")
        return value


def _table(foreign: Foreign, place: Place, value: object) -> Mapping[str, Any]:
    if not isinstance(value, Mapping):
        raise foreign.refuse(place, "an object is expected here")
    return value


def _is_nested(topics: object) -> bool:
    """Return whether topics contain their subscriptions, which our own format never has."""
    return isinstance(topics, list) and any(isinstance(topic, Mapping) and "subscriptions" in topic for topic in topics)


def _snake(name: str) -> str:
    return _CAPITAL.sub(lambda match: "_" + match[1].lower(), name)

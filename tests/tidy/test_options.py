"""The rule that each door shows every option of a topic and of a subscription, or has a reason not to.

A new option of the broker makes these tests fail until every door shows it or has a line in `EXCUSED`. A line that is
no longer needed makes them fail as well. A door that shows nothing of a record has one line for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import fields, make_dataclass, replace
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any

import pytest

from penstock.broker.model import SubscriptionOptions, TopicOptions, option_specs
from penstock.doors.azure.queues import METADATA, decode_metadata
from penstock.doors.google.subscriptions import subscription_message
from penstock.doors.google.topics import topic_message
from penstock.doors.http.admin.openapi import document
from penstock.doors.http.admin.options import schema_of, values_of
from penstock.doors.http.admin.routes import BASE, ROUTES
from penstock.doors.http.admin.subscriptions import shown_options as admin_options
from penstock.engine.options import shown_options
from penstock.pubsub.options import SubscriptionMetadata, TopicMetadata
from penstock.seeding.document_reader import SUBSCRIPTION_OPTIONS, TOPIC_OPTIONS
from penstock.settings import DOORS


def stored(options: Any) -> Any:
    """A topic or a subscription, as the queue describes it."""
    created = datetime(2026, 1, 1, tzinfo=UTC)
    return SimpleNamespace(name="n", topic="t", created=created, options=options, detached=False, number=1)


SHOWN: dict[str, dict[type, Callable[[Any], object]]] = {
    "pubsub": {
        TopicOptions: lambda options: topic_message(stored(options)).SerializeToString(deterministic=True),
        SubscriptionOptions: lambda options: subscription_message(stored(options), None).SerializeToString(
            deterministic=True
        ),
    },
    "azure": {TopicOptions: decode_metadata},
    "text": {},
    "flight": {},
    "http": {TopicOptions: values_of, SubscriptionOptions: admin_options},
    "seeds": {TopicOptions: TOPIC_OPTIONS.show, SubscriptionOptions: SUBSCRIPTION_OPTIONS.show},
    "Python API": {
        TopicOptions: lambda options: TopicMetadata.of(stored(options)),
        SubscriptionOptions: lambda options: SubscriptionMetadata.of(stored(options)),
    },
    "MessageQueue": {SubscriptionOptions: shown_options, TopicOptions: lambda options: options},
}

BASES = {
    TopicOptions: TopicOptions(extras={METADATA: '{"a":"b"}'}),
    # With these values, every part of a policy has an effect.
    SubscriptionOptions: SubscriptionOptions(retry_minimum_seconds=1, retry_maximum_seconds=2, dead_letter_topic="d"),
}

OPAQUE = "what each door keeps of its own; it shows its own part"
NOT_THERE = "the vendor has no such field"
NO_OPTIONS = "a queue here has no options; it is changed by another door"
CURSORS = "cursors and scans; `topic.ensure` makes topics and does not describe them"
NO_NAME = "it has no name among the options that a program gives"
NOT_NAMED = dict.fromkeys(["ordering_window", "expired_topic"], NO_NAME) | {"extras": OPAQUE}
TOPICS = ("retention_seconds", "retention_bytes", "labels")
NOT_IN_PUBSUB = {
    "ordering_window": NOT_THERE,
    "expired_topic": NOT_THERE,
    "flow_max_messages": NOT_THERE,
    "flow_max_bytes": NOT_THERE,
    "extras": OPAQUE,
}


# The reason for each option, or one reason for a record of which a door shows nothing.
EXCUSED: dict[str, dict[type, Mapping[str, str] | str]] = {
    "pubsub": {TopicOptions: {"retention_bytes": NOT_THERE, "extras": OPAQUE}, SubscriptionOptions: NOT_IN_PUBSUB},
    "azure": {TopicOptions: dict.fromkeys(TOPICS, NOT_THERE), SubscriptionOptions: NO_OPTIONS},
    "text": {TopicOptions: NO_OPTIONS, SubscriptionOptions: NO_OPTIONS},
    "flight": {TopicOptions: CURSORS, SubscriptionOptions: CURSORS},
    "http": {TopicOptions: {"extras": OPAQUE}, SubscriptionOptions: {"extras": OPAQUE}},
    "seeds": {TopicOptions: {}, SubscriptionOptions: {}},
    "Python API": {
        TopicOptions: {"retention_bytes": "not among its names (003)", "extras": OPAQUE},
        SubscriptionOptions: NOT_IN_PUBSUB,
    },
    "MessageQueue": {TopicOptions: {}, SubscriptionOptions: NOT_NAMED},
}


def changed(value: Any) -> Any:
    """Return another value of the same type."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, int | float):
        return value + 1
    if isinstance(value, str):
        return value + "x"
    return {METADATA: '{"c":"d"}'} | dict.fromkeys(["x"], "y")


def shown(base: Any, view: Callable[[Any], object]) -> set[str]:
    """Return the options whose change can be seen."""
    names = [each.name for each in fields(base)]
    return {name for name in names if view(replace(base, **{name: changed(getattr(base, name))})) != view(base)}


@pytest.mark.parametrize("record", [TopicOptions, SubscriptionOptions])
@pytest.mark.parametrize("door", SHOWN)
def test_every_option_is_shown_or_excused(door: str, record: type) -> None:
    view, excused = SHOWN[door].get(record), EXCUSED[door][record]
    assert isinstance(excused, str) == (view is None), (
        "a record of which nothing is shown has one reason, and no others"
    )
    if isinstance(excused, str):
        return
    seen = shown(BASES[record], view)
    names = {each.name for each in fields(record)}
    assert names - seen - set(excused) == set(), "neither shown nor excused"
    assert seen & set(excused) == set(), "shown, so it needs no reason"
    assert set(excused) <= names, "this option does not exist"
    assert all(excused.values())


@pytest.mark.parametrize("door", ["pubsub", "Python API", "MessageQueue"])
def test_an_option_that_a_door_forgot_is_found(door: str) -> None:
    planted = make_dataclass("Planted", [("planted", bool, False)], bases=(SubscriptionOptions,), frozen=True)
    assert "planted" not in shown(planted(), SHOWN[door][SubscriptionOptions])


def test_every_door_is_in_the_table() -> None:
    assert set(SHOWN) == set(EXCUSED) == {*DOORS, "seeds", "Python API", "MessageQueue"}


@pytest.mark.parametrize("record", [TopicOptions, SubscriptionOptions])
def test_every_option_but_the_opaque_ones_is_described(record: type) -> None:
    assert {each.name for each in fields(record)} - set(option_specs(record)) == {"extras"}


@pytest.mark.parametrize("record", [TopicOptions, SubscriptionOptions])
def test_the_openapi_document_has_every_option_with_its_help(record: type) -> None:
    properties = schema_of(record)["properties"]
    for spec in option_specs(record).values():
        whole, _, part = spec.name.partition(".")
        schema = properties[whole]["properties"][part] if part else properties[whole]
        assert (schema["description"], schema["x-kind"]) == (spec.help, spec.kind)


def bare_objects(schemas: Mapping[str, Any]) -> list[str]:
    """Return the fields of records whose objects have no declared keys and values."""
    fields_of = [
        (f"{name}.{field}", schema)
        for name, record in schemas.items()
        for field, schema in record["properties"].items()
    ]
    objects = [(place, schema.get("items", schema)) for place, schema in fields_of]
    return [
        place
        for place, schema in objects
        if schema.get("type") == "object" and not {"properties", "additionalProperties"} & set(schema)
    ]


def test_no_record_of_the_admin_api_has_a_bare_object() -> None:
    schemas = document(ROUTES, "1", BASE)["components"]["schemas"]
    assert bare_objects({name: each for name, each in schemas.items() if "properties" in each}) == []
    planted = {"Planted": {"properties": {"one": {"type": "object"}, "list": {"items": {"type": "object"}}}}}
    assert bare_objects(planted) == ["Planted.one", "Planted.list"]


@pytest.mark.parametrize("record", [TopicOptions, SubscriptionOptions])
def test_every_option_that_can_be_set_has_a_flag_of_its_own(record: type) -> None:
    flags = [spec.flag for spec in option_specs(record).values() if not spec.read_only]
    assert all(flags)
    assert len(set(flags)) == len(flags)

"""Generated topologies, exported to a document and a file, and applied again."""

from __future__ import annotations

import asyncio
import json
import tomllib
from typing import Any

from hypothesis import example, given, settings
from hypothesis import strategies as st

from penstock.broker.model import SubscriptionOptions, TopicOptions
from penstock.doors.azure.queues import METADATA, POLICIES, encode_metadata
from penstock.doors.azure.seeds import Seeds as AzureSeeds
from penstock.doors.google.messages import Subscription, Topic
from penstock.doors.google.topics import EXTRAS, settings_to_keep
from penstock.doors.resources import QUEUE_OPTIONS
from penstock.seeding.files import read_text
from penstock.seeding.writing import to_toml
from tests.unit.seeding.harness import Harness, run

PROJECTS = ("penstock", "other")
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)
LABELS = st.dictionaries(
    st.from_regex(r"[a-zé][a-z0-9_-]{0,9}", fullmatch=True), st.text("aé鍵0_-", max_size=9), max_size=3
)
SECONDS = st.one_of(st.just(0.0), st.floats(0.001, 1e9))
ANYTHING = st.recursive(
    st.one_of(st.booleans(), st.integers(-(2**63), 2**63 - 1), st.floats(allow_nan=False, allow_infinity=False), TEXTS),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(TEXTS, inner, max_size=3)),
    max_leaves=12,
)


def topics_of(project: str) -> list[str]:
    return [f"projects/{project}/topics/{name}" for name in ("one", "two", "with.dots")]


ALL_TOPICS = [name for project in PROJECTS for name in topics_of(project)]


@st.composite
def google_extras(draw: st.DrawFn, kind: Any) -> dict[str, str]:
    message = kind()
    if kind is Subscription:
        if draw(st.booleans()):
            message.push_config.push_endpoint = "https://example.com/push"
            message.push_config.attributes["x-goog-version"] = "v1"
            message.push_config.oidc_token.audience = draw(TEXTS)
        elif draw(st.booleans()):
            message.bigquery_config.table = "t"
        elif draw(st.booleans()):
            message.push_config.SetInParent()
            message.retry_policy.SetInParent()
    elif draw(st.booleans()):
        message.kms_key_name = draw(TEXTS)
        message.message_storage_policy.allowed_persistence_regions.append("europe-west1")
    return {EXTRAS: settings_to_keep(message, ())}


def topic_options() -> st.SearchStrategy[TopicOptions]:
    extras = st.one_of(st.just({}), google_extras(Topic), st.just({"mark": "of nobody"}))
    return st.builds(
        TopicOptions, retention_seconds=SECONDS, retention_bytes=st.integers(0, 2**40), labels=LABELS, extras=extras
    )


@st.composite
def subscription_options(draw: st.DrawFn) -> SubscriptionOptions:
    minimum, maximum = sorted([draw(SECONDS), draw(SECONDS)])
    dead = draw(st.sampled_from(["", *ALL_TOPICS]))
    extras = draw(st.one_of(st.just({}), google_extras(Subscription)))
    is_pulled = not extras.get(EXTRAS)
    return SubscriptionOptions(
        lease_seconds=draw(st.floats(1, 600)),
        exactly_once=draw(st.booleans()) and is_pulled,
        ordering=draw(st.booleans()),
        ordering_window=draw(st.integers(1, 2000)),
        filter=draw(st.sampled_from(["", 'attributes.a = "b"'])),
        retry_minimum_seconds=minimum,
        retry_maximum_seconds=maximum,
        dead_letter_topic=dead,
        max_delivery_attempts=draw(st.integers(1, 100)) if dead else 5,
        expired_topic=draw(st.sampled_from(["", *ALL_TOPICS])),
        flow_max_messages=draw(st.integers(0, 10)),
        flow_max_bytes=draw(st.integers(0, 10)),
        retention_seconds=draw(SECONDS),
        retain_acked=draw(st.booleans()),
        expiration_seconds=draw(st.sampled_from([0, 86400, 1e9])),
        labels=draw(LABELS),
        extras=extras,
    )


READERS = st.dictionaries(
    st.tuples(st.sampled_from(PROJECTS), st.sampled_from(["one", "two", "reader", "other"])),
    st.tuples(st.sampled_from(ALL_TOPICS), st.one_of(subscription_options(), st.just(QUEUE_OPTIONS))),
    max_size=5,
)


@settings(deadline=None, max_examples=50)
@given(
    topics=st.fixed_dictionaries({name: topic_options() for name in ALL_TOPICS}),
    readers=READERS,
    as_json=st.booleans(),
    queues=st.lists(st.sampled_from(["jobs", "mails"]), unique=True),
)
def test_a_file_from_a_server_makes_the_same_topology_elsewhere(
    topics: dict[str, TopicOptions], readers: dict[tuple[str, str], Any], as_json: bool, queues: list[str]
) -> None:
    async def scenario() -> None:
        here, there = Harness(), Harness()
        await asyncio.gather(here.queue.start(), there.queue.start())
        for name, options in topics.items():
            await here.queue.create_topic(name, options)
        for (project, name), (topic, options) in readers.items():
            await here.queue.create_subscription(f"projects/{project}/subscriptions/{name}", topic, options)
        policies = AzureSeeds().read("topic", {"policies": [{"id": "p", "permission": "r"}]}, "penstock", None)[
            POLICIES
        ]
        extras = {METADATA: encode_metadata({"a": "b"}), POLICIES: policies}
        for name in queues:
            resource = [f"projects/penstock/{kind}/{name}" for kind in ("topics", "subscriptions")]
            await here.queue.provide_queue(*resource, QUEUE_OPTIONS, TopicOptions(extras=extras))
        document = await here.document()
        text = json.dumps(document) if as_json else to_toml(document)
        source = read_text(text, "seed.json" if as_json else "seed.toml")
        made = await there.seed(dict(source.document))
        assert set(made.values()) <= {"created"}
        assert await described(there) == await described(here)
        assert await there.document() == document
        assert len(document.get("queues", [])) >= len(queues)
        await asyncio.gather(here.queue.close(), there.queue.close())

    asyncio.run(scenario())


async def described(harness: Harness) -> dict[str, Any]:
    """Return every option of every resource, without extras that are empty."""
    found: dict[str, Any] = {each.name: each.options for each in await harness.queue.topics()}
    found |= {each.name: (each.topic, each.options) for each in await harness.queue.subscriptions()}
    return {name: str(each).replace(f"'{EXTRAS}': ''", "") for name, each in found.items()}


@given(st.dictionaries(TEXTS, ANYTHING, max_size=4), st.lists(st.dictionaries(TEXTS, ANYTHING, max_size=4), max_size=3))
@example({"two words": [{"a": {"b": {}}}]}, [])
def test_written_toml_is_read_back_unchanged(table: dict[str, Any], items: list[dict[str, Any]]) -> None:
    document = {**table, "items": items}
    assert tomllib.loads(to_toml(document)) == document


@given(st.integers(0, 2), st.integers(0, 2))
def test_one_project_is_exported_alone(ours: int, theirs: int) -> None:
    async def scenario() -> None:
        harness = Harness()
        await harness.queue.start()
        for project, count in (("penstock", ours), ("other", theirs)):
            for name in topics_of(project)[:count]:
                await harness.queue.create_topic(name)
        await harness.queue.create_topic("a name that no door gives")
        document = await harness.document("other")
        assert document["project"] == "other"
        assert [each["name"] for each in document.get("topics", [])] == ["one", "two"][:theirs]
        assert len((await harness.document()).get("topics", [])) == ours + theirs
        await harness.queue.close()

    asyncio.run(scenario())


def test_a_document_is_made_in_slices_and_one_at_a_time() -> None:
    """Design law: no client may hold up another. The share is over after every chunk here."""

    async def scenario(harness: Harness) -> None:
        for number in range(150):
            await harness.queue.create_topic(f"projects/penstock/topics/{number:03}")
            await harness.queue.provide_queue(
                f"projects/penstock/topics/q-{number:03}", f"projects/penstock/subscriptions/q-{number:03}"
            )
        harness.share._seconds = 0
        turns, ended = 0, list[int]()

        async def write(number: int) -> None:
            await harness.document()
            ended.append(turns)

        writing = [asyncio.create_task(write(number)) for number in range(3)]
        while len(ended) < len(writing):
            turns += 1
            await asyncio.sleep(0)
        alone = ended[0]
        assert alone > 450, "a turn for each resource"
        assert [round(each / alone) for each in ended] == [1, 2, 3]

    run(scenario)


def test_a_subscription_whose_topic_goes_while_the_document_is_made_is_left_out() -> None:
    async def scenario(harness: Harness) -> None:
        for name in ("kept", "gone"):
            await harness.queue.create_topic(f"projects/penstock/topics/{name}")
            await harness.queue.create_subscription(
                f"projects/penstock/subscriptions/of-{name}", f"projects/penstock/topics/{name}"
            )
        find = harness.queue.find_topics

        async def find_later(names: Any) -> Any:
            await harness.queue.delete_topic("projects/penstock/topics/gone")
            return await find(names)

        harness.queue.find_topics = find_later  # type: ignore[method-assign]
        document = await harness.document()
        assert [each["name"] for each in document["topics"]] == ["kept"]
        assert [each["name"] for each in document["subscriptions"]] == ["of-kept"]

    run(scenario)

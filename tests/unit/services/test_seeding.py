"""The effect of a seed on a broker: missing resources are created once, and existing ones change only on request."""

from __future__ import annotations

import asyncio
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from penstock.broker.model import Draft, SubscriptionOptions, TopicOptions
from penstock.doors.google.messages import Subscription
from penstock.doors.google.topics import EXTRAS, kept_settings, settings_to_keep
from penstock.seeding.topology import SeedError
from penstock.services import seeding as applying
from penstock.wire.turns import Turns
from tests.unit.seeding.harness import Document, Harness, run

ORDERS, BILLING = "projects/penstock/topics/orders", "projects/penstock/subscriptions/billing"
SEED: Document = {
    "topics": [{"name": "orders", "labels": {"team": "shop"}}, {"name": "dead"}],
    "subscriptions": [
        {
            "name": "billing",
            "topic": "orders",
            "ack_deadline_seconds": 30,
            "dead_letter_policy": {"dead_letter_topic": "dead", "max_delivery_attempts": 7},
        }
    ],
    "queues": [{"name": "jobs"}],
}


def test_missing_resources_are_created_and_a_second_seed_changes_nothing() -> None:
    async def scenario(harness: Harness) -> None:
        made = await harness.seed(SEED)
        assert set(made.values()) == {"created"}
        found = await harness.queue.find_subscription(BILLING)
        assert found is not None
        options = found.options
        assert (found.topic, options.lease_seconds, options.max_delivery_attempts) == (ORDERS, 30, 7)
        assert options.dead_letter_topic == "projects/penstock/topics/dead"
        assert await harness.queue.find_queue("projects/penstock/topics/jobs", "projects/penstock/subscriptions/jobs")
        again = await harness.seed(SEED)
        assert again == dict.fromkeys(made, "unchanged")

    run(scenario)


def test_a_dry_run_says_it_and_does_nothing() -> None:
    async def scenario(harness: Harness) -> None:
        assert set((await harness.seed(SEED, dry_run=True)).values()) == {"created"}
        assert not await harness.queue.topics()
        assert not await harness.queue.subscriptions()

    run(scenario)


def test_existing_resources_change_only_on_request() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.queue.create_topic(ORDERS, TopicOptions(labels={"team": "old"}, retention_seconds=60))
        await harness.queue.create_subscription(BILLING, ORDERS, SubscriptionOptions(filter="attributes:a"))
        left = await harness.seed(SEED)
        assert (left[ORDERS], left[BILLING]) == ("conflict", "conflict")
        topic = await harness.queue.find_topic(ORDERS)
        assert topic is not None
        assert topic.options.labels == {"team": "old"}
        changed = await harness.seed(SEED, update=True)
        assert (changed[ORDERS], changed[BILLING]) == ("changed", "changed")
        topic, reader = await harness.queue.find_topic(ORDERS), await harness.queue.find_subscription(BILLING)
        assert topic is not None
        assert reader is not None
        # not mentioned, so it is kept
        assert (topic.options.labels, topic.options.retention_seconds) == ({"team": "shop"}, 60)
        assert (reader.options.lease_seconds, reader.options.filter) == (30, "attributes:a")

    run(scenario)


@pytest.mark.parametrize("update", [False, True])
def test_an_impossible_change_is_a_conflict_and_the_others_are_made(update: bool) -> None:
    async def scenario(harness: Harness) -> None:
        await harness.queue.create_topic("projects/penstock/topics/other")
        await harness.queue.create_subscription(BILLING, "projects/penstock/topics/other")
        await harness.queue.create_topic(ORDERS)
        await harness.queue.create_subscription("projects/penstock/subscriptions/plain", ORDERS)
        ordered = {"name": "plain", "topic": "orders", "enable_message_ordering": True}
        document = {**SEED, "subscriptions": [*SEED["subscriptions"], ordered]}
        plan = await harness.seeding.apply(document, update=update)
        reasons = {each.name: each.reason for each in plan.conflicts if each.name != ORDERS}
        assert reasons == {
            BILLING: "The subscription reads another topic: projects/penstock/topics/other",
            "projects/penstock/subscriptions/plain": "enable_message_ordering cannot be changed",
        }
        assert await harness.queue.find_topic("projects/penstock/topics/dead") is not None

    run(scenario)


def test_documents_of_the_doors_are_compared_and_changed_field_by_field() -> None:
    """When a client updates a subscription, its door stores more than the seed has."""

    async def scenario(harness: Harness) -> None:
        def seed(**pubsub: object) -> Document:
            queue = {"name": "jobs", "azure": {"metadata": {"a": "b"}}}
            reader = {"name": "billing", "topic": "orders", "pubsub": pubsub}
            return {"topics": [{"name": "orders"}], "subscriptions": [reader], "queues": [queue]}

        push = {"push_endpoint": "https://example.com/one"}
        await harness.seed(seed(push_config=push))
        found = await harness.queue.find_subscription(BILLING)
        assert found is not None
        kept = kept_settings(found.options.extras, Subscription)
        kept.retry_policy.SetInParent()
        extras = {EXTRAS: settings_to_keep(kept, ()), "other": "door"}
        await harness.queue.change_subscription(BILLING, replace(found.options, extras=extras))
        assert set((await harness.seed(seed(push_config=push))).values()) == {"unchanged"}
        moved = seed(push_config={"push_endpoint": "https://example.com/two"})
        (conflict,) = (await harness.seeding.apply(moved)).conflicts
        assert (conflict.name, conflict.reason) == (BILLING, "pubsub")
        await harness.seed(moved, update=True)
        found = await harness.queue.find_subscription(BILLING)
        assert found is not None
        kept = kept_settings(found.options.extras, Subscription)
        assert (kept.push_config.push_endpoint, kept.HasField("retry_policy")) == ("https://example.com/two", True)
        assert found.options.extras["other"] == "door"

    run(scenario)


def test_settings_that_never_run_are_logged_once(caplog: pytest.LogCaptureFixture) -> None:
    async def scenario(harness: Harness) -> None:
        tables = [{"name": f"s{n}", "topic": "orders", "pubsub": {"bigquery_config": {"table": "p.d.t"}}} for n in "12"]
        await harness.seed({"topics": [{"name": "orders"}], "subscriptions": tables})

    run(scenario)
    assert [record.getMessage() for record in caplog.records] == [
        "a subscription of a seed has bigquery_config, which this server stores but does not run"
    ]


# ---------------------------------------------------------------------- first messages


def test_first_messages_are_published_once_and_new_ones_are_added() -> None:
    async def scenario(harness: Harness) -> None:
        def seed(*messages: Any) -> Document:
            topic = {"name": "orders", "messages": list(messages)}
            return {"topics": [topic], "subscriptions": [{"name": "billing", "topic": "orders"}]}

        rich = {"data": "b", "attributes": {"k": "v"}, "ordering_key": "o"}
        for expected in (3, 0):
            assert (await harness.seeding.apply(seed("a", "a", rich))).messages == expected
        assert (await harness.seeding.apply(seed("new", "a", "a", rich))).messages == 1
        pulled = [each.message for each in await harness.queue.pull(BILLING, 100)]
        assert [each.data for each in pulled] == [b"a", b"a", b"b", b"new"]
        assert (pulled[2].attributes, pulled[2].ordering_key) == ({"k": "v"}, "o")
        await harness.queue.delete_topic(ORDERS)
        await harness.queue.delete_subscription(BILLING)
        assert (await harness.seeding.apply(seed("a"))).messages == 1  # another topic, which never had the message

    run(scenario)


def test_a_note_that_was_lost_in_a_crash_does_not_double_a_message() -> None:
    """The note about first messages is written after them, and a crash may come between."""

    async def scenario(harness: Harness) -> None:
        queue = {"queues": [{"name": "jobs", "messages": ["once"]}]}
        await harness.seed(queue)
        topic = await harness.queue.find_topic("projects/penstock/topics/jobs")
        assert topic is not None
        await harness.queue.change_topic(topic.name, TopicOptions())
        await harness.seed(queue)
        assert await harness.taken("projects/penstock/subscriptions/jobs") == [b"once"]

    run(scenario)


def test_a_queue_begins_with_the_messages_of_its_topic_and_a_subscription_where_the_seed_says() -> None:
    async def scenario(harness: Harness) -> None:
        await harness.queue.create_topic(ORDERS, TopicOptions(retention_seconds=60))
        await harness.queue.publish(ORDERS, [Draft(b"early")])
        readers = [{"name": "late", "topic": "orders"}, {"name": "all", "topic": "orders", "start": "beginning"}]
        await harness.seed({"queues": [{"name": "orders"}], "subscriptions": readers})
        names = ("orders", "late", "all")
        taken = [await harness.taken(f"projects/penstock/subscriptions/{name}") for name in names]
        assert taken == [[b"early"], [], [b"early"]]

    run(scenario)


def test_a_message_that_this_server_does_not_take_is_refused_before_anything_is_made() -> None:
    async def scenario(harness: Harness) -> None:
        message = {"data": "x", "attributes": {"k" * 300: "v"}}
        with pytest.raises(SeedError, match=r"topics\[0\]\.messages\[0\]: Attribute key exceeds"):
            await harness.seed({"topics": [{"name": "orders", "messages": [message]}]})
        assert not await harness.queue.topics()

    run(scenario)


# ---------------------------------------------------------------------- all or nothing


@pytest.mark.parametrize(
    ("part", "item", "sentence"),
    [
        (
            "subscriptions",
            {"name": "s", "topic": "nowhere"},
            "topic: There is no topic projects/penstock/topics/nowhere",
        ),
        (
            "subscriptions",
            {"name": "s", "topic": "orders", "dead_letter_policy": {"dead_letter_topic": "gone"}},
            "dead_letter_policy: There is no topic projects/penstock/topics/gone",
        ),
        ("queues", {"name": "q", "expired_topic": "gone"}, "expired_topic: There is no topic"),
        (
            "topics",
            {"name": "t", "pubsub": {"schema_settings": {"schema": "gone", "encoding": "JSON"}}},
            "There is no projects/penstock/schemas/gone",
        ),
    ],
)
def test_resources_that_a_seed_names_must_exist_or_be_in_it(part: str, item: Document, sentence: str) -> None:
    async def scenario(harness: Harness) -> None:
        document = {**SEED, part: [*SEED.get(part, []), item]}
        with pytest.raises(SeedError) as refused:
            await harness.seed(document)
        assert sentence in refused.value.message
        assert not await harness.queue.topics()

    run(scenario)


def test_two_seeds_at_once_make_everything_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Other tasks run after each step."""
    monkeypatch.setattr(applying, "Turns", partial(Turns, 0))

    async def scenario(harness: Harness) -> None:
        document = {"topics": [{"name": "a"}, {"name": "b"}], "queues": [{"name": "jobs", "messages": ["once"]}]}
        await asyncio.gather(*(harness.seed(document) for _ in range(5)))
        assert await harness.taken("projects/penstock/subscriptions/jobs") == [b"once"]

    run(scenario)


# ---------------------------------------------------------------------- schemas

AVRO = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'
WIDER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "bytes"}]}'
OTHER = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}'


def test_a_schema_gets_another_revision_when_that_is_asked_for() -> None:
    async def scenario(harness: Harness) -> None:
        def seed(definition: str) -> Document:
            return {"schemas": [{"name": "order", "type": "AVRO", "definition": definition}]}

        name = "projects/penstock/schemas/order"
        assert await harness.seed(seed(AVRO)) == {name: "created"}
        assert await harness.seed(seed(AVRO)) == {name: "unchanged"}
        assert await harness.seed(seed(WIDER)) == {name: "conflict"}
        assert await harness.seed(seed(WIDER), update=True) == {name: "changed"}
        (shown,) = (await harness.document())["schemas"]
        assert [each["definition"] for each in shown["revisions"]] == [AVRO, WIDER]
        assert await harness.seed(seed(OTHER), update=True) == {name: "conflict"}, "as CommitSchema refuses it"
        plan = await harness.seeding.apply(seed(OTHER), update=True)
        assert "field id of type int is not compatible with type bytes" in plan.conflicts[0].reason

    run(scenario)

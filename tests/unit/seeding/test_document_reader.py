"""Valid documents, and the error of each invalid one with its place."""

from __future__ import annotations

from typing import Any

import pytest

from penstock.seeding.topology import SeedError
from tests.unit.seeding.harness import Harness, run

T, S = {"name": "orders"}, {"name": "s", "topic": "orders"}


@pytest.mark.parametrize(
    ("document", "sentence"),
    [
        ({"tpoics": []}, "tpoics: Unknown key; a seed has project, schemas, topics, queues"),
        ({"topics": {"name": "x"}}, "topics: topics must be a list; in TOML: [[topics]]"),
        ({"topics": ["orders"]}, "topics[0]: Expected a table"),
        ({"topics": [{}]}, "topics[0]: name must be a non-empty string"),
        ({"topics": [{"name": 5}]}, "topics[0].name: name must be a non-empty string"),
        ({"topics": [{"name": "a/b"}]}, "topics[0].name: Not a name in topics"),
        ({"topics": [{"name": "projects/p/subscriptions/s"}]}, "topics[0].name: Not a name in topics"),
        ({"topics": [{"name": "q" * 2000}]}, "topics[0].name: A name may have at most 1024 bytes"),
        ({"topics": [T, T]}, "topics[1]: projects/penstock/topics/orders is already defined at topics[0]"),
        ({"topics": [T], "queues": [T]}, "queues[0]: projects/penstock/topics/orders is already defined"),
        ({"topics": [{**T, "colour": 1}]}, "topics[0].colour: Unknown option of a topic: colour"),
        ({"topics": [{**T, "labels": ["a"]}]}, "topics[0].labels: labels must be a table of names and texts"),
        ({"topics": [{**T, "retention_seconds": -1}]}, "topics[0].retention_seconds: retention_seconds must not be"),
        ({"topics": [{**T, "retention_bytes": 1.5}]}, "topics[0].retention_bytes: retention_bytes must be a whole"),
        ({"topics": [{**T, "project": "a/b"}]}, "topics[0].project: A project is a name without slashes"),
        ({"project": 5}, "project: A project is a name without slashes"),
        ({"topics": [{**T, "messages": "a"}]}, "topics[0].messages: messages must be a list of strings or tables"),
        ({"topics": [{**T, "messages": [5]}]}, "topics[0].messages[0]: Expected a table"),
        (
            {"topics": [{**T, "messages": [{"body": "a"}]}]},
            "messages[0].body: Unknown key of a message: body",
        ),
        ({"topics": [{**T, "messages": [{"data": 5}]}]}, "messages[0]: data must be text"),
        (
            {"topics": [{**T, "messages": [{"data_base64": "%"}]}]},
            "messages[0]: Message data must be a string, or Base64",
        ),
        ({"topics": [{**T, "messages": [{"data": "", "data_base64": ""}]}]}, "data and data_base64 exclude each other"),
        ({"topics": [{**T, "messages": ["a"] * 1001}]}, "A topic may have at most 1000 first messages"),
        ({"subscriptions": [{"name": "s"}]}, "subscriptions[0]: A subscription needs a topic"),
        ({"subscriptions": [{**S, "start": "now"}]}, "subscriptions[0].start: start must be end or beginning"),
        ({"subscriptions": [{**S, "filter": "??"}]}, "subscriptions[0].filter: Invalid filter"),
        ({"subscriptions": [{**S, "ack_deadline_seconds": 0}]}, "Ack deadline must be between 1 and 600 seconds"),
        (
            {"subscriptions": [{**S, "retry_policy": {"minimum": 1}}]},
            "subscriptions[0].retry_policy: Unknown part of retry_policy: minimum",
        ),
        (
            {"subscriptions": [{**S, "retry_policy": {"minimum_backoff": 9, "maximum_backoff": 1}}]},
            "subscriptions[0]: The maximum backoff must not be below the minimum",
        ),
        (
            {"subscriptions": [{**S, "pubsub": {"ack_deadline_seconds": 20}}]},
            "subscriptions[0].pubsub: ack_deadline_seconds is an option of the subscription",
        ),
        ({"subscriptions": [{**S, "pubsub": {"colour": 1}}]}, "subscriptions[0].pubsub: Invalid Pub/Sub settings"),
        (
            {"subscriptions": [{**S, "pubsub": {"push_config": {"push_endpoint": "http://10.0.0.1/"}}}]},
            "subscriptions[0].pubsub: Unsupported push_endpoint: only https is allowed; see the setting push_allow",
        ),
        (
            {
                "subscriptions": [
                    {
                        **S,
                        "enable_exactly_once_delivery": True,
                        "pubsub": {"push_config": {"push_endpoint": "https://example.com/"}},
                    }
                ]
            },
            "subscriptions[0].pubsub: Exactly-once delivery is for subscriptions that are pulled",
        ),
        (
            {"topics": [{**T, "extras": {"google": "x"}}]},
            "topics[0].extras: google belongs in the table",
        ),
        ({"topics": [{**T, "extras": {"seed": "x"}}]}, "topics[0].extras: seed is reserved for the server"),
        ({"queues": [{**T, "retention_seconds": 5}]}, "queues[0].retention_seconds: Unknown option of a subscription"),
        ({"queues": [{**T, "azure": {"metadata": {"a b": "c"}}}]}, "queues[0].azure: metadata needs names"),
        ({"queues": [{**T, "azure": {"policies": [{"id": "x" * 65}]}}]}, "queues[0].azure: An identifier has 1 to 64"),
        ({"subscriptions": [{**S, "azure": {}}]}, "The azure settings belong to topics and queues"),
        ({"schemas": [{"name": "s", "type": "AVRO", "definition": "{"}]}, "schemas[0]: "),
        ({"schemas": [{"name": "s", "revisions": []}]}, "schemas[0]: A schema must have a list of 1 to 20 revisions"),
        ({"topics": [{"name": f"t{n}"} for n in range(10_001)]}, "A seed may have at most 10000"),
    ],
)
def test_an_invalid_document_is_refused_with_its_place(document: dict[str, Any], sentence: str) -> None:
    async def scenario(harness: Harness) -> None:
        with pytest.raises(SeedError) as refused:
            await harness.seed(document)
        assert sentence in refused.value.message
        assert "\n" not in refused.value.message
        assert not await harness.queue.topics()

    run(scenario)


def test_the_project_comes_from_the_name_the_item_the_document_or_the_server() -> None:
    async def scenario(harness: Harness) -> None:
        document = {
            "project": "of-document",
            "topics": [{"name": "a"}, {"name": "b", "project": "of-item"}, {"name": "projects/full/topics/c"}],
            "subscriptions": [
                {"name": "projects/full/subscriptions/s", "topic": "c"},
                {"name": "s", "project": "of-item", "topic": "projects/of-document/topics/a"},
            ],
        }
        assert set(await harness.seed(document)) == {
            "projects/of-document/topics/a",
            "projects/of-item/topics/b",
            "projects/full/topics/c",
            "projects/full/subscriptions/s",
            "projects/of-item/subscriptions/s",
        }
        assert set(await harness.seed({"topics": [{"name": "d"}]})) == {"projects/penstock/topics/d"}

    run(scenario)


def test_tables_of_doors_are_stored_like_settings_of_their_clients() -> None:
    async def scenario(harness: Harness) -> None:
        pubsub = {
            "push_config": {"push_endpoint": "http://127.0.0.1:3001/messages", "oidc_token": {"audience": "a"}},
        }
        storage = {"cloud_storage_config": {"bucket": "b", "max_duration": {"seconds": 120}}}
        document = {
            "topics": [T],
            "subscriptions": [{**S, "pubsub": pubsub}, {**S, "name": "files", "pubsub": storage}],
        }
        await harness.seed(document)
        shown = {each["name"]: each["pubsub"] for each in (await harness.document())["subscriptions"]}
        assert shown["s"]["push_config"]["push_endpoint"] == "http://127.0.0.1:3001/messages"
        assert shown["s"]["push_config"]["attributes"] == {"x-goog-version": "v1"}
        assert shown["files"]["cloud_storage_config"]["max_duration"] == "120s"

    run(scenario)

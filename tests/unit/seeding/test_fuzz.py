"""Generated documents are applied, or refused with a place."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from penstock.seeding.document_reader import MESSAGE_KEYS, PARTS, SUBSCRIPTION_OPTIONS, TOPIC_OPTIONS
from penstock.seeding.topology import SeedError
from tests.unit.seeding.harness import Harness

FIELDS = [
    "push_config",
    "push_endpoint",
    "bigquery_config",
    "cloud_storage_config",
    "max_duration",
    "schema_settings",
    "schema",
    "encoding",
    "message_transforms",
    "retry_policy",
    "metadata",
    "policies",
    "revisions",
    "type",
    "definition",
    "seconds",
    "minimum_backoff",
    "dead_letter_topic",
]
ITEM_KEYS = ["name", "project", "topic", "start", "messages", "pubsub", "azure"]
KEYS = st.sampled_from([*ITEM_KEYS, *FIELDS, *MESSAGE_KEYS, *TOPIC_OPTIONS.names, *SUBSCRIPTION_OPTIONS.names])
TEXTS = st.one_of(st.sampled_from(["orders", "s", "projects/p/topics/orders", "AVRO", "JSON", "10s", "{}"]), st.text())
PLAIN = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), TEXTS)
VALUES = st.recursive(
    PLAIN, lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(KEYS, inner, max_size=4)), max_leaves=8
)
ITEMS = st.dictionaries(KEYS, VALUES, max_size=5).map(lambda item: {"name": "orders", "topic": "orders"} | item)
DOCUMENTS = st.dictionaries(st.sampled_from([*PARTS, "project"]), st.one_of(st.lists(ITEMS, max_size=2), VALUES))


@settings(deadline=None, max_examples=60, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(DOCUMENTS, min_size=1, max_size=3), st.booleans())
def test_every_document_is_accepted_or_refused(documents: list[dict[str, Any]], update: bool) -> None:
    async def scenario() -> None:
        harness = Harness()
        await harness.queue.start()
        for document in documents:
            before = await harness.document()
            refused = False
            try:
                await harness.seeding.apply(document, update=update)
            except SeedError:
                refused = True
            assert not refused or await harness.document() == before
        with suppress(SeedError):
            await harness.seeding.apply(await harness.document())
        await harness.queue.close()

    asyncio.run(scenario())

"""The page docs/seeding.md: its example is a valid seed, and its tables have every key."""

from __future__ import annotations

import re
from pathlib import Path

from penstock.seeding.document_reader import MESSAGE_KEYS, PARTS, SUBSCRIPTION_OPTIONS, TOPIC_OPTIONS
from penstock.seeding.files import read_text
from tests.unit.seeding.harness import Harness, run

PAGE = (Path(__file__).resolve().parents[3] / "docs" / "seeding.md").read_text()


def test_the_example_of_the_page_is_a_valid_seed() -> None:
    (example,) = re.findall(r"^```toml\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)

    async def scenario(harness: Harness) -> None:
        plan = await harness.seeding.apply(dict(read_text(example, "shop.toml").document))
        assert [each.kind for each in plan.findings] == ["topic", "topic", "queue", "subscription", "subscription"]
        assert {each.what for each in plan.findings} == {"created"}
        assert plan.messages == 3
        assert await harness.taken("projects/shop/subscriptions/billing") == [b"two"]

    run(scenario)


def test_the_page_names_every_key() -> None:
    named = set(re.findall(r"`([a-z_0-9]+)`", PAGE))
    keys = {
        *PARTS,
        *MESSAGE_KEYS,
        *TOPIC_OPTIONS.names,
        *SUBSCRIPTION_OPTIONS.names,
        "project",
        "start",
        "pubsub",
        "azure",
    }
    assert keys - named <= {"ack_deadline", "message_ordering", *PARTS}, "aliases and headers of tables have no row"

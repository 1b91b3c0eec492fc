"""Seed files of the test kit, which are applied to the project of the test."""

from __future__ import annotations

from pathlib import Path

import pytest

from penstock.errors import InvalidArgumentError
from penstock.testing import Project

FOREIGN = {
    "list.json": '[{"project": "other", "topic": "orders", "subscriptions": [{"name": "billing"}]}]',
    "tree.json": '{"projects": [{"name": "other", "topics": [{"name": "orders", "subscriptions": ["billing"]}]}]}',
    "variables.env": "PUBSUB_PROJECT1=other,orders:billing\n",
    "full.toml": """
[[topics]]
name = "projects/other/topics/orders"
messages = ["projects/another/topics/orders"]
[[topics]]
name = "dead"
[[subscriptions]]
project = "other"
name = "billing"
topic = "projects/other/topics/orders"
filter = 'attributes.of = "projects/another/topics/orders"'
[subscriptions.dead_letter_policy]
dead_letter_topic = "projects/other/topics/dead"
max_delivery_attempts = 5
""",
}


@pytest.mark.parametrize("name", FOREIGN)
def test_a_seed_is_applied_to_the_project_of_the_test(penstock_project: Project, tmp_path: Path, name: str) -> None:
    (tmp_path / name).write_text(FOREIGN[name], encoding="utf-8")
    penstock_project.seed(tmp_path / name)
    (billing,) = penstock_project.subscriptions()
    assert billing["name"] == penstock_project.subscription("billing")
    assert billing["topic"] == penstock_project.topic("orders")
    everywhere = penstock_project.server.admin.pages("/topics", "topics")
    assert not [each["name"] for each in everywhere if each["name"].startswith("projects/other/")]


def test_names_in_a_seed_are_renamed_and_messages_are_not(penstock_project: Project, tmp_path: Path) -> None:
    (tmp_path / "full.toml").write_text(FOREIGN["full.toml"], encoding="utf-8")
    penstock_project.seed(tmp_path / "full.toml")
    (billing,) = penstock_project.subscriptions()
    assert billing["options"]["dead_letter_policy"]["dead_letter_topic"] == penstock_project.topic("dead")
    penstock_project.topic("orders").published("projects/another/topics/orders", times=1)


@pytest.mark.parametrize(
    "text",
    [
        '[{"project": "one", "topic": "orders"}, {"project": "two", "topic": "orders"}]',
        '{"project": "one", "topics": [{"name": "projects/two/topics/orders"}]}',
    ],
)
def test_a_seed_of_several_projects_is_refused(penstock_project: Project, tmp_path: Path, text: str) -> None:
    (tmp_path / "both.json").write_text(text, encoding="utf-8")
    with pytest.raises(
        InvalidArgumentError, match=r"both\.json: The file has several projects \(one, two\), but a test"
    ):
        penstock_project.seed(tmp_path / "both.json")
    assert list(penstock_project.topics()) == []

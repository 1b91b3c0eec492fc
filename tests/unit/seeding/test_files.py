"""Seed files and variables of all formats, and the lines of their errors."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from penstock.seeding.files import read_environment, read_seed, read_text
from penstock.seeding.source import Source
from penstock.seeding.topology import SeedError


def topology(source: Source) -> dict[str, Any]:
    """Return project/topic -> its subscriptions, each with its options."""
    document = source.document
    found: dict[str, Any] = {f"{each['project']}/{each['name']}": {} for each in document["topics"]}
    for each in document["subscriptions"]:
        about = {name: value for name, value in each.items() if name not in ("project", "name", "topic")}
        found[f"{each['project']}/{each['topic']}"][each["name"]] = about
    return found


def pushed(url: str, **more: Any) -> dict[str, Any]:
    return {"pubsub": {"push_config": {"push_endpoint": url}}, **more}


# ---------------------------------------------------------------------- the examples of the other tools' pages

EXAMPLES: dict[str, tuple[dict[str, str], dict[str, Any]]] = {
    "marcelcorso/gcloud-pubsub-emulator, TheKevJames/tools": (
        {"PUBSUB_PROJECT1": "company-dev,invoices:invoice-calculator,chats:slack-out:irc-out,notifications"},
        {
            "company-dev/invoices": {"invoice-calculator": {}},
            "company-dev/chats": {"slack-out": {}, "irc-out": {}},
            "company-dev/notifications": {},
        },
    ),
    "thinkfluent/gcloud-pubsub-emulator": (
        {
            "PUBSUB_PROJECT1": "project-name,topic1,topic2:subscription1~300:subscription2",
            "PUBSUB_PROJECT2": "project-two,topicA,topicB:subscriptionX:subscriptionY",
            "PUBSUB_PROJECT3": "project-name,topic:push-subscription+myapp/endpoint",
            "PUBSUB_PROJECT4": "project-name,topic4:push-subs-with-deadline~120+myapp/endpoint",
        },
        {
            "project-name/topic1": {},
            "project-name/topic2": {"subscription1": {"ack_deadline_seconds": 300}, "subscription2": {}},
            "project-two/topicA": {},
            "project-two/topicB": {"subscriptionX": {}, "subscriptionY": {}},
            "project-name/topic": {"push-subscription": pushed("http://myapp/endpoint")},
            "project-name/topic4": {
                "push-subs-with-deadline": pushed("http://myapp/endpoint", ack_deadline_seconds=120)
            },
        },
    ),
    "ciglenecki/gcloud-pubsub-emulator": (
        {"PUBSUB_PROJECT1": "my_project,topic_a:sub_a,topic_b:sub_b1:sub_b2_push+localhost#8030"},
        {
            "my_project/topic_a": {"sub_a": {}},
            "my_project/topic_b": {"sub_b1": {}, "sub_b2_push": pushed("http://localhost:8030")},
        },
    ),
    "dipjyotimetia/pubsub-emulator": (
        {
            "PUBSUB_PROJECT": "test-project",
            "PUBSUB_TOPIC": "orders,payments,notifications",
            "PUBSUB_SUBSCRIPTION": "orders-sub,payments-sub,notifications-sub",
            "PUBSUB_PORT": "8085",
        },
        {
            "test-project/orders": {"orders-sub": {}},
            "test-project/payments": {"payments-sub": {}},
            "test-project/notifications": {"notifications-sub": {}},
        },
    ),
    "any name, with white space": (
        {"PUBSUB_PROJECT_SHOP": "shop,\n  orders : billing ,\n  returns,\n"},
        {"shop/orders": {"billing": {}}, "shop/returns": {}},
    ),
    "an endpoint of its own variable": (
        {"PUBSUB_PROJECT1": "p,topic:sub", "PUBSUB_PUSHENDPOINT_sub": "http://app:80/x"},
        {"p/topic": {"sub": pushed("http://app:80/x")}},
    ),
    "numbers up to the first that is missing": (
        {"PUBSUB_PROJECT1": "p,one", "PUBSUB_PROJECT3": "p,three"},
        {"p/one": {}},
    ),
    "nothing that concerns us": ({"PATH": "/bin", "PUBSUB_PROJECT": "p"}, {}),
}


@pytest.mark.parametrize("whose", EXAMPLES)
def test_variables_are_read_as_the_other_tool_documents(whose: str) -> None:
    variables, expected = EXAMPLES[whose]
    assert topology(read_environment(variables)) == expected


FILES: dict[str, tuple[str, str, dict[str, Any]]] = {
    "TheKevJames/tools": (
        "config.json",
        """
    [
      {
        "topic": "topic1",
        "project": "project1"
      },
      {
        "topic": "topic2",
        "project": "project1",
        "subscriptions": [
          {
            "name": "subscription1",
            "push_config": {
              "push_endpoint": "http://localhost:3001/messages"
            }
          },
          {
            "name": "subscription2"
          }
        ]
      }
    ]
""",
        {
            "project1/topic1": {},
            "project1/topic2": {"subscription1": pushed("http://localhost:3001/messages"), "subscription2": {}},
        },
    ),
    "the same, older, with options": (
        "config.json",
        json.dumps(
            [
                {
                    "project": "p",
                    "topic": "t",
                    "subscriptions": [
                        {
                            "name": "s",
                            "push_endpoint": "http://localhost:3001/messages",
                            "ack_deadline_seconds": 60,
                            "enable_message_ordering": True,
                            "retry_policy": {"minimum_backoff": {"seconds": 5}, "maximum_backoff": "60s"},
                        }
                    ],
                }
            ]
        ),
        {
            "p/t": {
                "s": pushed(
                    "http://localhost:3001/messages",
                    ack_deadline_seconds=60,
                    enable_message_ordering=True,
                    retry_policy={"minimum_backoff": {"seconds": 5}, "maximum_backoff": 60.0},
                )
            }
        },
    ),
    "EyLuismi/gcloud-pubsub-emulator-helper": (
        "config.json",
        """{
  "delayBeforeStartupCheckMs": 0,
  "projects": [
    {
      "name": "project-name",
      "topics": [
        {
          "name": "topic.name.1",
          "subscriptions": [
            {
              "name": "subscription.1.for.topic.name.1"
            },
            {
              "name": "subscription.2.for.topic.name.1", "ackDeadlineSeconds": 20
            }
          ]
        }
      ]
    }
  ]
}""",
        {
            "project-name/topic.name.1": {
                "subscription.1.for.topic.name.1": {},
                "subscription.2.for.topic.name.1": {"ack_deadline_seconds": 20},
            }
        },
    ),
    "vpol/gcloud-pubsub-emulator": (
        "config.toml",
        '[[subscription]]\nproject = "sample-project"\nsubscription = "sample-sub"\ntopic = "sample-topic"\n',
        {"sample-project/sample-topic": {"sample-sub": {}}},
    ),
    "expobrain/pubsub-emulator-messaging-setup, as JSON": (
        "pubsub.json",
        '{"project": "p", "topics": [{"name": "my_topic", "subscriptions": ["my_sub_1", "my_sub_2"]}]}',
        {"p/my_topic": {"my_sub_1": {}, "my_sub_2": {}}},
    ),
    "a file of variables": (
        ".env",
        "# for the emulator\nexport PUBSUB_PROJECT1='p,topic:sub'\nOTHER=1\n",
        {"p/topic": {"sub": {}}},
    ),
}


@pytest.mark.parametrize("whose", FILES)
def test_files_are_read_as_the_other_tool_documents(whose: str) -> None:
    name, text, expected = FILES[whose]
    assert topology(read_text(text, name)) == expected


def test_a_file_named_by_the_environment_replaces_its_variables(tmp_path: Path) -> None:
    path = tmp_path / "config.json"
    path.write_text('[{"project": "p", "topic": "t"}]')
    variables = {"PUBSUBC_CONFIG": str(path), "PUBSUB_PROJECT1": "other,topic"}
    assert topology(read_seed("env", variables)) == {"p/t": {}}


# ---------------------------------------------------------------------- errors and their lines


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"PUBSUB_PROJECT1": "only-a-project"}, "PUBSUB_PROJECT1: expected PROJECT,TOPIC1,TOPIC2:SUBSCRIPTION1"),
        ({"PUBSUB_PROJECT_A": ",topic"}, "PUBSUB_PROJECT_A: expected PROJECT"),
        ({"PUBSUB_PROJECT1": "p,topic::sub"}, "not topic::sub"),
        (
            {"PUBSUB_PROJECT1": "p,t:s~soon"},
            "PUBSUB_PROJECT1: the ack deadline of s is a number of seconds, not 'soon'",
        ),
        ({"PUBSUB_TOPIC": "a"}, "PUBSUB_TOPIC: PUBSUB_PROJECT has to name the project"),
        (
            {"PUBSUB_PROJECT": "p", "PUBSUB_TOPIC": "a,b", "PUBSUB_SUBSCRIPTION": "x"},
            "PUBSUB_SUBSCRIPTION: 2 names are needed, one for each topic",
        ),
    ],
)
def test_a_wrong_variable_is_named(variables: dict[str, str], sentence: str) -> None:
    with pytest.raises(SeedError) as refused:
        read_environment(variables)
    assert sentence in refused.value.message


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("s.toml", '[[topics]]\nname = "a"\nx = = 1\n', "s.toml, line 3: not valid TOML: Invalid value"),
        ("s.json", '{\n "topics": [\n  {"name": "a"},\n ]}', "s.json, line 4: not valid JSON: "),
        ("s.json", '{"topics": [{"name": "\\ud800"}]}', "s.json: not valid JSON: "),
        ("s.json", '"topics"', "s.json: A seed must be an object with topics"),
        ("s.json", '[\n {"project": "p"}\n]', "s.json, line 2: topic is needed, as text"),
        ("s.json", "[\n 5\n]", "s.json, line 1: an object is expected here"),
        (
            "s.json",
            '[{"project": "p", "topic": "t",\n "subscriptions": {}}]',
            "s.json, line 2: a list is expected here",
        ),
        ("s.json", '{"projects": [\n{"topics": []}]}', "s.json, line 2: name is needed, as text"),
        ("pubsub.yml", "topics:\n  - name: t\n", "pubsub.yml: YAML is not supported; use TOML or JSON"),
        (".env", "PUBSUB_PROJECT1=p,t\nnonsense\n", ".env, line 2: expected NAME=value"),
        ("s.toml", '[[topics]]\nname = "a"\nmessages = ["a",\n\n', "s.toml, line 3: not valid TOML: "),
        ("s.json", '{"topics": [\n{"name": "a"}\n', "s.json, line 2: not valid JSON: "),
        ("s.toml", "\nproject = 5\n", "s.toml, line 2: A project is a name without slashes"),
        ("s.json", '{"topics": [],\n"project": 5}', "s.json, line 2: A project is a name without slashes"),
        ("s.toml", "\ntopics = 5\n", "s.toml, line 2: topics must be a list; in TOML: [[topics]]"),
        ("standard input", '[{"project": "p",\n"topic": 5}]', "standard input, line 2: topic is needed, as text"),
    ],
)
def test_an_invalid_file_names_its_line(name: str, text: str, sentence: str) -> None:
    with pytest.raises(SeedError) as refused:
        read_text(text, name)
    assert refused.value.message.startswith(sentence)
    assert "\n" not in refused.value.message


@pytest.mark.parametrize("levels", [1_000, 4_000, 1_000_000])
@pytest.mark.parametrize(
    ("name", "before", "after"),
    [
        ("s.toml", "[", "]"),
        ("s.toml", "{a=", "}"),
        ("s.json", "[", "]"),
        ("s.json", '{"n":', "}"),
        ("s.json", "[", ""),
    ],
)
def test_a_file_nested_too_deeply_is_refused(name: str, before: str, after: str, levels: int) -> None:
    nested = before * levels + "1" + after * levels
    with pytest.raises(SeedError, match=f"{name}(, line 1)?: (not valid|Unknown key|.*must be)") as refused:
        read_text(f"x = {nested}" if name == "s.toml" else f'{{"topics": {nested}}}', name)
    assert len(refused.value.message) < 200
    assert "recursion" not in refused.value.message


@pytest.mark.parametrize(
    "text",
    [
        '[[topics]]\nproject = "p"\nname = "t"\n[[subscriptions]]\nproject = "p"\nname = "s"\ntopic = "t"\n',
        '\n {"project": "p", "topics": [{"name": "t", "subscriptions": ["s"]}]}',
        '[ {"project": "p", "topic": "t", "subscriptions": ["s"]}]',
        '[\n{"project": "p", "topic": "t", "subscriptions": ["s"]}]',
        '[[subscription]]\nproject = "p"\ntopic = "t"\nsubscription = "s"\n',
        "PUBSUB_PROJECT1=p,t:s\n",
        "# ours\n\nexport PUBSUB_PROJECT_a=p,t:s\n",
    ],
)
def test_a_file_without_an_extension_is_detected_by_its_start(text: str) -> None:
    read = read_text(text, "standard input").document
    assert [(each["project"], each["name"]) for each in read["topics"]] == [("p", "t")]
    assert [(each["project"], each["name"]) for each in read["subscriptions"]] == [("p", "s")]


@pytest.mark.parametrize(
    ("variables", "sentence"),
    [
        ({"PATH": "/bin"}, "There is nothing to seed in the environment: it has no PUBSUB_PROJECT1="),
        ({"PUBSUB_PROJECT2": "p,t"}, "PUBSUB_PROJECT2 is not read: the numbers begin with 1, and none may be missing"),
        ({"PUBSUB_PROJECT": "p,t"}, "PUBSUB_PROJECT is not read: PUBSUB_TOPIC names its topics, or it is PUBSUB_PROJ"),
        ({"PUBSUB_PROJECTS": "p,t"}, "PUBSUB_PROJECTS is not read: it is PUBSUB_PROJECT1, PUBSUB_PROJECT2 and so on"),
        ({"PUBSUB_PROJECT1": "p,t", "AZURITE_ACCOUNT": "a:b"}, "AZURITE_ACCOUNT is not read: accounts are in AZURITE_"),
    ],
)
def test_an_unused_variable_is_named(variables: dict[str, str], sentence: str) -> None:
    (note,) = read_environment(variables).notes
    assert note.startswith(sentence)


def test_used_variables_and_the_project_of_clients_are_not_named() -> None:
    known = {"PUBSUB_PROJECT1": "p,t", "PUBSUB_PROJECT_ID": "p", "AZURITE_ACCOUNTS": "a:b"}
    assert read_environment(known).notes == []
    assert len(read_environment({"PUBSUB_PROJECT_ID": "p", "PUBSUB_TOPIC": "a", "PUBSUB_PROJECT": "p"}).notes) == 0


@pytest.mark.parametrize("where", ["", "absent.toml"])
def test_a_file_that_is_not_there(where: str, tmp_path: Path) -> None:
    with pytest.raises(SeedError, match="cannot read the seed"):
        read_seed(str(tmp_path / where), {})


def test_a_file_that_is_not_text_or_too_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "seed.toml"
    path.write_bytes(b"\xff\xfe")
    with pytest.raises(SeedError, match="is not UTF-8"):
        read_seed(str(path), {})
    monkeypatch.setattr("penstock.seeding.files.BYTES_MAX", 1)
    with pytest.raises(SeedError, match="is larger than"):
        read_seed(str(path), {})


TOML = '''
project = "p"

[[topics]]
name = "a"

[[topics]]   # the second
name = "b"
labels = { "x" = "y" }
text = """
[[topics]]
name = 5
"""
messages = [
  "one",
  { data = "two" },
]

[topics.pubsub]
kms_key_name = "k"

[[topics.deeper]]
x.y = 1

[[subscriptions]]
name = "s"
"quoted key" = 1
'''


@pytest.mark.parametrize(
    ("place", "line"),
    [
        (("project",), 2),
        (("topics", 0), 4),
        (("topics", 0, "name"), 5),
        (("topics", 1), 7),
        (("topics", 1, "labels", "x"), 9),
        (("topics", 1, "messages", 1, "data"), 14),
        (("topics", 1, "pubsub"), 19),
        (("topics", 1, "pubsub", "kms_key_name"), 20),
        (("topics", 1, "deeper", 0, "x", "y"), 23),
        (("subscriptions", 0, "name"), 26),
        (("subscriptions", 0, "quoted key"), 27),
        (("subscriptions", 0, "missing"), 25),
    ],
)
def test_the_line_of_a_place_in_toml(place: tuple[str | int, ...], line: int) -> None:
    for text in (TOML, TOML.replace("\n", "\r\n")):
        assert read_text(text, "s.toml").explain(place, "wrong").startswith(f"s.toml, line {line}: ")


def test_the_line_of_a_place_in_json() -> None:
    text = """{"project": "p",
 "topics": [
  {"name": "a:{[,"},
  {"name":
   "b", "labels": {"x": [1,
 2]}}],
 "queues": []}"""
    source = read_text(text, "s.json")
    for place, line in ((("topics", 0), 3), (("topics", 1), 4), (("topics", 1, "labels"), 5), (("queues",), 7)):
        assert source.explain(place, "wrong") == f"s.json, line {line}: wrong"
    assert source.explain(("topics", 1, "colour"), "wrong") == "s.json, line 4: colour: wrong"
    assert source.explain(("topics", 9), "wrong") == "s.json, line 2: wrong"

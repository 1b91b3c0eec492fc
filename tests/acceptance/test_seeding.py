"""A server that starts with a seed, seen through Google's client: it matches the page of each convention."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import grpc
import pytest
from azure.storage.queue import QueueClient
from google.cloud import pubsub_v1
from google.pubsub_v1.services.publisher.transports import PublisherGrpcTransport
from google.pubsub_v1.services.subscriber.transports import SubscriberGrpcTransport

from penstock.text.blocking import Client as TextClient
from tests.acceptance.azure_server import ACCOUNT, KEY, connection_string
from tests.server_process import ROOT, SECONDS, ServerProcess, clean_environment
from tests.unit.seeding.test_files import EXAMPLES, FILES

LOCAL = ("--push-allow", "127.0.0.0/8")  # some of the examples push to this machine


@contextmanager
def clients(server: ServerProcess) -> Iterator[tuple[pubsub_v1.PublisherClient, pubsub_v1.SubscriberClient]]:
    with grpc.insecure_channel(server.addresses["pubsub"]) as channel:
        publisher = pubsub_v1.PublisherClient(transport=PublisherGrpcTransport(channel=channel))
        yield publisher, pubsub_v1.SubscriberClient(transport=SubscriberGrpcTransport(channel=channel))
        publisher.stop()


def promised(server: ServerProcess, projects: set[str]) -> dict[str, Any]:
    """Return the topics as project/topic with their subscriptions, in the form of test_files.py."""
    found: dict[str, Any] = {}
    with clients(server) as (publisher, subscriber):
        for project in projects:
            for topic in publisher.list_topics(project=f"projects/{project}", timeout=SECONDS):
                found[f"{project}/{topic.name.rpartition('/')[2]}"] = {}
            for each in subscriber.list_subscriptions(project=f"projects/{project}", timeout=SECONDS):
                about: dict[str, Any] = {}
                if each.ack_deadline_seconds != 10:
                    about["ack_deadline_seconds"] = each.ack_deadline_seconds
                if each.enable_message_ordering:
                    about["enable_message_ordering"] = True
                if each.push_config.push_endpoint:
                    about["pubsub"] = {"push_config": {"push_endpoint": each.push_config.push_endpoint}}
                found[f"{project}/{each.topic.rpartition('/')[2]}"][each.name.rpartition("/")[2]] = about
    return found


def expected(topology: Mapping[str, Any]) -> dict[str, Any]:
    """Return the topology without the parts that these tests do not check."""
    return {
        topic: {name: {k: v for k, v in about.items() if k != "retry_policy"} for name, about in readers.items()}
        for topic, readers in topology.items()
    }


def projects_of(topology: Mapping[str, Any]) -> set[str]:
    return {name.partition("/")[0] for name in topology}


@pytest.mark.parametrize("whose", [whose for whose, (_, topology) in EXAMPLES.items() if topology])
def test_variables_give_the_topology_that_their_own_page_promises(whose: str, tmp_path: Path) -> None:
    variables, topology = EXAMPLES[whose]
    doors, given = ["pubsub"], ("--memory", "--seed", "env", *LOCAL)
    with ServerProcess(tmp_path, *given, doors=doors, environment=variables) as server:
        assert promised(server, projects_of(topology)) == expected(topology)


@pytest.mark.parametrize("whose", FILES)
def test_files_give_the_topology_that_their_own_page_promises(whose: str, tmp_path: Path) -> None:
    name, text, topology = FILES[whose]
    (tmp_path / name).write_text(text)
    with ServerProcess(tmp_path, "--memory", "--seed", str(tmp_path / name), *LOCAL, doors=["pubsub"]) as server:
        assert promised(server, projects_of(topology)) == expected(topology)


def test_variables_of_others_are_not_read_unless_asked_for(tmp_path: Path) -> None:
    variables = {"PUBSUB_PROJECT1": "company-dev,invoices", "AZURITE_ACCOUNTS": f"mine:{KEY}"}
    with ServerProcess(tmp_path, "--memory", doors=["pubsub", "azure"], environment=variables) as server:
        assert promised(server, {"company-dev"}) == {}
        assert f"AccountName={ACCOUNT};" in server.banner
    with ServerProcess(tmp_path, "--memory", "--seed=env", doors=["pubsub", "azure"], environment=variables) as server:
        assert promised(server, {"company-dev"}) == {"company-dev/invoices": {}}
        string = connection_string(f"http://{server.addresses['azure']}/mine", "mine")
        with QueueClient.from_connection_string(string, "jobs", retry_total=0) as queue:
            queue.create_queue()


SEED = """
project = "demo"

[[schemas]]
name = "order"
type = "AVRO"
definition = '{"type": "record", "name": "Order", "fields": [{"name": "id", "type": "string"}]}'

[[topics]]
name = "typed"
pubsub.schema_settings = { schema = "order", encoding = "JSON" }

[[topics]]
name = "orders"
labels = { team = "shop" }
retention_seconds = 3600
messages = ["one espresso", { data = "two", attributes = { size = "large" }, ordering_key = "k" }]

[[topics]]
name = "dead"

[[subscriptions]]
name = "billing"
topic = "orders"
ack_deadline_seconds = 30
enable_message_ordering = true
enable_exactly_once_delivery = true
filter = 'attributes.size = "large"'
retain_acked_messages = true
message_retention_duration = 86400
expiration_policy = { ttl = 172800 }
retry_policy = { minimum_backoff = 1, maximum_backoff = 60 }
dead_letter_policy = { dead_letter_topic = "dead", max_delivery_attempts = 7 }
labels = { who = "me" }

[[queues]]
name = "jobs"
messages = ["first job"]
"""


def test_a_seed_of_ours_is_applied_once_before_the_first_client(tmp_path: Path) -> None:
    (tmp_path / "seed.toml").write_text(SEED)
    given = ("--data", str(tmp_path / "data"), "--seed", str(tmp_path / "seed.toml"), "--default-project", "demo")
    with ServerProcess(tmp_path, *given, doors=["pubsub", "azure", "text"]) as server:
        _look(server)
        server.kill()  # after a second start nothing is published again
        server.start()
        _look(server)
        with TextClient(server.addresses["text"]) as text:
            for message in text.consume("jobs", wait_seconds=SECONDS):
                assert bytes(message.content) == b"first job"
                message.ack()
                break
            assert next(iter(text.consume("jobs", wait_seconds=0.2)), None) is None


def _look(server: ServerProcess) -> None:
    with clients(server) as (publisher, subscriber):
        topic = publisher.get_topic(topic="projects/demo/topics/orders", timeout=SECONDS)
        assert (dict(topic.labels), topic.message_retention_duration.seconds) == ({"team": "shop"}, 3600)
        typed = publisher.get_topic(topic="projects/demo/topics/typed", timeout=SECONDS)
        assert typed.schema_settings.schema == "projects/demo/schemas/order"
        found = subscriber.get_subscription(subscription="projects/demo/subscriptions/billing", timeout=SECONDS)
        policy = found.dead_letter_policy
        assert (found.ack_deadline_seconds, found.filter) == (30, 'attributes.size = "large"')
        assert (found.enable_message_ordering, found.enable_exactly_once_delivery) == (True, True)
        assert (found.retain_acked_messages, found.message_retention_duration.days) == (True, 1)
        assert (found.expiration_policy.ttl.days, dict(found.labels)) == (2, {"who": "me"})
        assert (found.retry_policy.minimum_backoff.seconds, found.retry_policy.maximum_backoff.seconds) == (1, 60)
        assert (policy.dead_letter_topic, policy.max_delivery_attempts) == ("projects/demo/topics/dead", 7)
        answer = subscriber.pull(subscription=found.name, max_messages=10, timeout=SECONDS)
        (received,) = answer.received_messages
        assert (received.message.data, received.message.ordering_key) == (b"two", "k")
        subscriber.modify_ack_deadline(subscription=found.name, ack_ids=[received.ack_id], ack_deadline_seconds=0)
        with pytest.raises(Exception, match="Invalid data in message"):
            publisher.publish("projects/demo/topics/typed", b"not an order").result(SECONDS)
    string = connection_string(f"http://{server.addresses['azure']}/{ACCOUNT}")
    with QueueClient.from_connection_string(string, "jobs", retry_total=0) as queue:
        assert [each.content for each in queue.peek_messages(max_messages=5)] == ["first job"]


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("= 30", "= 3000", "seed.toml, line 25: Ack deadline must be between 1 and 600 seconds"),
        ("= true", "= = true", "seed.toml, line 26: not valid TOML: Invalid value"),
        ('topic = "orders"', 'topic = "x"', "seed.toml, line 24: There is no topic projects/demo/topics/x, neither"),
        ('"AVRO"', '"AVROW"', "seed.toml, line 4: Invalid Pub/Sub settings: "),
    ],
)
def test_a_wrong_seed_is_one_sentence_and_leaves_nothing(old: str, new: str, sentence: str, tmp_path: Path) -> None:
    (tmp_path / "seed.toml").write_text(SEED.replace(old, new, 1))
    ports = [f"--{door}-port=off" for door in ("azure", "text", "flight", "http")]
    given = [f"--data={tmp_path / 'data'}", f"--seed={tmp_path / 'seed.toml'}", "--pubsub-port=0", *ports]
    done = subprocess.run(
        [sys.executable, "-m", "penstock", "serve", *given],
        capture_output=True,
        text=True,
        timeout=SECONDS,
        cwd=ROOT,
        env=clean_environment(),
        check=False,
    )
    assert done.returncode == 2
    (line,) = done.stderr.splitlines()
    assert line.startswith(f"penstock: {tmp_path}/{sentence}")
    assert done.stdout == ""
    assert not (tmp_path / "data").exists()

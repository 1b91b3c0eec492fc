"""The REST API with every method in Google's list, called by the vendor's client and by hand."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from importlib import resources
from pathlib import Path
from typing import Any

import httplib2
import pytest
from googleapiclient import discovery
from googleapiclient.http import HttpRequest

from tests.acceptance.google_server import GoogleServer

TOPIC, SUBSCRIPTION = "projects/walk/topics/one", "projects/walk/subscriptions/one"
SNAPSHOT, SCHEMA = "projects/walk/snapshots/one", "projects/walk/schemas/one"
AVRO = json.dumps({"type": "record", "name": "R", "fields": [{"name": "a", "type": "string"}]})


def contract() -> dict[str, Any]:
    path = resources.files("googleapiclient") / "discovery_cache" / "documents" / "pubsub.v1.json"
    document: dict[str, Any] = json.loads(path.read_text())
    return document


def method_ids(resource: dict[str, Any]) -> Iterator[str]:
    for method in resource.get("methods", {}).values():
        yield method["id"]
    for inner in resource.get("resources", {}).values():
        yield from method_ids(inner)


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[GoogleServer]:
    folder: Path = tmp_path_factory.mktemp("google-rest")
    with GoogleServer(folder, "--data", str(folder / "data")) as server:
        yield server


class Walk:
    """A client that records the methods that it called."""

    def __init__(self, address: str) -> None:
        document = contract()
        document["rootUrl"] = document["baseUrl"] = f"http://{address}/"
        self.http = httplib2.Http(timeout=30)
        self.projects = discovery.build_from_document(document, http=self.http).projects()
        self.called: set[str] = set()

    def do(self, request: HttpRequest) -> dict[str, Any]:
        self.called.add(request.methodId)
        answer: dict[str, Any] = request.execute()
        return answer


def test_every_method_of_the_public_list(server: GoogleServer) -> None:
    walk = Walk(server.address)
    walk_topics(walk)
    walk_messages(walk)
    walk_snapshots(walk)
    walk_schemas(walk)
    walk_policies(walk)
    walk_endings(walk)
    walk.http.close()
    assert walk.called == set(method_ids(contract()))
    assert len(walk.called) == 46


def walk_topics(walk: Walk) -> None:
    do, topics = walk.do, walk.projects.topics()
    assert do(topics.create(name=TOPIC, body={"labels": {"a": "b"}}))["labels"] == {"a": "b"}
    update = {"topic": {"messageRetentionDuration": "600s"}, "updateMask": "messageRetentionDuration"}
    assert do(topics.patch(name=TOPIC, body=update))["messageRetentionDuration"] == "600s"
    assert do(topics.get(topic=TOPIC))["name"] == TOPIC
    assert [each["name"] for each in do(topics.list(project="projects/walk", pageSize=10))["topics"]] == [TOPIC]


def walk_messages(walk: Walk) -> None:
    do, subscriptions = walk.do, walk.projects.subscriptions()
    made = do(subscriptions.create(name=SUBSCRIPTION, body={"topic": TOPIC, "ackDeadlineSeconds": 30}))
    assert made["expirationPolicy"] == {"ttl": "2678400s"}
    update = {"subscription": {"expirationPolicy": {"ttl": "86400s"}}, "updateMask": "expirationPolicy.ttl"}
    assert do(subscriptions.patch(name=SUBSCRIPTION, body=update))["expirationPolicy"] == {"ttl": "86400s"}
    assert do(subscriptions.get(subscription=SUBSCRIPTION))["topic"] == TOPIC
    assert len(do(subscriptions.list(project="projects/walk"))["subscriptions"]) == 1
    assert do(walk.projects.topics().subscriptions().list(topic=TOPIC))["subscriptions"] == [SUBSCRIPTION]
    body = {"messages": [{"data": base64.b64encode(b"hello").decode(), "attributes": {"k": "v"}}]}
    ids = do(walk.projects.topics().publish(topic=TOPIC, body=body))["messageIds"]
    (received,) = do(subscriptions.pull(subscription=SUBSCRIPTION, body={"maxMessages": 5}))["receivedMessages"]
    assert received["message"]["messageId"] == ids[0]
    assert base64.b64decode(received["message"]["data"]) == b"hello"
    receipts = {"ackIds": [received["ackId"]]}
    do(subscriptions.modifyAckDeadline(subscription=SUBSCRIPTION, body={**receipts, "ackDeadlineSeconds": 60}))
    assert do(subscriptions.acknowledge(subscription=SUBSCRIPTION, body=receipts)) == {}
    assert do(subscriptions.modifyPushConfig(subscription=SUBSCRIPTION, body={"pushConfig": {}})) == {}


def walk_snapshots(walk: Walk) -> None:
    do, snapshots = walk.do, walk.projects.snapshots()
    do(snapshots.create(name=SNAPSHOT, body={"subscription": SUBSCRIPTION}))
    update = {"snapshot": {"labels": {"x": "y"}}, "updateMask": "labels"}
    assert do(snapshots.patch(name=SNAPSHOT, body=update))["labels"] == {"x": "y"}
    assert do(snapshots.get(snapshot=SNAPSHOT))["topic"] == TOPIC
    assert len(do(snapshots.list(project="projects/walk"))["snapshots"]) == 1
    assert do(walk.projects.topics().snapshots().list(topic=TOPIC))["snapshots"] == [SNAPSHOT]
    seek = walk.projects.subscriptions().seek
    assert do(seek(subscription=SUBSCRIPTION, body={"snapshot": SNAPSHOT})) == {}


def walk_schemas(walk: Walk) -> None:
    do, schemas = walk.do, walk.projects.schemas()
    definition = {"type": "AVRO", "definition": AVRO}
    first = do(schemas.create(parent="projects/walk", schemaId="one", body=definition))
    second = do(schemas.commit(name=SCHEMA, body={"schema": definition}))
    assert first["revisionId"] != second["revisionId"]
    assert "definition" not in do(schemas.get(name=SCHEMA, view="BASIC"))
    assert do(schemas.get(name=f"{SCHEMA}@{first['revisionId']}"))["definition"] == AVRO
    assert len(do(schemas.list(parent="projects/walk"))["schemas"]) == 1
    assert len(do(schemas.listRevisions(name=SCHEMA))["schemas"]) == 2
    do(schemas.rollback(name=SCHEMA, body={"revisionId": first["revisionId"]}))
    do(schemas.deleteRevision(name=SCHEMA, revisionId=second["revisionId"]))
    assert do(schemas.validate(parent="projects/walk", body={"schema": definition})) == {}
    message = {"name": SCHEMA, "encoding": "JSON", "message": base64.b64encode(b'{"a": "x"}').decode()}
    assert do(schemas.validateMessage(parent="projects/walk", body=message)) == {}


def walk_policies(walk: Walk) -> None:
    projects, do = walk.projects, walk.do
    for collection, name in [
        (projects.topics(), TOPIC),
        (projects.subscriptions(), SUBSCRIPTION),
        (projects.snapshots(), SNAPSHOT),
        (projects.schemas(), SCHEMA),
    ]:
        assert do(collection.getIamPolicy(resource=name, options_requestedPolicyVersion=1)) == {"etag": "ACAB"}
        policy = {"bindings": [{"role": "roles/viewer", "members": ["user:a@example.com"]}]}
        assert do(collection.setIamPolicy(resource=name, body={"policy": policy}))["bindings"] == policy["bindings"]
        wanted = {"permissions": ["pubsub.topics.get"]}
        assert do(collection.testIamPermissions(resource=name, body=wanted)) == wanted


def walk_endings(walk: Walk) -> None:
    do, projects = walk.do, walk.projects
    assert do(projects.subscriptions().detach(subscription=SUBSCRIPTION)) == {}
    for request in [
        projects.subscriptions().delete(subscription=SUBSCRIPTION),
        projects.snapshots().delete(snapshot=SNAPSHOT),
        projects.schemas().delete(name=SCHEMA),
        projects.topics().delete(topic=TOPIC),
    ]:
        assert do(request) == {}

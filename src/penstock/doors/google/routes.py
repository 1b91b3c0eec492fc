"""The routes of the REST API: from a verb and a path to a method, and to the field for the name in the path. Pure."""

from __future__ import annotations

from typing import NamedTuple
from urllib.parse import unquote

_P, _S, _C, _I = (
    "/google.pubsub.v1.Publisher/",
    "/google.pubsub.v1.Subscriber/",
    "/google.pubsub.v1.SchemaService/",
    "/google.iam.v1.IAMPolicy/",
)
WHOLE = "*"  # the body is the request


class Route(NamedTuple):
    path: str  # path of the gRPC method
    field: str  # field of the request for the name in the path
    body: str = ""  # field of the request for the body. WHOLE: the body is the request. Empty: no body


class Match(NamedTuple):
    route: Route
    name: str


# (verb, collections in the path with * for each id, action after the colon)
_ROWS: dict[tuple[str, str, str], Route] = {
    ("PUT", "topics/*", ""): Route(_P + "CreateTopic", "name", WHOLE),
    ("PATCH", "topics/*", ""): Route(_P + "UpdateTopic", "topic.name", WHOLE),
    ("POST", "topics/*", "publish"): Route(_P + "Publish", "topic", WHOLE),
    ("GET", "topics/*", ""): Route(_P + "GetTopic", "topic"),
    ("GET", "topics", ""): Route(_P + "ListTopics", "project"),
    ("GET", "topics/*/subscriptions", ""): Route(_P + "ListTopicSubscriptions", "topic"),
    ("GET", "topics/*/snapshots", ""): Route(_P + "ListTopicSnapshots", "topic"),
    ("DELETE", "topics/*", ""): Route(_P + "DeleteTopic", "topic"),
    ("POST", "subscriptions/*", "detach"): Route(_P + "DetachSubscription", "subscription", WHOLE),
    ("PUT", "subscriptions/*", ""): Route(_S + "CreateSubscription", "name", WHOLE),
    ("GET", "subscriptions/*", ""): Route(_S + "GetSubscription", "subscription"),
    ("PATCH", "subscriptions/*", ""): Route(_S + "UpdateSubscription", "subscription.name", WHOLE),
    ("GET", "subscriptions", ""): Route(_S + "ListSubscriptions", "project"),
    ("DELETE", "subscriptions/*", ""): Route(_S + "DeleteSubscription", "subscription"),
    ("POST", "subscriptions/*", "modifyAckDeadline"): Route(_S + "ModifyAckDeadline", "subscription", WHOLE),
    ("POST", "subscriptions/*", "acknowledge"): Route(_S + "Acknowledge", "subscription", WHOLE),
    ("POST", "subscriptions/*", "pull"): Route(_S + "Pull", "subscription", WHOLE),
    ("POST", "subscriptions/*", "modifyPushConfig"): Route(_S + "ModifyPushConfig", "subscription", WHOLE),
    ("POST", "subscriptions/*", "seek"): Route(_S + "Seek", "subscription", WHOLE),
    ("GET", "snapshots/*", ""): Route(_S + "GetSnapshot", "snapshot"),
    ("GET", "snapshots", ""): Route(_S + "ListSnapshots", "project"),
    ("PUT", "snapshots/*", ""): Route(_S + "CreateSnapshot", "name", WHOLE),
    ("PATCH", "snapshots/*", ""): Route(_S + "UpdateSnapshot", "snapshot.name", WHOLE),
    ("DELETE", "snapshots/*", ""): Route(_S + "DeleteSnapshot", "snapshot"),
    ("POST", "schemas", ""): Route(_C + "CreateSchema", "parent", "schema"),
    ("GET", "schemas/*", ""): Route(_C + "GetSchema", "name"),
    ("GET", "schemas", ""): Route(_C + "ListSchemas", "parent"),
    ("GET", "schemas/*", "listRevisions"): Route(_C + "ListSchemaRevisions", "name"),
    ("POST", "schemas/*", "commit"): Route(_C + "CommitSchema", "name", WHOLE),
    ("POST", "schemas/*", "rollback"): Route(_C + "RollbackSchema", "name", WHOLE),
    ("DELETE", "schemas/*", "deleteRevision"): Route(_C + "DeleteSchemaRevision", "name"),
    ("DELETE", "schemas/*", ""): Route(_C + "DeleteSchema", "name"),
    ("POST", "schemas", "validate"): Route(_C + "ValidateSchema", "parent", WHOLE),
    ("POST", "schemas", "validateMessage"): Route(_C + "ValidateMessage", "parent", WHOLE),
}
_POLICIES = {
    ("GET", "getIamPolicy"): Route(_I + "GetIamPolicy", "resource"),
    ("POST", "setIamPolicy"): Route(_I + "SetIamPolicy", "resource", WHOLE),
    ("POST", "testIamPermissions"): Route(_I + "TestIamPermissions", "resource", WHOLE),
}
ROUTES = _ROWS | {
    (verb, f"{collection}/*", action): route
    for collection in ("topics", "subscriptions", "snapshots", "schemas")
    for (verb, action), route in _POLICIES.items()
}


def match(verb: str, path: str) -> Match | None:
    """Return the route of a request and the name in its path, or None if there is no such route."""
    parts = unquote(path).split("/")  # the whole path: some clients escape the slashes of a name and the colon after it
    if len(parts) < 5 or parts[:3] != ["", "v1", "projects"]:
        return None
    last, colon, action = parts[-1].rpartition(":")
    names = [*parts[2:-1], last if colon else parts[-1]]
    shape = "/".join("*" if index % 2 else name for index, name in enumerate(names[2:]))
    route = ROUTES.get((verb, shape, action if colon else ""))
    if route is None:
        return None
    # The name in the path ends with an id. A collection after the id belongs to the method.
    return Match(route, "/".join(names if len(names) % 2 == 0 else names[:-1]))

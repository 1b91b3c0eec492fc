"""The body and the headers of a push request.

An attribute becomes a header only if it is a valid one, and never a header that frames the request or that the server
sets itself.
"""

from __future__ import annotations

import base64
import json
from typing import Any, NamedTuple

from penstock.doors.google.dead_letters import rfc3339
from penstock.engine.port import Delivery

_TOKEN = frozenset("!#$%&'*+-.^_`|~0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ")
_OURS = frozenset(
    {"authorization", "connection", "content-length", "content-type", "host", "te", "trailer", "transfer-encoding"}
    | {"upgrade", "user-agent", "expect", "proxy-authorization"}
)


class PushRequest(NamedTuple):
    body: bytes
    headers: list[tuple[str, str]]


def build_push_request(config: Any, subscription: str, delivery: Delivery, *, with_attempt: bool) -> PushRequest:
    if config.WhichOneof("wrapper") == "no_wrapper":
        headers = _metadata(subscription, delivery) if config.no_wrapper.write_metadata else []
        return PushRequest(delivery.message.data, [("Content-Type", "application/octet-stream"), *headers])
    body = wrap_message(subscription, delivery, with_attempt=with_attempt)
    return PushRequest(json.dumps(body).encode(), [("Content-Type", "application/json")])


def wrap_message(subscription: str, delivery: Delivery, *, with_attempt: bool) -> dict[str, Any]:
    message = delivery.message
    published = rfc3339(message.publish_time)
    content: dict[str, Any] = {"messageId": delivery.id, "message_id": delivery.id}
    content |= {"publishTime": published, "publish_time": published}
    if message.data:
        content["data"] = base64.b64encode(message.data).decode()
    if message.attributes:
        content["attributes"] = dict(message.attributes)
    if message.ordering_key:
        content["orderingKey"] = message.ordering_key
    body: dict[str, Any] = {"message": content, "subscription": subscription}
    if with_attempt:
        body["deliveryAttempt"] = delivery.attempt
    return body


def _metadata(subscription: str, delivery: Delivery) -> list[tuple[str, str]]:
    message = delivery.message
    headers = [
        ("x-goog-pubsub-subscription-name", subscription),
        ("x-goog-pubsub-message-id", delivery.id),
        ("x-goog-pubsub-publish-time", rfc3339(message.publish_time)),
    ]
    if message.ordering_key and _is_value(message.ordering_key):
        headers.append(("x-goog-pubsub-ordering-key", message.ordering_key))
    headers += [(key, value) for key, value in message.attributes.items() if _is_header(key) and _is_value(value)]
    return headers


def _is_header(name: str) -> bool:
    lower = name.lower()
    return bool(name) and _TOKEN.issuperset(name) and lower not in _OURS and not lower.startswith("x-goog")


def _is_value(value: str) -> bool:
    return value.isascii() and value.isprintable()

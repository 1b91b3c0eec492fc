"""Messages that do not match the schema of their topic.

A move does not check messages, because it does not change them.
"""

from __future__ import annotations

import base64
import time

from penstock.admin.client import Client


def publish_unchecked(client: Client, topic: str, body: bytes) -> None:
    client.post("/topics", {"name": "unchecked"})
    client.post("/subscriptions", {"name": "unchecked-read", "topic": "unchecked"})
    message = {"data_base64": base64.b64encode(body).decode()}
    client.post("/topics/unchecked/messages", {"messages": [message]})
    move = client.post("/moves", {"from": "unchecked-read", "to": topic})
    until = time.monotonic() + 60
    while client.get(f"/moves/{move['id']}")["moved"] == 0 and time.monotonic() < until:
        pass
    client.delete("/subscriptions/unchecked-read")
    client.delete("/topics/unchecked")

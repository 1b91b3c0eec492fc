"""Publish messages in batches. A batch that is retried is stored once."""

from __future__ import annotations

import base64
import hashlib
import json
import time
import uuid
from collections.abc import Iterable, Iterator, Mapping
from threading import Event
from typing import Any

from penstock.commands.session import Session, path_of
from penstock.errors import UnavailableError

BATCH_MESSAGES, BATCH_BYTES = 1000, 4 << 20  # the server accepts 1000 messages and 16 MiB in one request
OVERHEAD_BYTES = 100
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 2.0


def draft(
    body: bytes, attributes: Mapping[str, str], key: str = "", options: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """Return a message as the admin API takes it: as text if the body is UTF-8, else as base64."""
    made: dict[str, Any] = {**(options or {})}
    try:
        made["data"] = body.decode()
    except UnicodeDecodeError:
        made["data_base64"] = base64.b64encode(body).decode()
    if attributes:
        made["attributes"] = dict(attributes)
    if key:
        made["ordering_key"] = key
    return made


def draft_bytes(message: Mapping[str, Any]) -> int:
    attributes = sum(len(key) + len(value) for key, value in message.get("attributes", {}).items())
    return OVERHEAD_BYTES + 2 * (len(message.get("data", "")) + attributes) + len(message.get("data_base64", ""))


class BatchPublisher:
    """A publisher of batches to one topic, with a publish-once key for each batch.

    With `by_content`, the key of a batch follows from all messages up to the end of the batch. If the same messages are
    sent again from the beginning, batches that were published before are not published twice.
    """

    def __init__(
        self, session: Session, topic: str, *, retry_seconds: float, by_content: bool = False, exported: bool = False
    ) -> None:
        """`exported`: the messages come from a topic, and may have more attributes than a publisher may set."""
        self._session = session
        self._extra: dict[str, Any] = {"exported": True} if exported else {}
        self._path = path_of("topics", topic, "messages")
        self._retry_seconds = retry_seconds
        self._producer = "" if by_content else f"penstock-publish-{uuid.uuid4().hex}"
        self._content = hashlib.sha256() if by_content else None
        self._sequence = -1
        self._never = Event()
        self.sent = 0
        self.first_offset = 0  # of the last batch

    def send_all(
        self, drafts: Iterable[dict[str, Any]], *, largest: int = BATCH_MESSAGES, at_once: bool = False
    ) -> Iterator[list[str]]:
        """Yield the ids of each batch. With `at_once`, a batch waits at most a tenth of a second for more messages."""
        batch: list[dict[str, Any]] = []
        size, began = 0, time.monotonic()
        for message in drafts:
            message_bytes = draft_bytes(message)
            if batch and size + message_bytes > BATCH_BYTES:
                yield self.send(batch)
                batch, size, began = [], 0, time.monotonic()
            batch.append(message)
            size += message_bytes
            if len(batch) >= largest or (at_once and time.monotonic() - began > 0.1):
                yield self.send(batch)
                batch, size, began = [], 0, time.monotonic()
        if batch:
            yield self.send(batch)

    def send(self, batch: list[dict[str, Any]]) -> list[str]:
        once = self._next_key(batch)
        until, pause = time.monotonic() + self._retry_seconds, FIRST_PAUSE_SECONDS
        while True:
            try:
                answer = self._session.post(self._path, {"messages": batch, "once": once, **self._extra})
                break
            except UnavailableError:
                if time.monotonic() + pause > until:
                    raise
                self._never.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self.sent += len(batch)
        self.first_offset = int(answer["first_offset"])
        return [str(message_id) for message_id in answer["ids"]]

    def _next_key(self, batch: list[dict[str, Any]]) -> dict[str, Any]:
        self._sequence += 1
        if self._content is not None:
            self._content.update(json.dumps(batch, sort_keys=True).encode())
            digest = self._content.digest()
            self._producer = self._producer or f"penstock-import-{digest.hex()}"
            self._sequence = int.from_bytes(digest[:8], "big") >> 1
        return {"producer": self._producer, "epoch": 0, "sequence": self._sequence}

"""Messages to a topic in batches, each taken once however often it has to be sent."""

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

BATCH_MESSAGES, BATCH_BYTES = 1000, 4 << 20  # the server takes 1000, and a body of 16 MiB
OVERHEAD_BYTES = 100
FIRST_PAUSE_SECONDS, LONGEST_PAUSE_SECONDS = 0.1, 2.0


def draft(
    body: bytes, attributes: Mapping[str, str], key: str = "", options: Mapping[str, float] | None = None
) -> dict[str, Any]:
    """A message as the API takes it: text where it is UTF-8, so that what is sent can be read."""
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


def draft_bytes(each: Mapping[str, Any]) -> int:
    attributes = sum(len(key) + len(value) for key, value in each.get("attributes", {}).items())
    return OVERHEAD_BYTES + 2 * (len(each.get("data", "")) + attributes) + len(each.get("data_base64", ""))


class Sender:
    """`by_content`: what began with the same messages is the same; of it nothing is published twice.

    The publish-once key of a batch then follows from all messages up to its end. So one that is broken off goes on
    where it stopped whatever comes after that place, and no batch is taken for one with other messages before it.
    """

    def __init__(self, session: Session, topic: str, *, retry_seconds: float, by_content: bool = False) -> None:
        self._session = session
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
        """The ids, batch by batch. `at_once`: a batch goes also when a tenth of a second is over."""
        batch: list[dict[str, Any]] = []
        size, began = 0, time.monotonic()
        for each in drafts:
            more = draft_bytes(each)
            if batch and size + more > BATCH_BYTES:
                yield self.send(batch)
                batch, size, began = [], 0, time.monotonic()
            batch.append(each)
            size += more
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
                answer = self._session.post(self._path, {"messages": batch, "once": once})
                break
            except UnavailableError:
                if time.monotonic() + pause > until:
                    raise
                self._never.wait(pause)
                pause = min(2 * pause, LONGEST_PAUSE_SECONDS)
        self.sent += len(batch)
        self.first_offset = int(answer["first_offset"])
        return [str(each) for each in answer["ids"]]

    def _next_key(self, batch: list[dict[str, Any]]) -> dict[str, Any]:
        self._sequence += 1
        if self._content is not None:
            self._content.update(json.dumps(batch, sort_keys=True).encode())
            digest = self._content.digest()
            self._producer = self._producer or f"penstock-import-{digest.hex()}"
            self._sequence = int.from_bytes(digest[:8], "big") >> 1
        return {"producer": self._producer, "epoch": 0, "sequence": self._sequence}

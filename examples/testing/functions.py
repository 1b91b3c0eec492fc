"""A worker for Azure queues, with the rules of Azure Functions.

A message is leased for ten minutes. If the function fails, the message is visible again at once, or after
`visibility_timeout`. When it has failed `max_dequeue_count` times, it goes to the queue of the same name with -poison.
A message that workers received too often before they died goes there without another attempt.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from typing import Any

from azure.core.exceptions import ResourceExistsError
from azure.storage.queue import QueueMessage, QueueServiceClient

LEASE_SECONDS = 600
BATCH_SIZE = 16


class QueueTrigger:
    def __init__(
        self,
        service: QueueServiceClient,
        queue: str,
        function: Callable[[str], object],
        *,
        visibility_timeout: int = 0,
        max_dequeue_count: int = 5,
    ) -> None:
        self._queue = service.get_queue_client(queue)
        self._poison = service.get_queue_client(f"{queue}-poison")
        self._function = function
        self._visibility_timeout = visibility_timeout
        self._max_dequeue_count = max_dequeue_count

    def poll(self) -> int:
        """Receive the visible messages and call the function for each. Return their number."""
        taken = list(self._queue.receive_messages(max_messages=BATCH_SIZE, visibility_timeout=LEASE_SECONDS))
        for message in taken:
            self._handle(message)
        return len(taken)

    def _handle(self, message: QueueMessage) -> None:
        if message.dequeue_count > self._max_dequeue_count:
            self._give_up(message)
            return
        try:
            self._function(message.content)
        except Exception:  # noqa: BLE001 - the worker continues, whatever the function raises
            self._fail(message)
        else:
            self._queue.delete_message(message)

    def _fail(self, message: QueueMessage) -> None:
        if message.dequeue_count >= self._max_dequeue_count:
            self._give_up(message)
        else:
            self._queue.update_message(message, visibility_timeout=self._visibility_timeout)

    def _give_up(self, message: QueueMessage) -> None:
        with suppress(ResourceExistsError):
            self._poison.create_queue()
        self._poison.send_message(message.content)
        self._queue.delete_message(message)


def failing(times: int, done: list[str]) -> Callable[[str], Any]:
    """Return a function that fails `times` times, and then appends its argument to `done`."""
    left = [times]

    def function(text: str) -> None:
        if left[0] > 0:
            left[0] -= 1
            raise RuntimeError("not yet")
        done.append(text)

    return function

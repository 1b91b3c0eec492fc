"""The last step of a feed: messages assigned to windows are sent, in the order of their leases, once they are durable.

A lease need not be durable first, because no lease of a connection outlives the process. Usually the messages are
durable already, and are sent at once.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from penstock.doors.text.windows import Share
from penstock.engine.port import Leased


@dataclass(frozen=True, slots=True, eq=False)
class Block:
    """The messages of one pull, assigned to windows."""

    shares: list[Share]
    durable: asyncio.Future[None]  # the commit of the leases
    topic: int  # first id of the topic
    end: int  # offset behind the last message
    tail: int  # of the topic at the time of the pull: every message below it is durable with this commit


class Dispatcher:
    """The blocks of one queue that are not sent yet."""

    def __init__(self, on_room: Callable[[list[Share]], None]) -> None:
        self._on_room = on_room  # called when the windows of these shares may have room again
        self._waiting: deque[Block] = deque()  # in the order of their leases
        self._durable_topic, self._durable_until = 0, 0  # messages of this first id below this offset are durable

    def dispatch(self, leased: Leased, shares: list[Share]) -> None:
        """T-024: send at once if the messages are known to be durable, else when a commit has made them durable.

        T-014: a block never overtakes an earlier block that still waits.
        """
        last = leased.deliveries[-1]
        block = Block(shares, leased.durable, last.first_id, last.message.offset + 1, leased.tail)
        if not self._waiting and self._is_durable(block):
            leased.durable.add_done_callback(partial(self._unassign_if_lost, shares))
            self._send(shares)
            return
        for share in shares:
            share.window.client.promised_bytes += share.size
        self._waiting.append(block)
        leased.durable.add_done_callback(partial(self._on_commit, block))

    def _is_durable(self, block: Block) -> bool:
        return block.topic == self._durable_topic and block.end <= self._durable_until

    def _on_commit(self, block: Block, commit: asyncio.Future[None]) -> None:
        """Send every waiting block up to this one, and the blocks behind it that its commit made durable as well.

        Commits keep the order of the leases, so the commits of earlier blocks have ended too, even where their
        callbacks have yet to run.
        """
        if commit.exception() is not None:
            if block in self._waiting:
                self._waiting.remove(block)
                self._take_off_promises(block)
            return self._unassign_if_lost(block.shares, commit)
        self._durable_topic, self._durable_until = block.topic, block.tail
        while self._waiting and (block in self._waiting or self._is_durable(self._waiting[0])):
            ready = self._waiting.popleft()
            self._take_off_promises(ready)
            if not ready.durable.done() or ready.durable.exception() is None:
                self._send(ready.shares)

    def _take_off_promises(self, block: Block) -> None:
        for share in block.shares:
            share.window.client.promised_bytes -= share.size

    def _unassign_if_lost(self, shares: list[Share], commit: asyncio.Future[None]) -> None:
        if commit.exception() is not None:
            for share in shares:
                share.window.unassign(share)
            self._on_room(shares)

    def _send(self, shares: list[Share]) -> None:
        for share in shares:
            share.window.send(share)
        self._on_room(shares)

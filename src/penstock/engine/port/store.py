"""The store as doors see it: backups, durability, and the facts as they are applied."""

from __future__ import annotations

from asyncio import Future
from collections.abc import AsyncGenerator, Awaitable, Callable, Iterable
from typing import Protocol, TypeAlias

from penstock.broker.facts import Fact
from penstock.engine.views import Store
from penstock.journal.port import BackupProgress, BackupReport

Listener: TypeAlias = Callable[..., None]


class StoreAccess(Protocol):
    def backup(self, folder: str) -> AsyncGenerator[BackupProgress | BackupReport, None]:
        """Copy everything durable into a folder on the server's machine. The last item is the report.

        Closing the generator early stops the backup.
        """

    def store(self) -> Awaitable[Store]:
        """Return how and where messages are stored."""

    def commit(self) -> Future[None]:
        """Wait until everything decided so far is durable: a barrier between lookups and the answer to a client."""


class News(Protocol):
    def on(self, kinds: Iterable[type[Fact]], listener: Listener) -> Listener:
        """Call a listener in the loop with every fact of these kinds, in order. `off` with the answer ends that."""

    def on_reset(self, listener: Callable[[], None]) -> Listener:
        """Call a listener in the loop when decisions were lost because the broker went back to its last commit."""

    def off(self, listener: Listener) -> None: ...

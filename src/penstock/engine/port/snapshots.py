"""Snapshots of subscriptions, as doors see them."""

from __future__ import annotations

from asyncio import Future
from collections.abc import Awaitable
from typing import Protocol

from penstock.broker.dump import SnapshotDump


class Snapshots(Protocol):
    def create_snapshot(
        self, snapshot: str, subscription: str, labels: dict[str, str] | None = None
    ) -> Future[SnapshotDump]: ...

    def change_snapshot(self, name: str, *, expires_at: int, labels: dict[str, str]) -> Future[SnapshotDump]: ...

    def delete_snapshot(self, name: str) -> Future[None]: ...

    def snapshots(self) -> Awaitable[list[SnapshotDump]]: ...
